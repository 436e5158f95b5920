/* SPDX-License-Identifier: MIT */
/* Runs commands of heaptape-convert for tests, each in a child that is forked here: a fifth of the time that starting
   the program takes. convert_server OUT_FD ERR_FD: the files that take the commands' output.

   A request on standard input: its number of bytes (u32), the bytes of address space that it may take (u64; 0: any),
   then the working directory and the words of the command, each with a NUL at its end. The answer on standard output:
   the status (u32), as wait returns it. */
int convert_main(int argc, char **argv);
#define main convert_main
#include "convert/commands/convert_main.c"
#undef main

#include "core/test/usual.h"

enum { MAX_WORDS = 1 << 16 };

static _Noreturn void run_command(uint64_t most_bytes, char *text, const char *end, char *const fds[]) {
  static char *words[MAX_WORDS + 1];
  int count = 0;
  const char *directory = text;
  for (text += strlen(text) + 1; text < end && count < MAX_WORDS; text += strlen(text) + 1)
    words[count++] = text;
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (chdir(directory) != 0 || dup2(nothing, 0) < 0 || dup2(atoi(fds[0]), 1) < 0 || dup2(atoi(fds[1]), 2) < 0 ||
      (most_bytes && setrlimit(RLIMIT_AS, &(struct rlimit){most_bytes, most_bytes}) != 0))
    abort();
  exit(convert_main(count, words));
}

int main(int argc, char **argv) {
  struct __attribute__((packed)) {
    uint32_t bytes;
    uint64_t most_bytes;
  } request;
  uint32_t status;
  while (argc == 3 && read(0, &request, sizeof request) == sizeof request) {
    const uint32_t bytes = request.bytes;
    char *text = malloc(bytes);
    for (size_t got = 0; got < bytes;) {
      ssize_t more = read(0, text + got, bytes - got);
      if (more <= 0)
        return 1;
      got += (size_t)more;
    }
    pid_t child = fork();
    if (child == 0)
      run_command(request.most_bytes, text, text + bytes, argv + 1);
    int end;
    if (child < 0 || waitpid(child, &end, 0) != child)
      return 1;
    status = (uint32_t)end;
    if (write(1, &status, sizeof status) != sizeof status)
      return 1;
    free(text);
  }
  return 0;
}

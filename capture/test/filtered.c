/* SPDX-License-Identifier: MIT */
/* filtered FILTER... -- PROGRAM...: puts itself under the filters of system calls (seccomp) in these files, arrays of
   struct sock_filter, and executes the program. filtered -list NUMBER... prints a filter that kills a process for all
   calls but those that attaching makes, with their arguments, and those of these numbers. */
#include "core/test/usual.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

#define CALL(purpose, need, number, words, ...) {number, {__VA_ARGS__}},
struct argument {
  uint8_t number;
  uint64_t value;
};
static const struct {
  uint32_t number;
  struct argument known[3];
} calls[] = {
#include "capture/wire/seccomp_calls.def"
};

static void put(uint16_t code, uint32_t k, uint8_t jt, uint8_t jf) {
  struct sock_filter one = {code, jt, jf, k};
  fwrite(&one, sizeof one, 1, stdout);
}

static void allow_where(uint32_t number, const struct argument known[3]) {
  uint8_t more = 0;
  for (int i = 0; i < 3; i++)
    more += known[i].number ? 2 : 0;
  put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
  put(BPF_JMP | BPF_JEQ | BPF_K, number, 0, more + 1);
  for (int i = 0; i < 3 && known[i].number; i++) {
    more -= 2;
    put(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args) + (known[i].number - 1u) * 8, 0, 0);
    put(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)known[i].value, 0, more + 1);
  }
  put(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static int print_list(char **numbers) {
  for (; *numbers; numbers++)
    allow_where((uint32_t)atoi(*numbers), (struct argument[3]){{0, 0}});
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    allow_where(calls[i].number, calls[i].known);
  put(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
  return 0;
}

static int add_filter(const char *path) {
  static struct sock_filter code[4096];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = read(fd, code, sizeof code);
  struct sock_fprog filter = {(unsigned short)(got / (ssize_t)sizeof *code), code};
  close(fd);
  return got <= 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int count, char **argument) {
  if (count > 1 && strcmp(argument[1], "-list") == 0)
    return print_list(argument + 2);
  char **next = argument + 1;
  for (; *next && strcmp(*next, "--") != 0; next++)
    if (add_filter(*next) != 0) {
      perror(*next);
      return 1;
    }
  if (*next)
    execv(next[1], next + 1);
  return 1;
}

/* SPDX-License-Identifier: MIT */
/* executes [WORDS...] WAY PROGRAM: executes the program, and ends with its status.

   Words: "kill:N,N": before that, a filter that forbids these calls, set by prctl; "own:N": by an instruction of its
   own; "root:PATH": in that root directory; "user:NUMBER": as that user;
   "preload:VALUE": with that LD_PRELOAD; "fork", "vfork": in a child; "thread": in a thread. WAY: a function, or
   "syscall". After "fails" WAY is called once before, for a program that is not there. */
#include "core/test/usual.h"
#include "set_filter.h"

#include <spawn.h>

extern char **environ;

static const char *way;
static char **words;

static int status_of(int pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void execute(char *program) {
  int pid, fd;
  if (strcmp(way, "execve") == 0)
    execve(program, words, environ);
  else if (strcmp(way, "execv") == 0)
    execv(program, words);
  else if (strcmp(way, "execvp") == 0)
    execvp(program, words);
  else if (strcmp(way, "execvpe") == 0)
    execvpe(program, words, environ);
  else if (strcmp(way, "execl") == 0)
    execl(program, program, "word", NULL);
  else if (strcmp(way, "execlp") == 0)
    execlp(program, program, "word", NULL);
  else if (strcmp(way, "execle") == 0)
    execle(program, program, "word", NULL, environ);
  else if (strcmp(way, "fexecve") == 0 && (fd = open(program, O_RDONLY | O_CLOEXEC)) >= 0)
    fexecve(fd, words, environ);
  else if (strcmp(way, "execveat") == 0)
    syscall(SYS_execveat, AT_FDCWD, program, words, environ, 0);
  else if (strcmp(way, "syscall") == 0)
    syscall(SYS_execve, program, words, environ);
  else if (strcmp(way, "posix_spawn") == 0 && posix_spawn(&pid, program, NULL, NULL, words, environ) == 0)
    _exit(status_of(pid));
  else if (strcmp(way, "posix_spawnp") == 0 && posix_spawnp(&pid, program, NULL, NULL, words, environ) == 0)
    _exit(status_of(pid));
}

static int run_by_shell(int pipes) {
  FILE *pipe = pipes ? popen(words[0], "r") : NULL;
  int status = pipes ? pclose(pipe) : system(words[0]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void *in_thread(void *unused) {
  execute(words[0]);
  return unused;
}

int main(int argc, char **argv) {
  int child = -1;
  pthread_t thread;
  free(malloc(100));
  for (char **word = argv + 1; *word; word++) {
    if (strncmp(*word, "kill:", 5) == 0) {
      set_filter(*word + 5, SECCOMP_RET_KILL_PROCESS, 0);
    } else if (strncmp(*word, "own:", 4) == 0) {
      set_filter(*word + 4, SECCOMP_RET_KILL_PROCESS, 1);
    } else if (strncmp(*word, "root:", 5) == 0) {
      if (chroot(*word + 5) != 0 || chdir("/") != 0)
        return 97;
    } else if (strncmp(*word, "user:", 5) == 0) {
      if (setuid((uid_t)atoi(*word + 5)) != 0)
        return 97;
    } else if (strncmp(*word, "preload:", 8) == 0) {
      setenv("LD_PRELOAD", *word + 8, 1);
    } else if (strcmp(*word, "fork") == 0 && (child = fork()) > 0) {
      return status_of(child);
    } else if (strcmp(*word, "vfork") == 0 && (child = vfork()) > 0) {
      return status_of(child);
    } else if (strcmp(*word, "system") == 0 || strcmp(*word, "popen") == 0) {
      words = word + 1;
      return run_by_shell(**word == 'p');
    } else if (strncmp(*word, "exec", 4) == 0 || strcmp(*word, "syscall") == 0 || strncmp(*word, "posix", 5) == 0 ||
               strcmp(*word, "fexecve") == 0) {
      way = *word;
      words = word + 1;
      if (strcmp(word[-1], "fails") == 0)
        execute((char[]){"/no/such/program"});
      if (strcmp(word[-1], "thread") != 0)
        execute(words[0]);
      else if (pthread_create(&thread, NULL, in_thread, NULL) == 0)
        pthread_join(thread, NULL);
      _exit(98);
    }
  }
  return argc < 0;
}

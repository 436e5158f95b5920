/* SPDX-License-Identifier: MIT */
#include "observe/machine/stepping.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* Waits until the child stops. Returns the signal that stopped it, or 0: it has ended. */
static int stop_of(pid_t child) {
  int status;
  if (TEMP_FAILURE_RETRY(waitpid(child, &status, 0)) < 0)
    return 0;
  return WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
}

__attribute__((noreturn)) static void be_traced(void (*call)(unsigned), unsigned argument) {
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
    _exit(1);
  raise(SIGSTOP);
  call(argument);
  raise(SIGSTOP);
  _exit(0);
}

static int64_t step_through(pid_t child) {
  int64_t count = 0;
  for (int stopped = SIGTRAP; stopped == SIGTRAP; count++) {
    if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0)
      return -1;
    stopped = stop_of(child);
    if (stopped == SIGSTOP)
      return count;
  }
  return -1;
}

int64_t stepping_count(void (*call)(unsigned), unsigned argument) {
  pid_t child = fork();
  if (child < 0)
    return -1;
  if (child == 0)
    be_traced(call, argument);
  int stopped = stop_of(child);
  int64_t count = stopped == SIGSTOP ? step_through(child) : -1;
  if (stopped) {
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
      ;
  }
  return count;
}

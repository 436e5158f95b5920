/* SPDX-License-Identifier: MIT */
/* An allocator that misbehaves as a process, at its 40th malloc, as LEAVE says: "process" leaves a process of a session
   of its own that holds every descriptor; "storm" leaves processes that start others; "stop" stops its parent; "flood"
   writes without end to stdout and stderr; "closed" closes all descriptors; "parent" kills its parent, and leaves a
   process of its session; "traced" asks its parent to trace it, and stops; "group" kills its group; "ones" cuts the
   files that it can, or fills them with ones. Its processes are named by LEAVE_NAME. It has only malloc and free. */
#include "core/test/usual.h"

#include <sys/ptrace.h>

#define PUBLIC __attribute__((visibility("default")))

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);

static int calls;

static void leave_process(bool own_session) {
  if (fork() != 0)
    return;
  if (fork() != 0)
    _exit(0);
  if (own_session)
    setsid();
  prctl(PR_SET_NAME, getenv("LEAVE_NAME"));
  for (;;)
    sleep(600);
}

static void leave_storm(void) {
  if (fork() != 0)
    return;
  prctl(PR_SET_NAME, getenv("LEAVE_NAME"));
  for (;;) {
    if (fork() != 0)
      _exit(0);
    usleep(200);
  }
}

static void flood(void) {
  static const char line[] = "the allocator has something to say, again and again and again and again, and again\n";
  for (int round = 0; round < 20000; round++) {
    ssize_t written = write(STDERR_FILENO, line, sizeof line - 1);
    written = write(STDOUT_FILENO, line, sizeof line - 1);
    (void)written;
  }
}

static void cut_files(void) {
  for (int file = 3; file < 100; file++)
    (void)!ftruncate(file, 1);
}

static void misbehave(const char *how) {
  if (strcmp(how, "process") == 0 || strcmp(how, "parent") == 0)
    leave_process(strcmp(how, "process") == 0);
  if (strcmp(how, "storm") == 0)
    leave_storm();
  if (strcmp(how, "closed") == 0)
    close_range(3, ~0u, 0);
  if (strcmp(how, "stop") == 0)
    kill(getppid(), SIGSTOP);
  if (strcmp(how, "parent") == 0)
    kill(getppid(), SIGKILL);
  if (strcmp(how, "traced") == 0)
    raise(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? SIGTRAP : SIGABRT);
  if (strcmp(how, "group") == 0)
    kill(0, SIGKILL);
  if (strcmp(how, "cut") == 0)
    cut_files();
  if (strcmp(how, "flood") == 0)
    flood();
}

PUBLIC void *malloc(size_t bytes) {
  const char *how = getenv("LEAVE");
  if (++calls == 40 && how)
    misbehave(how);
  return __libc_malloc(bytes);
}

PUBLIC void free(void *object) {
  __libc_free(object);
}

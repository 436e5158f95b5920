/* SPDX-License-Identifier: MIT */
#include "capture/attach/tracee/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__x86_64__)

#define CALL(purpose, need, number, words, ...) {SECCOMP_##need, number, words, {__VA_ARGS__}},
static const struct seccomp_call calls[] = {
#include "capture/wire/seccomp_calls.def"
};

typedef VECTOR(struct sock_fprog) filters_t;

/* Takes the program over. False: no memory. */
static bool add(filters_t *filters, struct sock_fprog program) {
  for (size_t i = 0; i < filters->count; i++)
    if (filters->at[i].len == program.len &&
        memcmp(filters->at[i].filter, program.filter, program.len * sizeof *program.filter) == 0) {
      free(program.filter);
      return true;
    }
  struct sock_fprog *added = vector_add(filters);
  if (added)
    *added = program;
  else
    free(program.filter);
  return added != NULL;
}

/* False, with errno: they can't be read. */
static bool read_thread(filters_t *filters, int tid) {
  for (unsigned long i = 0;; i++) {
    long length = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, i, NULL);
    if (length <= 0 || length > BPF_MAXINSNS)
      return errno == ENOENT;
    struct sock_fprog program = {(unsigned short)length, calloc((size_t)length, sizeof(struct sock_filter))};
    if (!program.filter)
      return false;
    if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, i, program.filter) != length) {
      free(program.filter);
      return false;
    }
    if (!add(filters, program))
      return false;
  }
}

static bool is_permitted(const filters_t *filters, const struct seccomp_call *call) {
  uint32_t action = SECCOMP_RET_ALLOW;
  for (size_t i = 0; i < filters->count; i++)
    action = seccomp_more_restrictive(action, seccomp_evaluate(&filters->at[i], call));
  return seccomp_permits(action, call);
}

static int read_all(filters_t *filters, struct tracee *tracee, struct error *error) {
  if (tracee_hold(tracee, error) != 0)
    return -1;
  static const struct seccomp_call restart = {.number = SYS_restart_syscall};
  int number = 0;
  for (size_t i = 0; i < tracee->threads.count; i++) {
    const struct tracee_thread *thread = &tracee->threads.at[i];
    errno = EAGAIN; /* it sleeps in the kernel */
    if (!number && (thread->state != TRACEE_STOPPED || !read_thread(filters, thread->tid)))
      number = errno;
    if (number || !is_permitted(filters, &restart))
      tracee_avoid_restart(thread);
  }
  tracee_release(tracee);
  if (!number)
    return 0;
  char name[32];
  snprintf(name, sizeof name, "process %d", tracee->pid);
  return error_set(error, name, "is under a filter of system calls (seccomp) that can't be read: %s%s",
                   strerror(number), number == EACCES || number == EPERM ? " (only root outside a container may)" : "");
}

int seccomp_check(struct tracee *tracee, bool elsewhere, struct error *error) {
  filters_t filters = {NULL, 0, 0};
  int result = read_all(&filters, tracee, error);
  for (size_t i = 0; result == 0 && i < sizeof calls / sizeof *calls; i++)
    if (calls[i].need != SECCOMP_STARTED && (elsewhere || calls[i].need != SECCOMP_ELSEWHERE) &&
        !is_permitted(&filters, &calls[i])) {
      char name[32];
      snprintf(name, sizeof name, "process %d", tracee->pid);
      result = error_set(error, name, "its filter of system calls (seccomp) forbids %s, which attaching needs",
                         calls[i].words);
    }
  for (size_t i = 0; i < filters.count; i++)
    free(filters.at[i].filter);
  free(filters.at);
  return result;
}

#else

/* Never used: target_check refuses. */
int seccomp_check(struct tracee *tracee, bool elsewhere, struct error *error) {
  (void)elsewhere;
  return error_set(error, "--attach", "process %d: is for x86-64 only", tracee->pid);
}

#endif

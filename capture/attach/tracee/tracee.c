/* SPDX-License-Identifier: MIT */
#include "capture/attach/tracee/tracee.h"

#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  POLL_US = 50,
  HOLD_NS = 2000000000, /* until then all threads must be held */
  KERNEL_NS = 10000000, /* a thread that has slept uninterruptibly in the kernel for this long counts as held */
  SETTLE_NS = 1000000000,
  SIGNAL_MASK_BYTES = 8,
  SYSCALL_STOP = SIGTRAP | 0x80, /* by PTRACE_O_TRACESYSGOOD */
  EVENT_STOP = SIGTRAP | PTRACE_EVENT_STOP << 8,
};

void tracee_proc_path(int pid, const char *file, char *path) {
  snprintf(path, TRACEE_PATH_BYTES, "/proc/%d/%s", pid, file);
  if (proc_thread_state(pid, pid))
    return;
  DIR *threads = proc_open_threads(pid);
  int tid;
  while ((tid = proc_next(threads)) && !proc_thread_state(pid, tid))
    ;
  if (tid)
    snprintf(path, TRACEE_PATH_BYTES, "/proc/%d/task/%d/%s", pid, tid, file);
  if (threads)
    closedir(threads);
}

int tracee_open(struct tracee *tracee, int pid, struct error *error) {
  char path[TRACEE_PATH_BYTES];
  *tracee = (struct tracee){.pid = pid};
  tracee_proc_path(pid, "mem", path);
  tracee->memory_fd = open(path, O_RDWR | O_CLOEXEC);
  return tracee->memory_fd < 0 ? error_errno(error, path, "the process's memory can't be opened") : 0;
}

int tracee_inner_id(const struct tracee *tracee, int tid) {
  return proc_inner_number(tracee->pid, tid);
}

bool tracee_read(const struct tracee *tracee, uint64_t address, void *to, size_t bytes) {
  return pread(tracee->memory_fd, to, bytes, (off_t)address) == (ssize_t)bytes;
}

bool tracee_write(const struct tracee *tracee, uint64_t address, const void *from, size_t bytes) {
  return pwrite(tracee->memory_fd, from, bytes, (off_t)address) == (ssize_t)bytes;
}

bool tracee_read_word(const struct tracee *tracee, uint64_t address, uint64_t *word) {
  return tracee_read(tracee, address, word, sizeof *word);
}

bool tracee_write_word(const struct tracee *tracee, uint64_t address, uint64_t word) {
  return tracee_write(tracee, address, &word, sizeof word);
}

static struct tracee_thread *find(const struct tracee *tracee, int tid) {
  for (size_t i = 0; i < tracee->threads.count; i++)
    if (tracee->threads.at[i].tid == tid)
      return &tracee->threads.at[i];
  return NULL;
}

/* Begins to trace a thread and asks it to stop. -1: it may not be traced. */
static int call_thread(struct tracee *tracee, int tid, struct error *error) {
  if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0) {
    if (errno == ESRCH || !proc_thread_state(tracee->pid, tid)) /* it has ended */
      return 0;
    return error_errno(error, "ptrace", "the process can't be attached to");
  }
  struct tracee_thread *thread = vector_add(&tracee->threads);
  if (!thread) {
    ptrace(PTRACE_DETACH, tid, NULL, NULL);
    return error_set(error, "ptrace", "out of memory");
  }
  *thread = (struct tracee_thread){.tid = tid, .seen = true};
  ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
  return 0;
}

/* *fresh: a thread was found that was not known before. */
static int call_new_threads(struct tracee *tracee, bool *fresh, struct error *error) {
  DIR *tasks = proc_open_threads(tracee->pid);
  if (!tasks)
    return error_set(error, "ptrace", "the process has ended");
  int result = 0;
  for (int tid; result == 0 && (tid = proc_next(tasks));) {
    if (find(tracee, tid))
      continue;
    size_t before = tracee->threads.count;
    result = call_thread(tracee, tid, error);
    *fresh |= tracee->threads.count > before;
  }
  closedir(tasks);
  return result;
}

#if defined(__x86_64__)

/* What an interrupted call returns inside the kernel. */
static const unsigned long long RESTART_NO_HANDLER = -514ull, RESTART_BLOCK = -516ull;

/* Calls that the kernel does not restart itself after a stop, unlike others: they would fail with EINTR in a program
   that has no signal handler. They have done nothing when they return EINTR. */
static bool is_to_be_made_again(uint64_t number) {
  static const uint16_t calls[] = {
      SYS_read,         SYS_readv,         SYS_recvfrom,       SYS_recvmsg, SYS_recvmmsg,   SYS_accept,
      SYS_accept4,      SYS_connect,       SYS_write,          SYS_writev,  SYS_sendto,     SYS_sendmsg,
      SYS_sendmmsg,     SYS_epoll_wait,    SYS_epoll_pwait,    SYS_semop,   SYS_semtimedop, SYS_rt_sigtimedwait,
      SYS_io_getevents, SYS_io_pgetevents, SYS_io_uring_enter, 441 /* epoll_pwait2 */};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (calls[i] == number)
      return true;
  return false;
}

/* Precondition: we have stopped the thread. As the kernel does for poll: the call is restarted where no handler is
   called. */
static void make_call_again(const struct tracee_thread *thread) {
  struct user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &registers) != 0 || registers.rax != (unsigned long long)-EINTR ||
      !is_to_be_made_again(registers.orig_rax))
    return;
  registers.rax = RESTART_NO_HANDLER;
  ptrace(PTRACE_SETREGS, thread->tid, NULL, &registers);
}

void tracee_avoid_restart(const struct tracee_thread *thread) {
  struct user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &registers) != 0 || registers.rax != RESTART_BLOCK)
    return;
  registers.rax = RESTART_NO_HANDLER;
  ptrace(PTRACE_SETREGS, thread->tid, NULL, &registers);
}

#else

static void make_call_again(const struct tracee_thread *thread) {
  (void)thread;
}

void tracee_avoid_restart(const struct tracee_thread *thread) {
  (void)thread;
}

#endif

/* Checks whether a thread that was asked to stop has stopped. Returns false if it has ended. */
static bool check_stop(const struct tracee *tracee, struct tracee_thread *thread) {
  int status;
  pid_t got = waitpid(thread->tid, &status, __WALL | WNOHANG);
  if (got < 0 || (got > 0 && !WIFSTOPPED(status)))
    return false;
  if (got > 0) {
    thread->state = TRACEE_STOPPED;
    thread->signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
    if (!thread->signal)
      make_call_again(thread);
  } else if (os_monotonic_ns() - tracee->held_since_ns > KERNEL_NS &&
             proc_thread_state(tracee->pid, thread->tid) == 'D') {
    thread->state = TRACEE_IN_KERNEL;
  }
  return true;
}

/* Checks all threads; returns how many are not held. */
static size_t check_stops(struct tracee *tracee) {
  size_t missing = 0;
  for (size_t i = tracee->threads.count; i-- > 0;) {
    struct tracee_thread *thread = &tracee->threads.at[i];
    if (thread->state == TRACEE_STOPPED)
      continue;
    if (!check_stop(tracee, thread))
      *thread = tracee->threads.at[--tracee->threads.count];
    else
      missing += thread->state == TRACEE_CALLED;
  }
  return missing;
}

/* Has the process executed another program since tracee_open? Then nothing can be read any more; at an address where
   nothing is mapped, as at 0, reading fails instead. */
static bool is_replaced(const struct tracee *tracee) {
  uint8_t byte;
  return pread(tracee->memory_fd, &byte, 1, 0) == 0;
}

int tracee_hold(struct tracee *tracee, struct error *error) {
  tracee->held_since_ns = os_monotonic_ns();
  for (size_t i = 0; i < tracee->threads.count; i++) /* threads that were in the kernel the last time */
    tracee->threads.at[i].state = TRACEE_CALLED;
  for (;;) {
    bool fresh = false;
    size_t missing = check_stops(tracee); /* before the list is read: until it stops, a thread can make further ones */
    if (call_new_threads(tracee, &fresh, error) != 0)
      break;
    if (missing == 0 && !fresh) {
      bool replaced = is_replaced(tracee);
      if (tracee->threads.count && !replaced)
        return 0;
      error_set(error, "ptrace", "the process has %s", replaced ? "ended, or executed another program" : "ended");
      break;
    }
    if (os_monotonic_ns() - tracee->held_since_ns > HOLD_NS) {
      error_set(error, "ptrace", "a thread did not stop within %d seconds", (int)(HOLD_NS / 1000000000));
      break;
    }
    if (!fresh)
      usleep(POLL_US);
  }
  tracee_release(tracee);
  return -1;
}

void tracee_settle(struct tracee *tracee) {
  check_stops(tracee);
  for (size_t i = tracee->threads.count; i-- > 0;) {
    struct tracee_thread *thread = &tracee->threads.at[i];
    if (thread->state != TRACEE_STOPPED)
      continue;
    ptrace(PTRACE_DETACH, thread->tid, NULL, (void *)(intptr_t)thread->signal);
    *thread = tracee->threads.at[--tracee->threads.count];
  }
}

void tracee_release(struct tracee *tracee) {
  tracee_settle(tracee);
  uint64_t held_ns = os_monotonic_ns() - tracee->held_since_ns;
  if (held_ns > tracee->longest_hold_ns)
    tracee->longest_hold_ns = held_ns;
}

void tracee_close(struct tracee *tracee) {
  uint64_t since_ns = os_monotonic_ns();
  tracee_settle(tracee);
  while (tracee->threads.count && os_monotonic_ns() - since_ns < SETTLE_NS) {
    usleep(1000);
    tracee_settle(tracee);
  }
  free(tracee->threads.at);
  tracee->threads.at = NULL;
  tracee->threads.count = tracee->threads.room = 0;
  os_close(tracee->memory_fd);
  tracee->memory_fd = -1;
}

#if defined(__x86_64__)

bool tracee_registers(const struct tracee_thread *thread, struct tracee_registers *registers) {
  struct user_regs_struct all;
  if (thread->state != TRACEE_STOPPED || ptrace(PTRACE_GETREGS, thread->tid, NULL, &all) != 0)
    return false;
  *registers = (struct tracee_registers){all.rip, all.rsp, all.fs_base};
  return true;
}

bool tracee_move(const struct tracee_thread *thread, uint64_t instruction) {
  struct user_regs_struct all;
  if (thread->state != TRACEE_STOPPED || ptrace(PTRACE_GETREGS, thread->tid, NULL, &all) != 0)
    return false;
  all.rip = instruction;
  return ptrace(PTRACE_SETREGS, thread->tid, NULL, &all) == 0;
}

/* Continues until the stop whose status, without its lowest byte, is that. *more: another signal that came before. */
static bool run_to(const struct tracee_thread *thread, enum __ptrace_request request, int signal, int stop, int *more) {
  for (int status;; signal = 0) {
    if (ptrace(request, thread->tid, NULL, (void *)(intptr_t)signal) != 0 ||
        waitpid(thread->tid, &status, __WALL) < 0 || !WIFSTOPPED(status))
      return false;
    if (status >> 8 == stop || (stop == EVENT_STOP && status >> 16 == PTRACE_EVENT_STOP))
      return true;
    if (status >> 16 == 0)
      *more = WSTOPSIG(status);
  }
}

/* From a stop at the end of a system call to one at which the kernel makes interrupted calls again and delivers the
   thread's signal, of which *of_signal (NULL: not known) is told. */
static bool return_to_stop(const struct tracee_thread *thread, const siginfo_t *of_signal, int *more) {
  bool stopped;
  if (thread->signal) {
    uint64_t others = ~((uint64_t)1 << (thread->signal - 1));
    stopped = ptrace(PTRACE_SETSIGMASK, thread->tid, (void *)SIGNAL_MASK_BYTES, &others) == 0 &&
              run_to(thread, PTRACE_CONT, thread->signal, thread->signal, more);
  } else {
    stopped =
        ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL) == 0 && run_to(thread, PTRACE_CONT, 0, EVENT_STOP, more);
  }
  if (stopped && thread->signal && of_signal)
    ptrace(PTRACE_SETSIGINFO, thread->tid, NULL, of_signal);
  return stopped;
}

/* All signals are blocked. The stops at a system call's begin and end, unlike that of a single step, are no signal,
   for which the kernel would take a handler away that is blocked or ignored. */
static bool make_syscall(const struct tracee_thread *thread, const struct tracee_syscall *call, int64_t *result) {
  struct user_regs_struct before, during;
  siginfo_t of_signal;
  int more = 0;
  bool is_known = thread->signal && ptrace(PTRACE_GETSIGINFO, thread->tid, NULL, &of_signal) == 0;
  if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &before) != 0)
    return false;
  during = before;
  during.rip = call->instruction;
  during.rax = (unsigned long long)call->number;
  during.orig_rax = (unsigned long long)-1; /* no system call is restarted now */
  during.rdi = call->argument[0];
  during.rsi = call->argument[1];
  during.rdx = call->argument[2];
  during.r10 = call->argument[3];
  during.r8 = call->argument[4];
  during.r9 = call->argument[5];
  bool made = ptrace(PTRACE_SETREGS, thread->tid, NULL, &during) == 0 &&
              run_to(thread, PTRACE_SYSCALL, 0, SYSCALL_STOP, &more) &&
              run_to(thread, PTRACE_SYSCALL, 0, SYSCALL_STOP, &more) &&
              ptrace(PTRACE_GETREGS, thread->tid, NULL, &during) == 0;
  *result = (int64_t)during.rax;
  made = ptrace(PTRACE_SETREGS, thread->tid, NULL, &before) == 0 && made &&
         return_to_stop(thread, is_known ? &of_signal : NULL, &more);
  if (more)
    syscall(SYS_tkill, thread->tid, more);
  return made;
}

/* If one can be chosen, a thread that has no signal to take. NULL: none is stopped. */
static const struct tracee_thread *choose_thread(const struct tracee *tracee) {
  const struct tracee_thread *chosen = NULL;
  for (size_t i = 0; i < tracee->threads.count; i++) {
    const struct tracee_thread *thread = &tracee->threads.at[i];
    if (thread->state == TRACEE_STOPPED && (!chosen || (chosen->signal && !thread->signal)))
      chosen = thread;
  }
  return chosen;
}

int tracee_make_syscall(struct tracee *tracee, const struct tracee_syscall *call, int64_t *result,
                        struct error *error) {
  uint64_t mask, all = ~(uint64_t)0;
  const struct tracee_thread *thread = choose_thread(tracee);
  if (!thread || ptrace(PTRACE_GETSIGMASK, thread->tid, (void *)SIGNAL_MASK_BYTES, &mask) != 0)
    return error_set(error, "ptrace", "no thread could be made to call the kernel");
  ptrace(PTRACE_SETSIGMASK, thread->tid, (void *)SIGNAL_MASK_BYTES, &all);
  bool made = make_syscall(thread, call, result);
  ptrace(PTRACE_SETSIGMASK, thread->tid, (void *)SIGNAL_MASK_BYTES, &mask);
  return made ? 0 : error_set(error, "ptrace", "a thread can't be made to call the kernel");
}

#else

/* Registers are read on x86-64 only; target_check refuses elsewhere before anything is touched. */
bool tracee_registers(const struct tracee_thread *thread, struct tracee_registers *registers) {
  (void)thread;
  (void)registers;
  return false;
}

bool tracee_move(const struct tracee_thread *thread, uint64_t instruction) {
  (void)thread;
  (void)instruction;
  return false;
}

int tracee_make_syscall(struct tracee *tracee, const struct tracee_syscall *call, int64_t *result,
                        struct error *error) {
  (void)tracee;
  (void)call;
  (void)result;
  return error_set(error, "--attach", "is for x86-64 only");
}

#endif

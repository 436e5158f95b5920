/* SPDX-License-Identifier: MIT */
#include "capture/host/process.h"

#include "core/base/assert.h"
#include "core/base/os.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct host_state host_state = {.idle = PRODUCER_IDLE};

static _Atomic uint64_t missing_before;

void host_count_missing(void) {
  struct bank *bank = (struct bank *)host_state.bank;
  if (bank)
    atomic_fetch_add(&bank->orphan, 1);
  else
    missing_before++;
}

uint64_t host_missing_before(void) {
  return missing_before;
}

bool host_collector_died(void) {
  return atomic_load_explicit(&host_state.tables->control.collector_futex, memory_order_relaxed) & FUTEX_OWNER_DIED;
}

void host_note_lost_calls(void) {
  struct bank *bank = (struct bank *)host_state.bank;
  if (bank)
    atomic_store(&bank->calls_lost, 1);
}

void host_wake_collector(void) {
  struct control *control = &host_state.tables->control;
  if (!host_may(HOST_SLEEP)) /* the collector wakes on its own, but later */
    return;
  if (atomic_load_explicit(&control->sleeping, memory_order_relaxed) && atomic_exchange(&control->sleeping, 0)) {
    atomic_fetch_add(&control->wake, 1);
    os_futex_wake((const uint32_t *)&control->wake, 1, true);
  }
}

static struct stat first_stderr;

/* Not by fstat(): other preloaded libraries define it, too (libfakeroot), and allocate in it. */
static bool stat_stderr(struct stat *status) {
  return syscall(SYS_fstat, 2, status) == 0;
}

void message_note_stderr(void) {
  stat_stderr(&first_stderr);
}

/* Can a line be written to standard error now, so that no full pipe holds the program up, and no closed one costs it a
   SIGPIPE? */
static bool takes_line(void) {
  struct pollfd writable = {2, POLLOUT, 0};
  struct timespec none = {0, 0};
  return syscall(SYS_ppoll, &writable, 1, &none, NULL, 0) == 1 && writable.revents == POLLOUT;
}

char *message_put_number(char *to, uint64_t number) {
  char digits[20], *first = digits + sizeof digits;
  do
    *--first = (char)('0' + number % 10);
  while (number /= 10);
  size_t bytes = (size_t)(digits + sizeof digits - first);
  memcpy(to, first, bytes);
  to[bytes] = '\0';
  return to + bytes;
}

void message_print(const char *text) {
  struct stat now;
  if (!host_may(HOST_PRINT) || !stat_stderr(&now) || now.st_dev != first_stderr.st_dev ||
      now.st_ino != first_stderr.st_ino || !takes_line())
    return;
  char line[256] = "heaptape: ";
  size_t used = strlen(line), length = strlen(text);
  if (length > sizeof line - used - 1)
    length = sizeof line - used - 1;
  memcpy(line + used, text, length);
  line[used + length] = '\n';
  syscall(SYS_write, 2, line, used + length + 1); /* not write(), which is a cancellation point */
}

static struct process *_Atomic own;

struct process *process_known(void) {
  return atomic_load_explicit(&own, memory_order_acquire);
}

struct process *process_own(void) {
  struct process *process = process_known();
  if (process)
    return process;
  struct process *fresh = os_map(sizeof *fresh, false);
  if (!fresh)
    return NULL;
  if (madvise(fresh, sizeof *fresh, MADV_WIPEONFORK) != 0) {
    os_unmap(fresh, sizeof *fresh);
    return NULL;
  }
  madvise(fresh, sizeof *fresh, MADV_DONTDUMP);
  if (atomic_compare_exchange_strong(&own, &process, fresh))
    return fresh;
  os_unmap(fresh, sizeof *fresh);
  return process;
}

void *process_place(void) {
  return &own;
}

bool process_is_recording(void) {
  struct process *process = process_known();
  return process && atomic_load_explicit(&process->state, memory_order_acquire) == PROCESS_RECORDING;
}

int process_own_number(void) {
  struct process *process = process_known();
  return process && process->banks ? process->pid : 0;
}

static _Atomic bool excluded;

void process_exclude(void) {
  atomic_store(&excluded, true);
}

bool process_is_off(void) {
  if (filters_have_excluded() || atomic_load_explicit(&excluded, memory_order_relaxed))
    return true;
  struct process *process = process_known();
  return process && atomic_load_explicit(&process->state, memory_order_relaxed) == PROCESS_OFF;
}

void process_lock(struct process *process) {
  uint32_t free_word = 0;
  if (atomic_compare_exchange_strong(&process->lock, &free_word, 1))
    return;
  enum { LOCK_WAIT_NS = 10000000 }; /* the unlocking thread may not be allowed to wake others */
  while (atomic_exchange(&process->lock, 2) != 0)
    if (host_may(HOST_SLEEP))
      os_futex_wait((const uint32_t *)&process->lock, 2, LOCK_WAIT_NS, false);
    else
      os_spin_pause();
}

void process_unlock(struct process *process) {
  uint32_t held = atomic_exchange(&process->lock, 0);
  HT_ASSERT(held != 0);
  if (held == 2 && host_may(HOST_SLEEP))
    os_futex_wake((const uint32_t *)&process->lock, 1, false);
}

void process_stop(struct process *process, const char *why) {
  int error = errno;
  if (atomic_exchange(&process->state, PROCESS_OFF) != PROCESS_OFF && why)
    message_print(why);
  errno = error;
}

/* The value of *mask where nothing was blocked: the kernel never blocks SIGKILL. */
#define NOT_BLOCKED (~(uint64_t)0)
#define SIGNAL_BIT(number) ((uint64_t)1 << ((number)-1))
static const uint64_t never_blocked = SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP);

/* What the thread had not blocked itself when all was last blocked. */
static __thread uint64_t open_signals __attribute__((tls_model("initial-exec")));

void signals_block(uint64_t *mask) {
  if (!host_may(HOST_SIGNALS)) {
    *mask = NOT_BLOCKED;
    return;
  }
  uint64_t all = ~(uint64_t)0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, mask, sizeof all);
  if ((*mask | never_blocked) != all) /* else they were blocked before, by us as a rule */
    open_signals = ~*mask;
}

bool signals_are_urgent(void) {
  const uint64_t patient = SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGCONT) | SIGNAL_BIT(SIGURG) | SIGNAL_BIT(SIGWINCH) |
                           SIGNAL_BIT(SIGTSTP) | SIGNAL_BIT(SIGTTIN) | SIGNAL_BIT(SIGTTOU);
  uint64_t pending = 0;
  int error = errno;
  syscall(SYS_rt_sigpending, &pending, sizeof pending);
  errno = error;
  return (pending & open_signals & ~patient) != 0;
}

void signals_restore(const uint64_t *mask) {
  if (*mask == NOT_BLOCKED)
    return;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, NULL, sizeof *mask);
}

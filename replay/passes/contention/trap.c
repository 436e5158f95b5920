/* SPDX-License-Identifier: MIT */
#include "replay/passes/contention/trap.h"

#include "core/base/os.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1 /* si_code */
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

enum { ARGUMENTS = 6, KERNEL_SIGSET_BYTES = 8, MEASURED_ROUNDS = 20, MEASURED_WAITS = 100, OPERATION = 0x7f };

static void (*report)(const struct trapped_wait *wait);

/* The raw system call, which sets no errno and is not a cancellation point: the only one that the filter lets pass,
   because the instruction pointer is at trap_reissued then. Completely in assembly, as there must be only one copy of
   it. */
long trap_reissue(long number, const uint64_t arguments[ARGUMENTS]) __attribute__((visibility("hidden")));
extern const char trap_reissued[] __attribute__((visibility("hidden")));

__asm__(".text\n"
        ".globl trap_reissue, trap_reissued\n"
        ".hidden trap_reissue, trap_reissued\n"
        "trap_reissue:\n"
#if defined(__x86_64__)
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rcx\n"
        "  mov 0(%rcx), %rdi\n"
        "  mov 8(%rcx), %rsi\n"
        "  mov 16(%rcx), %rdx\n"
        "  mov 24(%rcx), %r10\n"
        "  mov 32(%rcx), %r8\n"
        "  mov 40(%rcx), %r9\n"
        "  syscall\n"
#else
        "  mov x8, x0\n"
        "  mov x9, x1\n"
        "  ldp x0, x1, [x9]\n"
        "  ldp x2, x3, [x9, #16]\n"
        "  ldp x4, x5, [x9, #32]\n"
        "  svc #0\n"
#endif
        "trap_reissued:\n"
        "  ret\n");

/* The state of the thread at the system call that was stopped. */
struct stopped {
  uint64_t arguments[ARGUMENTS];
  uint64_t caller; /* return address, if the function keeps nothing on the stack */
};

#if defined(__x86_64__)
static struct stopped stopped_at(const ucontext_t *context) {
  const greg_t *registers = context->uc_mcontext.gregs;
  static const int places[ARGUMENTS] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
  struct stopped stopped = {.caller = *(const uint64_t *)(uintptr_t)registers[REG_RSP]};
  for (int index = 0; index < ARGUMENTS; index++)
    stopped.arguments[index] = (uint64_t)registers[places[index]];
  return stopped;
}

static void answer(ucontext_t *context, long result) {
  context->uc_mcontext.gregs[REG_RAX] = result;
}
#else
static struct stopped stopped_at(const ucontext_t *context) {
  const unsigned long long *registers = context->uc_mcontext.regs;
  struct stopped stopped = {.caller = registers[30]};
  for (int index = 0; index < ARGUMENTS; index++)
    stopped.arguments[index] = registers[index];
  return stopped;
}

static void answer(ucontext_t *context, long result) {
  context->uc_mcontext.regs[0] = (unsigned long long)result;
}
#endif

/* Applies rt_sigprocmask to the mask that returning from the handler restores; never with SIGSYS. */
static long change_mask(ucontext_t *context, const struct stopped *stopped) {
  uint64_t *mask = (uint64_t *)(void *)&context->uc_sigmask, before = *mask;
  const uint64_t *given = (const uint64_t *)(uintptr_t)stopped->arguments[1];
  uint64_t *old = (uint64_t *)(uintptr_t)stopped->arguments[2];
  if (stopped->arguments[3] != KERNEL_SIGSET_BYTES)
    return -EINVAL;
  if (given) {
    switch ((int)stopped->arguments[0]) {
    case SIG_BLOCK:
      *mask |= *given;
      break;
    case SIG_UNBLOCK:
      *mask &= ~*given;
      break;
    case SIG_SETMASK:
      *mask = *given;
      break;
    default:
      return -EINVAL;
    }
    *mask &= ~((uint64_t)1 << (SIGSYS - 1));
  }
  if (old)
    *old = before;
  return 0;
}

static enum wait_kind kind_of(int number) {
  return number == SYS_futex || number == SYS_futex_waitv ? WAIT_FUTEX
         : number == SYS_sched_yield                      ? WAIT_YIELD
                                                          : WAIT_SLEEP;
}

static uint64_t place_of(int number, const struct stopped *stopped, const siginfo_t *about) {
  switch (number) {
  case SYS_futex:
    return stopped->arguments[0];
  case SYS_futex_waitv: /* of several words, only the first is recorded */
    return stopped->arguments[1] ? ((const struct futex_waitv *)(uintptr_t)stopped->arguments[0])->uaddr : 0;
  case SYS_sched_yield:
    return stopped->caller;
  default:
    return (uint64_t)(uintptr_t)about->si_call_addr;
  }
}

static void on_trap(int number, siginfo_t *about, void *context) {
  if (about->si_code != SYS_SECCOMP) { /* sent by a process */
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  struct stopped stopped = stopped_at(context);
  if (about->si_syscall == SYS_rt_sigprocmask) {
    answer(context, change_mask(context, &stopped));
    return;
  }
  struct trapped_wait wait = {.kind = kind_of(about->si_syscall),
                              .address = place_of(about->si_syscall, &stopped, about)};
  uint64_t begin_ns = os_monotonic_ns();
  long result = trap_reissue(about->si_syscall, stopped.arguments);
  wait.time_ns = os_monotonic_ns() - begin_ns;
  wait.at_once = wait.kind == WAIT_FUTEX && result == -EAGAIN;
  report(&wait);
  answer(context, result);
}

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define LOAD_AT(member, offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member) + (offset))
#define IF(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), then, otherwise)
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)

/* Both processors store the lower half of a number first. */
static int install_filter(void) {
  uint64_t allowed = (uint64_t)(uintptr_t)trap_reissued;
  struct sock_filter filter[] = {
      /* 0 */ LOAD(nr),
      /* 1 */ IF(SYS_futex, 6, 0),
      /* 2 */ IF(SYS_futex_waitv, 11, 0),
      /* 3 */ IF(SYS_sched_yield, 10, 0),
      /* 4 */ IF(SYS_nanosleep, 9, 0),
      /* 5 */ IF(SYS_clock_nanosleep, 8, 0),
      /* 6 */ IF(SYS_rt_sigprocmask, 7, 0),
      /* 7 */ RETURN(SECCOMP_RET_ALLOW),
      /* 8: which futex operation */ LOAD(args[1]),
      /* 9 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, OPERATION),
      /* 10 */ IF(FUTEX_WAIT, 3, 0),
      /* 11 */ IF(FUTEX_WAIT_BITSET, 2, 0),
      /* 12 */ IF(FUTEX_LOCK_PI, 1, 0),
      /* 13 */ IF(FUTEX_LOCK_PI2, 0, 5),
      /* 14: the handler's own? */ LOAD(instruction_pointer),
      /* 15 */ IF(allowed, 0, 2),
      /* 16 */ LOAD_AT(instruction_pointer, 4),
      /* 17 */ IF(allowed >> 32, 1, 0),
      /* 18 */ RETURN(SECCOMP_RET_TRAP),
      /* 19 */ RETURN(SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return -1;
  /* SPEC_ALLOW: without it, older kernels make a filtered process slower than others. */
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
}

int trap_install(void (*waited)(const struct trapped_wait *wait)) {
  report = waited;
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGSYS);
  if (sigaction(SIGSYS, &action, NULL) != 0 || sigprocmask(SIG_UNBLOCK, &only, NULL) != 0)
    return -1;
  return install_filter();
}

uint64_t trap_measure_ns(void) {
  uint32_t word = 1;
  const uint64_t arguments[ARGUMENTS] = {(uint64_t)(uintptr_t)&word, FUTEX_WAIT_PRIVATE, 0};
  uint64_t least_unseen_ns = UINT64_MAX, least_seen_ns = UINT64_MAX;
  for (int round = 0; round < MEASURED_ROUNDS; round++) {
    uint64_t begin_ns = os_monotonic_ns();
    for (int count = 0; count < MEASURED_WAITS; count++)
      trap_reissue(SYS_futex, arguments);
    uint64_t between_ns = os_monotonic_ns();
    for (int count = 0; count < MEASURED_WAITS; count++)
      syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    uint64_t unseen_ns = between_ns - begin_ns, seen_ns = os_monotonic_ns() - between_ns;
    least_unseen_ns = unseen_ns < least_unseen_ns ? unseen_ns : least_unseen_ns;
    least_seen_ns = seen_ns < least_seen_ns ? seen_ns : least_seen_ns;
  }
  return least_seen_ns > least_unseen_ns ? (least_seen_ns - least_unseen_ns) / MEASURED_WAITS : 0;
}

/* SPDX-License-Identifier: MIT */
/* prctl and syscall, as entry points: what the program asks of the kernel that concerns us. libseccomp uses syscall. */
#include "capture/host/kernel/filter_calls.h"

#include "capture/host/kernel/exec_calls.h"
#include "capture/host/kernel/filters.h"
#include "capture/host/kernel/own_memory.h"
#include "capture/host/process.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if !defined(PR_SET_SYSCALL_USER_DISPATCH)
#define PR_SET_SYSCALL_USER_DISPATCH 59 /* Linux 5.11 */
#endif

static _Atomic uint32_t clockless; /* calls that have forbidden the clock, or are under way */

bool filter_calls_forbid_clock(void) {
  return atomic_load(&clockless) != 0;
}

/* What a call asks for. All zero: nothing that concerns us, or something that is refused for certain. */
struct attempt {
  bool filters, clock;
  const struct sock_fprog *filter; /* NULL: strict mode */
  bool may_return_descriptor;
};

static struct attempt filter_attempt(const void *filter, bool descriptor) {
  return (struct attempt){.filters = filter != NULL, .filter = filter, .may_return_descriptor = descriptor};
}

static struct attempt read_attempt(const long words[6]) {
  unsigned what = (unsigned)words[1], flags = (unsigned)words[2];
  const struct attempt strict = {.filters = true, .clock = true};
  if (words[0] == SYS_seccomp && what == SECCOMP_SET_MODE_STRICT && !flags && !words[3])
    return strict;
  if (words[0] == SYS_seccomp && what == SECCOMP_SET_MODE_FILTER)
    return filter_attempt((const void *)words[3], flags & SECCOMP_FILTER_FLAG_NEW_LISTENER);
  if (words[0] == SYS_prctl && what == PR_SET_SECCOMP && words[2] == SECCOMP_MODE_STRICT)
    return strict;
  if (words[0] == SYS_prctl && what == PR_SET_SECCOMP && words[2] == SECCOMP_MODE_FILTER)
    return filter_attempt((const void *)words[3], false);
  return (struct attempt){.clock = words[0] == SYS_prctl && what == PR_SET_TSC && words[2] == PR_TSC_SIGSEGV};
}

/* This process's bank; NULL: it has not attached, although its parent may have. */
static struct bank *own_bank(void) {
  return process_is_recording() ? (struct bank *)host_state.bank : NULL;
}

static void pause_for_clock(void) {
  struct bank *bank = own_bank();
  if (!bank || (host_state.flags & ATTACH_COUNTER))
    return;
  if (filter_calls_forbid_clock())
    atomic_fetch_or(&bank->paused, PAUSED_BY_SANDBOX);
  else
    atomic_fetch_and(&bank->paused, ~(uint32_t)PAUSED_BY_SANDBOX);
  control_advance_tick(&host_state.tables->control);
}

/* Before the call, as its result may be too late: a handler may interrupt, and other threads may be under it, too. */
static void begin(const struct attempt *attempt) {
  struct bank *bank = own_bank();
  if (attempt->filters && bank)
    atomic_fetch_add(&bank->filters, 1);
  if (attempt->filters)
    filters_begin();
  if (attempt->clock) {
    atomic_fetch_add(&clockless, 1);
    pause_for_clock();
  }
}

static void end(const struct attempt *attempt, long result) {
  bool done = result == 0 || (result > 0 && attempt->may_return_descriptor); /* else the id of a thread */
  struct bank *bank = own_bank();
  if (attempt->filters && !done && bank)
    atomic_fetch_sub(&bank->filters, 1);
  if (attempt->filters)
    filters_end(done, attempt->filter);
  if (attempt->clock && !done) {
    atomic_fetch_sub(&clockless, 1);
    pause_for_clock();
  }
}

/* The C library's function by that name (libc.c): in this file it is our entry point. */
__attribute__((visibility("hidden"))) long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

/* Returns errors as the kernel does: minus errno. */
static long call_kernel(const long words[6]) {
  long result = __wrap_syscall(words[0], words[1], words[2], words[3], words[4], words[5], 0);
  return result == -1 ? -errno : result;
}

/* Called from the assembly below. */
long filter_calls_make(const long words[6]);
long filter_calls_set_errno(long result);

__attribute__((used, visibility("hidden"))) long filter_calls_set_errno(long result) {
  errno = (int)-result;
  return -1;
}

/* execve or execveat, whose environment is that argument. */
static long execute(const long words[6], int at) {
  char *const *environment = (char *const *)words[at];
  struct exec_note *noted = exec_begins((const char *)words[at - 2], at == 4 ? (int)words[1] : -1, environment);
  struct exec_kept kept = exec_kept_of(environment);
  char *entries[kept.entries + 1], preload[kept.bytes + 1];
  long passed[6];
  memcpy(passed, words, sizeof passed);
  passed[at] = (long)exec_passed(environment, kept, entries, preload);
  long result = call_kernel(passed);
  exec_failed(noted);
  return result;
}

/* The words of prctl where calls from our code are sent to a handler: what turns that on and off; else NULL. */
static const volatile char *dispatch_of(const long words[6]) {
  enum { EXCEPT = 1, WITHIN = 2 }; /* PR_SYS_DISPATCH_...: calls from code outside of the range, or inside */
  static const char always = 1;
  bool is_inside = (unsigned long)dispatch_of - (unsigned long)words[3] < (unsigned long)words[4];
  bool sent = words[2] == EXCEPT ? !is_inside : words[2] == WITHIN && is_inside;
  return sent ? words[5] ? (const volatile char *)words[5] : &always : NULL;
}

static long attempt_filter(const long words[6]) {
  struct attempt attempt = read_attempt(words);
  begin(&attempt);
  long result = call_kernel(words);
  end(&attempt, result);
  if (words[0] == SYS_prctl && words[1] == PR_SET_SYSCALL_USER_DISPATCH && result == 0)
    filters_dispatch = dispatch_of(words);
  return result;
}

/* One of the system calls that concern us: number and five arguments. */
__attribute__((used, visibility("hidden"))) long filter_calls_make(const long words[6]) {
  if (words[0] == SYS_mlockall)
    return memory_lock_all((int)words[1]);
  long result = words[0] == SYS_execve     ? execute(words, 3)
                : words[0] == SYS_execveat ? execute(words, 4)
                                           : attempt_filter(words);
  return result < 0 && result >= -4095 ? filter_calls_set_errno(result) : result;
}

/* prctl, and syscall, which libseccomp uses, are our entry points for this alone; they do the same as the C
   library's. */

__attribute__((visibility("default"))) int prctl(int option, ...);

int prctl(int option, ...) {
  va_list list;
  va_start(list, option);
  long words[6] = {SYS_prctl, option};
  for (int i = 2; i < 6; i++)
    words[i] = va_arg(list, long);
  va_end(list);
  return (int)filter_calls_make(words);
}

/* Without a frame for all other calls: a caller may make one that returns twice (vfork, clone). */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "  .cfi_startproc\n"
        "  endbr64\n"
        "  cmp $157, %rdi\n" /* prctl */
        "  je 1f\n"
        "  cmp $317, %rdi\n" /* seccomp */
        "  je 1f\n"
        "  cmp $59, %rdi\n" /* execve */
        "  je 1f\n"
        "  cmp $322, %rdi\n" /* execveat */
        "  je 1f\n"
        "  cmp $151, %rdi\n" /* mlockall */
        "  je 1f\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  mov %rdx, %rsi\n"
        "  mov %rcx, %rdx\n"
        "  mov %r8, %r10\n"
        "  mov %r9, %r8\n"
        "  mov 8(%rsp), %r9\n"
        "  syscall\n"
        "  cmp $-4095, %rax\n"
        "  jae 2f\n"
        "  ret\n"
        "1:\n"
        "  push %r9\n"
        "  push %r8\n"
        "  push %rcx\n"
        "  push %rdx\n"
        "  push %rsi\n"
        "  push %rdi\n"
        "  mov %rsp, %rdi\n"
        "  sub $8, %rsp\n"
        "  .cfi_adjust_cfa_offset 56\n"
        "  call filter_calls_make\n"
        "  add $56, %rsp\n"
        "  .cfi_adjust_cfa_offset -56\n"
        "  ret\n"
        "2:\n"
        "  mov %rax, %rdi\n"
        "  jmp filter_calls_set_errno\n"
        "  .cfi_endproc\n"
        ".size syscall, .-syscall\n");
_Static_assert(SYS_prctl == 157 && SYS_seccomp == 317 && SYS_execve == 59 && SYS_execveat == 322 && SYS_mlockall == 151,
               "the numbers in syscall");

#else

/* Likewise. The return address stays in its register, as the caller may return twice. */
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "  .cfi_startproc\n"
        "  cmp x0, #167\n" /* prctl */
        "  b.eq 1f\n"
        "  cmp x0, #277\n" /* seccomp */
        "  b.eq 1f\n"
        "  cmp x0, #221\n" /* execve */
        "  b.eq 1f\n"
        "  cmp x0, #281\n" /* execveat */
        "  b.eq 1f\n"
        "  cmp x0, #230\n" /* mlockall */
        "  b.eq 1f\n"
        "  uxtw x8, w0\n"
        "  mov x0, x1\n"
        "  mov x1, x2\n"
        "  mov x2, x3\n"
        "  mov x3, x4\n"
        "  mov x4, x5\n"
        "  mov x5, x6\n"
        "  svc #0\n"
        "  cmn x0, #4095\n"
        "  b.cs 2f\n"
        "  ret\n"
        "1:\n"
        "  stp x29, x30, [sp, #-64]!\n"
        "  .cfi_adjust_cfa_offset 64\n"
        "  .cfi_offset x29, -64\n"
        "  .cfi_offset x30, -56\n"
        "  stp x0, x1, [sp, #16]\n"
        "  stp x2, x3, [sp, #32]\n"
        "  stp x4, x5, [sp, #48]\n"
        "  add x0, sp, #16\n"
        "  bl filter_calls_make\n"
        "  ldp x29, x30, [sp], #64\n"
        "  .cfi_restore x29\n"
        "  .cfi_restore x30\n"
        "  .cfi_adjust_cfa_offset -64\n"
        "  ret\n"
        "2:\n"
        "  b filter_calls_set_errno\n"
        "  .cfi_endproc\n"
        ".size syscall, .-syscall\n");
_Static_assert(SYS_prctl == 167 && SYS_seccomp == 277 && SYS_execve == 221 && SYS_execveat == 281 &&
                   SYS_mlockall == 230,
               "the numbers in syscall");
#endif

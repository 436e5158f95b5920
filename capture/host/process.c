/* SPDX-License-Identifier: MIT */
#include "capture/host/process.h"

#include "core/base/assert.h"
#include "core/base/os.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct host_state host_state;

bool host_collector_died(void) {
  return atomic_load_explicit(&host_state.tables->control.collector_futex, memory_order_relaxed) & FUTEX_OWNER_DIED;
}

void host_wake_collector(void) {
  struct control *control = &host_state.tables->control;
  if (host_sandboxed()) /* the collector wakes on its own, but later */
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

void message_print(const char *text) {
  struct stat now;
  if (host_sandboxed() || !stat_stderr(&now) || now.st_dev != first_stderr.st_dev || now.st_ino != first_stderr.st_ino)
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

struct process *process_own(void) {
  struct process *process = atomic_load_explicit(&own, memory_order_acquire);
  if (process)
    return process;
  struct process *fresh = process_map_wiped(sizeof *fresh);
  if (!fresh)
    return NULL;
  if (atomic_compare_exchange_strong(&own, &process, fresh))
    return fresh;
  os_unmap(fresh, sizeof *fresh);
  return process;
}

void *process_place(void) {
  return &own;
}

bool process_is_off(void) {
  struct process *process = atomic_load_explicit(&own, memory_order_acquire);
  return process && atomic_load_explicit(&process->state, memory_order_relaxed) == PROCESS_OFF;
}

void process_lock(struct process *process) {
  uint32_t free_word = 0;
  if (atomic_compare_exchange_strong(&process->lock, &free_word, 1))
    return;
  enum { LOCK_WAIT_NS = 10000000 }; /* the unlocking thread may not be allowed to wake others */
  while (atomic_exchange(&process->lock, 2) != 0)
    if (host_sandboxed())
      os_spin_pause();
    else
      os_futex_wait((const uint32_t *)&process->lock, 2, LOCK_WAIT_NS, false);
}

void process_unlock(struct process *process) {
  uint32_t held = atomic_exchange(&process->lock, 0);
  HT_ASSERT(held != 0);
  if (held == 2 && !host_sandboxed())
    os_futex_wake((const uint32_t *)&process->lock, 1, false);
}

void process_stop(struct process *process, const char *why) {
  int error = errno;
  if (atomic_exchange(&process->state, PROCESS_OFF) != PROCESS_OFF && why)
    message_print(why);
  errno = error;
}

void *process_map_wiped(size_t bytes) {
  void *memory = os_map(bytes, false);
  if (!memory)
    return NULL;
  if (madvise(memory, bytes, MADV_WIPEONFORK) != 0) {
    os_unmap(memory, bytes);
    return NULL;
  }
  return memory;
}

/* The value of *mask where nothing was blocked. */
#define NOT_BLOCKED (~(uint64_t)0)

void signals_block(uint64_t *mask) {
  if (host_sandboxed()) {
    *mask = NOT_BLOCKED;
    return;
  }
  uint64_t all = ~(uint64_t)0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, mask, sizeof all);
}

void signals_restore(const uint64_t *mask) {
  if (host_sandboxed() && *mask == NOT_BLOCKED)
    return;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, NULL, sizeof *mask);
}

/* Notes that a host is about to put itself under a filter of system calls (seccomp): from then on the library makes no
   system call (host_sandboxed). The collector finds out too, from /proc, but up to a sample later.

   Only for that, prctl, and syscall, which libseccomp uses, are our entry points; they do the same as without us. A
   program that makes the system call by its own instruction is not noticed here. */

#define EXPORT __attribute__((visibility("default")))

EXPORT int prctl(int option, ...);

/* The flags are set before the call, as its result may not be available afterwards. clockless: reading the cycle
   counter kills the process from now on (also in strict mode); calls are then counted, not recorded. */
static void note_filter(bool sandbox, bool clockless) {
  struct region *region = (struct region *)host_state.region;
  if (!region)
    return;
  if (sandbox)
    atomic_store(&region->sandboxed, 1);
  if (clockless && !(host_state.flags & ATTACH_COUNTER)) {
    atomic_fetch_or(&region->paused, PAUSED_BY_SANDBOX);
    control_advance_tick(&host_state.tables->control);
  }
}

static void note_prctl(long option, long value) {
  bool sandbox = option == PR_SET_SECCOMP;
  note_filter(sandbox, (sandbox && value == SECCOMP_MODE_STRICT) || (option == PR_SET_TSC && value == PR_TSC_SIGSEGV));
}

/* Called from the assembly below. */
void sandbox_note_syscall(long number, long first, long second);
long sandbox_set_errno(long result);

__attribute__((used, visibility("hidden"))) void sandbox_note_syscall(long number, long first, long second) {
  if (number == SYS_seccomp)
    note_filter(first == SECCOMP_SET_MODE_STRICT || first == SECCOMP_SET_MODE_FILTER, first == SECCOMP_SET_MODE_STRICT);
  else
    note_prctl(first, second);
}

__attribute__((used, visibility("hidden"))) long sandbox_set_errno(long result) {
  errno = (int)-result;
  return -1;
}

#if defined(__x86_64__)

/* Returns errors as the kernel does: minus errno. */
static long call_prctl(long option, long a, long b, long c, long d) {
  register long r10 __asm__("r10") = c;
  register long r8 __asm__("r8") = d;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(SYS_prctl), "D"(option), "S"(a), "d"(b), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
  return result;
}

/* As the C library's, without a frame: a caller may make a call that returns twice (vfork, clone). */
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "  cmp $157, %rdi\n" /* prctl */
        "  je 1f\n"
        "  cmp $317, %rdi\n" /* seccomp */
        "  jne 2f\n"
        "1:\n"
        "  push %rdi\n"
        "  push %rsi\n"
        "  push %rdx\n"
        "  push %rcx\n"
        "  push %r8\n"
        "  push %r9\n"
        "  sub $8, %rsp\n"
        "  call sandbox_note_syscall\n"
        "  add $8, %rsp\n"
        "  pop %r9\n"
        "  pop %r8\n"
        "  pop %rcx\n"
        "  pop %rdx\n"
        "  pop %rsi\n"
        "  pop %rdi\n"
        "2:\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  mov %rdx, %rsi\n"
        "  mov %rcx, %rdx\n"
        "  mov %r8, %r10\n"
        "  mov %r9, %r8\n"
        "  mov 8(%rsp), %r9\n"
        "  syscall\n"
        "  cmp $-4095, %rax\n"
        "  jae 3f\n"
        "  ret\n"
        "3:\n"
        "  mov %rax, %rdi\n"
        "  jmp sandbox_set_errno\n"
        ".size syscall, .-syscall\n");

#else

static long call_prctl(long option, long a, long b, long c, long d) {
  register long x8 __asm__("x8") = SYS_prctl;
  register long x0 __asm__("x0") = option;
  register long x1 __asm__("x1") = a;
  register long x2 __asm__("x2") = b;
  register long x3 __asm__("x3") = c;
  register long x4 __asm__("x4") = d;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
}

/* Likewise. The return address stays in its register, as the caller may return twice. */
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "  cmp x0, #167\n" /* prctl */
        "  b.eq 1f\n"
        "  cmp x0, #277\n" /* seccomp */
        "  b.ne 2f\n"
        "1:\n"
        "  stp x29, x30, [sp, #-80]!\n"
        "  stp x0, x1, [sp, #16]\n"
        "  stp x2, x3, [sp, #32]\n"
        "  stp x4, x5, [sp, #48]\n"
        "  str x6, [sp, #64]\n"
        "  bl sandbox_note_syscall\n"
        "  ldp x0, x1, [sp, #16]\n"
        "  ldp x2, x3, [sp, #32]\n"
        "  ldp x4, x5, [sp, #48]\n"
        "  ldr x6, [sp, #64]\n"
        "  ldp x29, x30, [sp], #80\n"
        "2:\n"
        "  uxtw x8, w0\n"
        "  mov x0, x1\n"
        "  mov x1, x2\n"
        "  mov x2, x3\n"
        "  mov x3, x4\n"
        "  mov x4, x5\n"
        "  mov x5, x6\n"
        "  svc #0\n"
        "  cmn x0, #4095\n"
        "  b.cs 3f\n"
        "  ret\n"
        "3:\n"
        "  b sandbox_set_errno\n"
        ".size syscall, .-syscall\n");
_Static_assert(SYS_prctl == 167 && SYS_seccomp == 277, "the numbers in syscall");

#endif

int prctl(int option, ...) {
  va_list list;
  va_start(list, option);
  long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long), d = va_arg(list, long);
  va_end(list);
  note_prctl(option, a);
  long result = call_prctl(option, a, b, c, d);
  return result < 0 && result >= -4095 ? (int)sandbox_set_errno(result) : (int)result;
}

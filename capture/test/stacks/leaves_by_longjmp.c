/* SPDX-License-Identifier: MIT */
/* leaves_by_longjmp alone|and-another|ends|twice|again: a handler leaves calls of malloc by siglongjmp while these hold
   the lock of the call stacks' nodes, each after a few more instructions. All calls have stacks that were never seen
   before. After each, this thread acquires 778 bytes, with "and-another" also a thread that is started now, 779; with
   "ends" the call that is left is of a thread that ends then, without another call. With "twice" one call is left, and
   another thread, which may not yield, waits for the lock in vain; where it waits again, in its second call, the status
   is 4. With "again" the lock is left at each of its instructions; then malloc is called from the same stack, and from
   another one, of 1,000 bytes and more, each size once. */
#include "capture/wire/stack_area.h"

#include "core/test/usual.h"
#include <linux/filter.h>
#include <linux/seccomp.h>

enum { TIMES = 6, EACH = 7, HELD_MOST = 200, DIGITS = 4, INSTRUCTIONS_MOST = 100000 };

static struct stack_area *area;
static sigjmp_buf back;
static pthread_barrier_t left;
static volatile unsigned long number;
static volatile int held, leave_at; /* -1: it is not left, but its instructions are limited */

static void find_area(void) {
  char line[512];
  unsigned long from, to;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps))
    if (sscanf(line, "%lx-%lx", &from, &to) == 2 && to - from >= sizeof *area && strstr(line, "memfd"))
      area = (struct stack_area *)from;
  if (!area)
    exit(2);
  fclose(maps);
}

/* Its stack has the octal digits of the number, the last one innermost. */
__attribute__((noinline)) static void acquire(unsigned long its_number, int digits, size_t bytes) {
#define DIGIT(digit)                                                                                                   \
  case digit:                                                                                                          \
    acquire(its_number, digits - 1, bytes);                                                                            \
    break;
  if (!digits)
    *(void *volatile *)&(void *){NULL} = malloc(bytes);
  else
    switch (its_number >> 3 * (digits - 1) & 7) {
      DIGIT(0)
      DIGIT(1)
      DIGIT(2)
      DIGIT(3)
      DIGIT(4)
      DIGIT(5)
      DIGIT(6)
      DIGIT(7)
    }
  __asm__ volatile("");
}

/* After each instruction. */
static void trap(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  if (atomic_load(&area->lock) && held++ == leave_at)
    siglongjmp(back, 1);
  if (leave_at == -1 && held > INSTRUCTIONS_MOST)
    _exit(4);
}

static void step(void) {
  __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
}

static void go_on(void) {
  __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
}

static void *leave(void *unused) {
  acquire(0, DIGITS, 1); /* a thread's first call blocks signals */
  held = 0;
  if (sigsetjmp(back, 1))
    return unused;
  step();
  acquire(++number, DIGITS, 777);
  exit(3); /* the lock was not held so long */
}

/* Leaves a call, makes it again, and makes another one: all from the same frames but for the number's. */
static void leave_and_call(void) {
  static size_t bytes = 1000;
  for (volatile int turn = 0; turn < 3; turn++) {
    held = 0;
    if (sigsetjmp(back, 1))
      continue;
    if (turn == 0)
      step();
    if (turn != 1)
      number++;
    acquire(number, DIGITS, turn == 0 ? 777 : bytes++);
    if (turn == 0)
      go_on(); /* the lock was not held so long */
  }
}

static void *leave_and_end(void *unused) {
  leave(unused);
  syscall(SYS_exit, 0); /* pthread_exit would call free */
  return unused;
}

static void *acquire_twice(void *unused) {
  pthread_barrier_wait(&left);
  acquire(++number, DIGITS, 779);
  held = 0;
  leave_at = -1;
  step();
  acquire(++number, DIGITS, 779);
  go_on();
  return unused;
}

static void forbid_yielding(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    exit(2);
}

static void *acquire_779(void *unused) {
  acquire(++number, DIGITS, 779);
  return unused;
}

static void in_thread(void *(*work)(void *)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, NULL) != 0)
    exit(2);
  pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  acquire(0, DIGITS, 1);
  find_area();
  sigaction(SIGTRAP, &(struct sigaction){.sa_sigaction = trap, .sa_flags = SA_SIGINFO}, NULL);
  if (strcmp(mode, "twice") == 0) {
    pthread_t thread;
    forbid_yielding(); /* on a busy machine each yield would take long */
    pthread_barrier_init(&left, NULL, 2);
    if (pthread_create(&thread, NULL, acquire_twice, NULL) != 0)
      exit(2);
    leave(NULL);
    pthread_barrier_wait(&left);
    return pthread_join(thread, NULL);
  }
  for (leave_at = 0; strcmp(mode, "again") == 0 && leave_at < HELD_MOST; leave_at++)
    leave_and_call();
  for (int i = 0; i < TIMES && strcmp(mode, "again") != 0; i++) {
    leave_at = i * EACH;
    if (strcmp(mode, "ends") == 0)
      in_thread(leave_and_end);
    else
      leave(NULL);
    acquire(++number, DIGITS, 778);
    if (strcmp(mode, "and-another") == 0)
      in_thread(acquire_779);
  }
  return 0;
}

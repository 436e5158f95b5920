/* SPDX-License-Identifier: MIT */
/* A program whose threads are interrupted in a hook: they single-step a call of malloc, and the handler of that signal,
   on a stack of its own, waits at several instructions of the hook, behind the real function's return. Commands, each
   answered by a line: c makes 1,000 calls; b lets the threads begin; w lets them go on, and waits for them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { THREADS = 6, STACK_BYTES = 64 << 10, GUARD_BYTES = 4096, TRAP_FLAG = 0x100 };

static uintptr_t hooks_from, hooks_to; /* our library's code */
static atomic_int waiting, may_go_on;
static __thread int stays, wanted, seen; /* stays: in the hook, up to now */
static __thread int was_in_hook;

static void find_hooks(void) {
  static char maps[1 << 16];
  int fd = open("/proc/self/maps", O_RDONLY);
  size_t used = 0;
  for (ssize_t got; (got = read(fd, maps + used, sizeof maps - 1 - used)) > 0; used += (size_t)got)
    ;
  close(fd);
  maps[used] = '\0';
  for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n"))
    if (strstr(line, "libheaptape-attach.so") && strstr(line, " r-xp "))
      sscanf(line, "%lx-%lx", &hooks_from, &hooks_to);
}

static int is_at_its_place(uintptr_t instruction) {
  int in_hook = instruction - hooks_from < hooks_to - hooks_from;
  stays += in_hook && !was_in_hook;
  was_in_hook = in_hook;
  return in_hook && stays == 2 && seen++ == wanted;
}

static void step(int signal, siginfo_t *information, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  (void)signal, (void)information;
  if (!is_at_its_place((uintptr_t)registers[REG_RIP]))
    return;
  registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
  atomic_fetch_add(&waiting, 1);
  while (!atomic_load(&may_go_on))
    usleep(1000);
}

static void *call_stepwise(void *number) {
  char *area = mmap(NULL, STACK_BYTES + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t stack = {.ss_sp = area + GUARD_BYTES, .ss_size = STACK_BYTES};
  mprotect(stack.ss_sp, STACK_BYTES, PROT_READ | PROT_WRITE);
  sigaltstack(&stack, NULL);
  wanted = 1 + (int)(intptr_t)number; /* the first instruction is behind a call, as those of any function below are */
  for (int i = 0; i < 100; i++)
    free(malloc(100));
  __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
  void *volatile object = malloc(100);
  free(object);
  return NULL;
}

int main(void) {
  pthread_t thread[THREADS];
  struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  if (sigaction(SIGTRAP, &action, NULL) != 0)
    return 2;
  for (char command; read(0, &command, 1) == 1;) {
    if (command == 'c')
      for (int i = 0; i < 1000; i++)
        free(malloc(4242));
    if (command == 'b') {
      find_hooks();
      for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, call_stepwise, (void *)(intptr_t)i);
      while (atomic_load(&waiting) < THREADS)
        usleep(1000);
    }
    if (command == 'w') {
      atomic_store(&may_go_on, 1);
      for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    }
    if (write(1, "\n", 1) != 1)
      return 2;
  }
  return 0;
}

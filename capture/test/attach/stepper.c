/* SPDX-License-Identifier: MIT */
/* A program whose threads are interrupted in a hook: they single-step a call of free, and the handler of that signal
   waits at several of the hook's first instructions, where no return address says that a thread is in a hook. Commands,
   each answered by a line: c makes 1,000 calls; b lets the threads begin; w lets them go on, and waits for them. */
#include "core/test/usual.h"

enum { THREADS = 6, STACK_BYTES = 64 << 10, TRAP_FLAG = 0x100 };

static uintptr_t hooks_from, hooks_to; /* our library's code */
static atomic_int waiting, may_go_on;
static __thread int wanted; /* instructions of the hook that are passed */

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

/* Is it an instruction of our library, and can't be taken for one behind a call? */
static int is_in_hook_alone(uintptr_t instruction) {
  enum { LONGEST_CALL = 7 };
  if (instruction - hooks_from >= hooks_to - hooks_from)
    return 0;
  for (int i = 1; i <= LONGEST_CALL; i++)
    if (((const unsigned char *)instruction)[-i] == 0xff || ((const unsigned char *)instruction)[-i] == 0xe8)
      return 0;
  return 1;
}

static void step(int signal, siginfo_t *information, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  (void)signal, (void)information;
  if (!is_in_hook_alone((uintptr_t)registers[REG_RIP]) || wanted-- > 0)
    return;
  registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
  atomic_fetch_add(&waiting, 1);
  while (!atomic_load(&may_go_on))
    usleep(1000);
}

/* Of return addresses of earlier calls. */
static __attribute__((noinline)) void clear_stack(void) {
  volatile char below[STACK_BYTES];
  for (size_t i = 0; i < sizeof below; i++)
    below[i] = 0;
}

static void *call_stepwise(void *number) {
  wanted = (int)(intptr_t)number;
  for (int i = 0; i < 100; i++)
    free(malloc(100));
  void *volatile object = malloc(100);
  clear_stack();
  __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
  free(object);
  return NULL;
}

int main(void) {
  pthread_t thread[THREADS];
  struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
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

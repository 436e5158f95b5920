/* SPDX-License-Identifier: MIT */
// A program whose call stacks are known. Usage: host MODE. Each relevant object has its own size, from 1001 on, which
// identifies its event; the functions that lead to it are named accordingly.
#include <alloca.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define FRAME extern "C" __attribute__((noinline, noclone))
// Keeps a call from becoming a jump, which would leave no frame.
#define STAY __asm__ volatile("" ::: "memory")

static void *volatile kept;

FRAME void take(size_t bytes) {
  kept = malloc(bytes);
  STAY;
}
FRAME void middle(size_t bytes) {
  take(bytes);
  STAY;
}
FRAME void outer(size_t bytes) {
  middle(bytes);
  STAY;
}

FRAME void recurse(int depth, size_t bytes) {
  if (depth > 0)
    recurse(depth - 1, bytes);
  else
    take(bytes);
  STAY;
}

FRAME void with_alloca(int bytes_on_stack, size_t bytes) {
  char *volatile there = static_cast<char *>(alloca(static_cast<size_t>(bytes_on_stack)));
  there[0] = 1;
  take(bytes);
  STAY;
}

FRAME void with_alignment(size_t bytes) {
  alignas(64) volatile char there[128];
  there[0] = 1;
  take(bytes);
  STAY;
}

FRAME void throws(size_t bytes) {
  take(bytes);
  throw std::runtime_error("on purpose");
}
FRAME void catches(size_t bytes) {
  try {
    throws(bytes);
  } catch (const std::exception &) {
    take(bytes + 1);
  }
  STAY;
}

FRAME void *in_thread(void *bytes) {
  outer(reinterpret_cast<size_t>(bytes));
  STAY;
  return nullptr;
}
static void run_thread(size_t bytes, size_t stack_bytes) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  if (stack_bytes)
    pthread_attr_setstacksize(&attributes, stack_bytes);
  if (pthread_create(&thread, &attributes, in_thread, reinterpret_cast<void *>(bytes)) != 0)
    exit(3);
  pthread_join(thread, nullptr);
}

static volatile size_t handler_bytes;
FRAME void handler(int) {
  middle(handler_bytes);
  STAY;
}
FRAME void raises(size_t bytes, int flags) {
  static char stack[64 << 10];
  stack_t other = {};
  other.ss_sp = stack;
  other.ss_size = sizeof stack;
  sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(SIGUSR1, &action, nullptr);
  handler_bytes = bytes;
  raise(SIGUSR1);
  STAY;
}

#if defined(__x86_64__)
/* A handler that interrupts the vDSO: a step after each instruction of clock_gettime. */
FRAME void trapped(int, siginfo_t *, void *context) {
  static size_t bytes = 1001;
  uintptr_t at = static_cast<uintptr_t>(static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);
  if (at - getauxval(AT_SYSINFO_EHDR) < 4096)
    middle(bytes++);
  STAY;
}
FRAME void reads_clock() {
  struct sigaction action = {};
  timespec now;
  action.sa_sigaction = trapped;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
  clock_gettime(CLOCK_MONOTONIC, &now);
  __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
  STAY;
}
#endif

static ucontext_t here, there;
FRAME void coroutine() {
  middle(1010);
  STAY;
}
static void run_coroutine(bool mapped) {
  size_t bytes = 64 << 10;
  getcontext(&there);
  there.uc_stack.ss_sp = mapped ? aligned_alloc(4096, bytes) : malloc(bytes);
  there.uc_stack.ss_size = bytes;
  there.uc_link = &here;
  makecontext(&there, coroutine, 0);
  swapcontext(&here, &there);
}

FRAME void through_library(const char *path, size_t bytes) {
  void *library = dlopen(path, RTLD_NOW);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  auto call = reinterpret_cast<void (*)(void (*)(size_t), size_t)>(dlsym(library, "library_call"));
  call(take, bytes);
  STAY;
  dlclose(library);
}

// Random paths through functions with all kinds of frames; each ends with the stack by the judge: backtrace(), or
// libunwind.
static int (*judge)(void **, int) = backtrace;
static unsigned long seed = 12345;
static unsigned random_below(unsigned limit) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return static_cast<unsigned>(seed >> 33) % limit;
}
static size_t next_bytes = 2000;
FRAME void wander(int depth);
FRAME void leaf() {
  void *addresses[128];
  size_t bytes = next_bytes++;
  int count = judge(addresses, 128);
  kept = malloc(bytes);
  free(kept);
  printf("%zu", bytes);
  for (int i = 1; i < count; i++) // 0 is this function, at another place
    printf(" %p", addresses[i]);
  printf("\n");
  STAY;
}
FRAME void wander_plain(int depth) {
  wander(depth);
  STAY;
}
FRAME void wander_large(int depth) {
  volatile char there[5000];
  there[0] = 1;
  wander(depth);
  STAY;
}
FRAME void wander_alloca(int depth) {
  char *volatile there = static_cast<char *>(alloca(16 + random_below(300)));
  there[0] = 1;
  wander(depth);
  STAY;
}
FRAME void wander_aligned(int depth) {
  alignas(128) volatile char there[256];
  there[0] = 1;
  wander(depth);
  STAY;
}
FRAME double wander_arguments(int depth, double a, double b, long c, long d, long e, long f, long g, long h) {
  wander(depth);
  STAY;
  return a + b + static_cast<double>(c + d + e + f + g + h);
}
FRAME void wander_throwing(int depth) {
  try {
    wander(depth);
    if (random_below(2))
      throw 1;
  } catch (int) {
    leaf();
  }
  STAY;
}
FRAME void wander(int depth) {
  if (depth <= 0) {
    leaf();
    STAY;
    return;
  }
  for (unsigned times = 1 + random_below(2); times > 0; times--)
    switch (random_below(6)) {
    case 0:
      wander_plain(depth - 1);
      break;
    case 1:
      wander_large(depth - 1);
      break;
    case 2:
      wander_alloca(depth - 1);
      break;
    case 3:
      wander_aligned(depth - 1);
      break;
    case 4:
      wander_arguments(depth - 1, 1, 2, 3, 4, 5, 6, 7, 8);
      break;
    default:
      wander_throwing(depth - 1);
    }
  STAY;
}
// Almost all stacks differ: more nodes than there is room for.
FRAME void branch(int depth) {
  if (depth == 0) {
    take(1001);
  } else if (random_below(2)) {
    branch(depth - 1);
    STAY;
  } else {
    branch(depth - 1);
    __asm__ volatile("nop" ::: "memory");
  }
  STAY;
}

static int compare(const void *a, const void *b) {
  if (next_bytes < 6000)
    leaf(); // called from libc
  return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "chain") == 0) {
    outer(1001);
    STAY;
    middle(1002);
    STAY;
    outer(1003);
  } else if (strcmp(mode, "thread") == 0) {
    run_thread(1001, 0);
  } else if (strcmp(mode, "small") == 0) {
    for (size_t i = 0; i < 50; i++)
      run_thread(1001 + i, 16 << 10);
  } else if (strcmp(mode, "recursion") == 0) {
    for (int depth = 0; depth < 2000; depth += 1 + depth / 3)
      recurse(depth, 3000 + static_cast<size_t>(depth));
  } else if (strcmp(mode, "alloca") == 0) {
    for (int i = 0; i < 100; i++)
      with_alloca(16 + 64 * (i * 7 % 13), 1001 + static_cast<size_t>(i));
    with_alignment(1200);
  } else if (strcmp(mode, "exceptions") == 0) {
    for (size_t i = 0; i < 10; i++) {
      catches(1001 + 2 * i);
      outer(1101 + i);
    }
  } else if (strcmp(mode, "signal") == 0) {
    raises(1001, 0);
    raises(1002, SA_ONSTACK);
    outer(1003);
#if defined(__x86_64__)
  } else if (strcmp(mode, "vdso") == 0) {
    reads_clock();
#endif
  } else if (strcmp(mode, "coroutine") == 0) {
    run_coroutine(true);
    run_coroutine(false);
    outer(1003);
  } else if (strcmp(mode, "fork") == 0) {
    outer(1001);
    STAY;
    if (fork() == 0) {
      outer(1002);
      exit(0);
    }
    static char of_the_parent[1 << 20]; // so that it has the highest peak, and the requested file
    memset(of_the_parent, 1, sizeof of_the_parent);
    STAY;
    wait(nullptr);
  } else if (strcmp(mode, "libraries") == 0) {
    for (int i = 2; i < argc; i++)
      through_library(argv[i], 1001 + static_cast<size_t>(i));
  } else if (strcmp(mode, "bush") == 0) {
    for (int i = 0; i < 12000; i++)
      branch(250);
  } else if (strcmp(mode, "wander") == 0) {
    void *ignored[2], *libunwind = argc > 2 ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (libunwind)
      judge = reinterpret_cast<int (*)(void **, int)>(dlsym(libunwind, "unw_backtrace"));
    judge(ignored, 2);
    int numbers[200];
    for (int i = 0; i < 60; i++)
      wander(static_cast<int>(random_below(9)));
    for (int i = 0; i < 200; i++)
      numbers[i] = static_cast<int>(random_below(1000));
    qsort(numbers, 200, sizeof *numbers, compare);
  } else {
    return 2;
  }
  STAY;
  return 0;
}

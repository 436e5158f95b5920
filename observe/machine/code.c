/* SPDX-License-Identifier: MIT */
#include "observe/machine/code.h"

#include "core/base/os.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t random_state = 88172645463325252u;
static volatile uint64_t sink;

static void run_cycle(unsigned iterations) {
  uint64_t sum = iterations;
  for (unsigned iteration = 0; iteration < iterations; iteration++) {
#pragma GCC unroll 64
    for (unsigned step = 0; step < CODE_CYCLES_EACH; step++)
      os_add_one_cycle(&sum, iteration);
  }
  sink = sum;
}

static uint64_t table[256] = {1, 2, 3};

static void run_arithmetic(unsigned iterations) {
  uint64_t sums[4] = {1, 2, 3, 4};
  for (unsigned iteration = 0; iteration < iterations; iteration++) {
#pragma GCC unroll 4
    for (unsigned lane = 0; lane < 4; lane++) {
      uint64_t loaded = table[(iteration * 4 + lane) % 256];
      __asm__ volatile("" : "+r"(loaded)); /* no vector code: most programs have none */
      sums[lane] += (loaded ^ iteration) + (loaded >> 3);
    }
  }
  sink = sums[0] + sums[1] + sums[2] + sums[3];
}

/* A program of random byte codes over 64 words. Its branches depend on data, as in a real program. */
enum { PROGRAM = 512, WORDS = 64 };
static struct { uint8_t operation, to, one, two; } program[PROGRAM];
static uint64_t words[WORDS];

static void make_program(void) {
  for (unsigned at = 0; at < PROGRAM; at++) {
    uint64_t bits = random_next(&random_state);
    program[at].operation = (uint8_t)(bits % 8);
    program[at].to = (uint8_t)(bits >> 8) % WORDS;
    program[at].one = (uint8_t)(bits >> 16) % WORDS;
    program[at].two = (uint8_t)(bits >> 24) % WORDS;
    words[at % WORDS] = bits;
  }
}

static void run_interpreter(unsigned iterations) {
  static unsigned at;
  if (words[0] == 0 && words[1] == 0)
    make_program();
  for (unsigned iteration = 0; iteration < iterations; iteration++, at = (at + 1) % PROGRAM) {
    uint64_t one = words[program[at].one], two = words[program[at].two], *to = &words[program[at].to];
    switch (program[at].operation) {
    case 0:
      *to = one + two;
      break;
    case 1:
      *to = one ^ (two << 7 | two >> 57);
      break;
    case 2:
      *to = one - two + at;
      break;
    case 3:
      *to = (one | 1) * (two | 3);
      break;
    case 4:
      *to = one > two ? one : ~two;
      break;
    case 5: /* taken one time in eight */
      if (one % 8 == 0)
        at = (at + two % 16) % PROGRAM;
      break;
    case 6:
      *to = words[one % WORDS] + at;
      break;
    default:
      for (unsigned step = 0; step < two % 4; step++)
        *to += one >> step;
    }
  }
  sink = words[0];
}

enum { OBJECTS = 64 };

static void run_allocator(unsigned iterations) {
  static void *objects[OBJECTS];
  for (unsigned iteration = 0; iteration < iterations; iteration++) {
    uint64_t bits = random_next(&random_state);
    void **object = &objects[bits % OBJECTS];
    free(*object);
    /* Sizes as in real programs: most are small, one in 32 is not. */
    *object = malloc(bits >> 59 ? 16 + (bits >> 8) % 112 : 16 + (bits >> 8) % 2000);
  }
}

static char filled[CODE_STRING_BYTES], copied[CODE_STRING_BYTES];

static void fill(char *to, size_t bytes) {
#if defined(__x86_64__)
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(1) : "memory");
#else
  memset(to, 1, bytes);
  __asm__ volatile("" : : "r"(to) : "memory");
#endif
}

static void copy(char *to, const char *from, size_t bytes) {
#if defined(__x86_64__)
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  memcpy(to, from, bytes);
  __asm__ volatile("" : : "r"(to) : "memory");
#endif
}

static void run_fill_line(unsigned iterations) {
  for (unsigned iteration = 0; iteration < iterations; iteration++)
    fill(filled, CODE_STRING_LINE_BYTES);
}

static void run_fill(unsigned iterations) {
  for (unsigned iteration = 0; iteration < iterations; iteration++)
    fill(filled, CODE_STRING_BYTES);
}

static void run_copy_line(unsigned iterations) {
  for (unsigned iteration = 0; iteration < iterations; iteration++)
    copy(copied, filled, CODE_STRING_LINE_BYTES);
}

static void run_copy(unsigned iterations) {
  for (unsigned iteration = 0; iteration < iterations; iteration++)
    copy(copied, filled, CODE_STRING_BYTES);
}

const struct code codes[CODE_COUNT] = {
    [CODE_CYCLE] = {"cycle", run_cycle, 20},
    [CODE_ARITHMETIC] = {"arithmetic", run_arithmetic, 256},
    [CODE_INTERPRETER] = {"interpreter", run_interpreter, 1024},
    [CODE_ALLOCATOR] = {"allocator", run_allocator, 256},
    [CODE_FILL_LINE] = {"fill_line", run_fill_line, 0},
    [CODE_FILL] = {"fill", run_fill, 0},
    [CODE_COPY_LINE] = {"copy_line", run_copy_line, 0},
    [CODE_COPY] = {"copy", run_copy, 0},
};

/* The count of no iterations is that of stepping into and out of the code. */
double code_instructions(const struct code *code) {
  int64_t whole = stepping_count(code->run, code->counted_iterations), around = stepping_count(code->run, 0);
  return whole < 0 || around < 0 ? -1 : (double)(whole - around) / code->counted_iterations;
}

enum { FEWEST_INSTRUCTIONS = 100 }; /* of a lookup; fewer: all symbols were looked up before (LD_BIND_NOW) */

static long faults_of_thread(void) {
  struct rusage usage;
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_minflt : 0;
}

struct loading loading_sample(const char *library, bool with_lookups) {
  long faults = faults_of_thread();
  uint64_t begin = os_thread_cpu_ns();
  void *loaded = dlopen(library, with_lookups ? RTLD_NOW : RTLD_LAZY);
  if (loaded)
    dlclose(loaded);
  double ns = (double)(os_thread_cpu_ns() - begin);
  return (struct loading){ns, faults_of_thread() - faults};
}

static int (*few_lookups)(void);

static void look_up_few(unsigned with_lookups) {
  if (with_lookups)
    sink = (uint64_t)few_lookups();
}

/* Each child steps through first calls: the symbols are not looked up in this process. */
double loading_instructions(const char *library) {
  void *loaded = dlopen(library, RTLD_LAZY);
  if (!loaded)
    return -1;
  few_lookups = (int (*)(void))dlsym(loaded, "heaptape_machine_call_few");
  int64_t with = few_lookups ? stepping_count(look_up_few, true) : -1, without = stepping_count(look_up_few, false);
  dlclose(loaded);
  if (with < 0 || without < 0 || with - without < FEWEST_INSTRUCTIONS * LOADING_COUNTED_LOOKUPS)
    return -1;
  return (double)(with - without) / LOADING_COUNTED_LOOKUPS * LOADING_LOOKUPS;
}

/* Waits until the child stops. Returns the signal that stopped it, or 0: it has ended. */
static int stop_of(pid_t child) {
  int status;
  if (TEMP_FAILURE_RETRY(waitpid(child, &status, 0)) < 0)
    return 0;
  return WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
}

__attribute__((noreturn)) static void be_traced(void (*call)(unsigned), unsigned argument) {
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
    _exit(1);
  raise(SIGSTOP);
  call(argument);
  raise(SIGSTOP);
  _exit(0);
}

static int64_t step_through(pid_t child) {
  int64_t count = 0;
  for (int stopped = SIGTRAP; stopped == SIGTRAP; count++) {
    if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0)
      return -1;
    stopped = stop_of(child);
    if (stopped == SIGSTOP)
      return count;
  }
  return -1;
}

int64_t stepping_count(void (*call)(unsigned), unsigned argument) {
  pid_t child = fork();
  if (child < 0)
    return -1;
  if (child == 0)
    be_traced(call, argument);
  int stopped = stop_of(child);
  int64_t count = stopped == SIGSTOP ? step_through(child) : -1;
  if (stopped) {
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
      ;
  }
  return count;
}

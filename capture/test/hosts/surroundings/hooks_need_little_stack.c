/* SPDX-License-Identifier: MIT */
/* A hook needs at most as much stack more than the C library's function as docs/use/RECORDING.md says, in slow cases
   too: the first call of a thread and of a fork child, a full ring, a new region; in threads, and in handlers on an
   alternate stack. Threads with the smallest possible stack, 16 KiB on x86-64, live. */
#include "capture/test/hosts/recording.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  PAIRS = 20000,
  THREADS = 20,
  SMALLEST_BYTES = 16 << 10,
  PAINTED_BYTES = 128 << 10,
  MOST_BYTES = 2 << 10,
  PAINT = 0x5a
};

static _Alignas(64) char painted[PAINTED_BYTES]; /* the measured stack */
static int depths;
static pthread_barrier_t together;

static void one_call(void) {
  free(keep(malloc(50)));
}

static void all_calls(void) {
  void *object = NULL;
  for (int i = 0; i < PAIRS; i++)
    object = realloc(object, (size_t)(100 + i % 300));
  for (size_t bytes = 1024; bytes < 4 << 20; bytes *= 2) {
    object = memset(keep(realloc(object, bytes)), 1, bytes);
    free(keep(calloc(3, bytes)));
    free(keep(aligned_alloc(64, bytes)));
  }
  free(object);
}

static void write_depth_below(const char *from) {
  size_t clean = 0;
  while (painted[clean] == PAINT)
    clean++;
  dprintf(depths, "%zu\n", (size_t)(from - painted) - clean);
}

static __attribute__((noinline)) void measure(void (*work)(void)) {
  char *frame = __builtin_frame_address(0);
  memset(painted, PAINT, (size_t)(frame - painted) - 256);
  work();
  write_depth_below(frame);
}

static void *in_painted_thread(void *none) {
  measure(one_call);
  measure(one_call);
  measure(all_calls);
  pid_t child = fork();
  if (child == 0) {
    measure(one_call);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  return none;
}

static void handler(int signal) {
  (void)signal;
  one_call();
}

static void *with_painted_handlers(void *none) {
  stack_t alternate = {.ss_sp = painted, .ss_size = PAINTED_BYTES};
  sigaltstack(&alternate, NULL);
  for (int i = 0; i < 2; i++) { /* the thread's first call is the handler's */
    memset(painted, PAINT, PAINTED_BYTES);
    raise(SIGUSR1);
    write_depth_below(painted + PAINTED_BYTES);
  }
  return none;
}

static void *in_smallest_thread(void *makes_all_calls) {
  one_call();
  pthread_barrier_wait(&together);
  if (makes_all_calls)
    all_calls();
  pthread_barrier_wait(&together);
  return NULL;
}

static void run_thread(void *(*work)(void *), void *stack) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (stack)
    pthread_attr_setstack(&attributes, stack, PAINTED_BYTES);
  CHECK(pthread_create(&thread, &attributes, work, NULL) == 0 && pthread_join(thread, NULL) == 0, "no thread");
}

int host(void) {
  depths = open("depths", O_WRONLY | O_APPEND | O_CREAT, 0600);
  sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handler, .sa_flags = SA_ONSTACK}, NULL);
  pthread_barrier_init(&together, NULL, THREADS + 1);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN));
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], &attributes, in_smallest_thread, i % 5 ? NULL : &together) != 0)
      return 1;
  pthread_barrier_wait(&together);
  run_thread(in_painted_thread, painted); /* needs a new region, as the first has 16 rings */
  pthread_barrier_wait(&together);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  run_thread(in_painted_thread, painted);
  run_thread(with_painted_handlers, NULL);
  return 0;
}

/* How much more stack a recorded host uses than the bare one, at most. */
static long deeper(const char *const *options) {
  enum { MEASURED = 10 };
  long depth[2 * MEASURED], most = 0;
  unlink("depths");
  same_as_bare(options, NULL);
  FILE *file = fopen("depths", "r");
  for (int i = 0; i < 2 * MEASURED; i++)
    CHECK(file && fscanf(file, "%ld", &depth[i]) == 1, "depth %d is missing", i);
  fclose(file);
  for (int i = 0; i < MEASURED; i++)
    most = depth[MEASURED + i] - depth[i] > most ? depth[MEASURED + i] - depth[i] : most;
  return most;
}

int test(void) {
  static const char *const options[][5] = {
      {NULL},
      {"--stamp", "every", "--on-full", "drop", NULL},
      {"--stacks=256", "--latency", "--usable", NULL},
      {"--stacks=256", "--unwind", "fp", NULL},
  };
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    long bytes = deeper(options[i]);
    CHECK(bytes <= MOST_BYTES, "%ld bytes of stack with options %zu", bytes, i);
  }
  return 0;
}

/* SPDX-License-Identifier: MIT */
#include "replay/engine/recorded_clock.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Atomic uint64_t recorded_clock_ns;
uint64_t recorded_clock_origin_ns;

typedef int clock_function(clockid_t, struct timespec *);

enum { FOLLOWED = 8 }; /* clocks below that number may follow recorded time */

static struct {
  clock_function *real;
  _Atomic bool stays_real;
  _Atomic time_t begin[FOLLOWED]; /* the whole second at which each clock stands until following begins; 0: not read */
} recorded;

/* The recorder's; null where none is loaded. */
__attribute__((weak, visibility("default"))) void heaptape_lib_mark(const char *text);

/* From the linker: where the executable's code is. */
extern const char __executable_start[], etext[];

static int real_clock(clockid_t clock, struct timespec *now) {
  if (recorded.real)
    return recorded.real(clock, now);
  return (int)syscall(SYS_clock_gettime, clock, now); /* before main: an allocator's constructor */
}

/* Not CLOCK_MONOTONIC_RAW: Google's tcmalloc measures the processor's cycles against it while it is loaded. */
static bool may_follow(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME_COARSE ||
         clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME;
}

/* The second from which the clock follows recorded time. */
static time_t begin_of(clockid_t clock) {
  time_t begin = atomic_load_explicit(&recorded.begin[clock], memory_order_relaxed);
  struct timespec now = {0};
  if (begin == 0 && real_clock(clock, &now) == 0 &&
      atomic_compare_exchange_strong(&recorded.begin[clock], &begin, now.tv_sec))
    begin = now.tv_sec;
  return begin;
}

/* Replaces the C library's function for all loaded objects. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now) {
  const char *caller = __builtin_return_address(0);
  if (heaptape_lib_mark || atomic_load_explicit(&recorded.stays_real, memory_order_acquire) || !may_follow(clock) ||
      (caller >= __executable_start && caller < etext))
    return real_clock(clock, now);
  uint64_t ns = atomic_load_explicit(&recorded_clock_ns, memory_order_relaxed);
  *now = (struct timespec){begin_of(clock) + (time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  return 0;
}

void recorded_clock_setup(void) {
  recorded.real = (clock_function *)dlsym(RTLD_NEXT, "clock_gettime");
}

void recorded_clock_stay_real(void) {
  atomic_store_explicit(&recorded.stays_real, true, memory_order_release);
}

bool recorded_clock_possible(void) {
  return !heaptape_lib_mark;
}

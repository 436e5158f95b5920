/* SPDX-License-Identifier: MIT */
#include "replay/engine/recorded_clock.h"

#include "core/base/os.h"
#include "replay/engine/counted_syscalls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Atomic uint64_t recorded_clock_ns;
uint64_t recorded_clock_origin_ns;

typedef int clock_function(clockid_t, struct timespec *);

typedef int wait_function(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

enum { WAITERS = 64, SLICE_NS = 500000 };

#define END_UNKNOWN UINT64_MAX /* the wait began before waits followed the recorded clock */

/* Threads of the allocator that have waited for a time: until when; 0: awake, or it waits for no time. */
static struct {
  wait_function *real;
  _Atomic bool follow;
  _Atomic unsigned count;
  uint64_t spent_ns;                /* in recorded_clock_pause and recorded_clock_wake */
  _Atomic uint64_t end_ns[WAITERS]; /* of the thread's wait by the recorded clock; 0: it is in none; or END_UNKNOWN */
  _Atomic int tid[WAITERS];
} waits;

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
  waits.real = (wait_function *)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
}

void recorded_clock_stay_real(void) {
  atomic_store_explicit(&recorded.stays_real, true, memory_order_release);
  atomic_store(&waits.follow, false);
}

bool recorded_clock_possible(void) {
  return !heaptape_lib_mark;
}

void recorded_clock_waits_follow(void) {
  atomic_store(&waits.follow, true);
}

static int64_t ns_of(const struct timespec *time) {
  return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Of the calling thread; WAITERS: there is no room. */
static unsigned waiter_number(void) {
  static _Thread_local unsigned number = WAITERS + 1;
  if (number > WAITERS) {
    unsigned taken = atomic_fetch_add(&waits.count, 1);
    number = taken < WAITERS ? taken : WAITERS;
    if (taken < WAITERS)
      atomic_store(&waits.tid[number], (int)syscall(SYS_gettid));
  }
  return number;
}

static bool has_ended(const struct timespec *until, uint64_t end_ns) {
  struct timespec now;
  if (atomic_load(&waits.follow))
    return end_ns != END_UNKNOWN && atomic_load(&recorded_clock_ns) >= end_ns;
  return real_clock(CLOCK_REALTIME, &now) != 0 || ns_of(until) <= ns_of(&now);
}

/* Replaces the C library's function for all loaded objects. Waits in slices until the recorded clock has advanced by
   what was left until the deadline when the waits began to follow it: a signal ends it as ever, as the mutex is held
   between the slices. */
__attribute__((visibility("default"))) int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                                                  const struct timespec *until) {
  const char *caller = __builtin_return_address(0);
  wait_function *real = waits.real ? waits.real : (wait_function *)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  struct timespec now;
  if (caller >= __executable_start && caller < etext)
    return real(cond, mutex, until);
  unsigned number = waiter_number();
  if (number == WAITERS || real_clock(CLOCK_REALTIME, &now) != 0 || ns_of(until) <= ns_of(&now))
    return real(cond, mutex, until);
  uint64_t end_ns = END_UNKNOWN;
  int status;
  do {
    real_clock(CLOCK_REALTIME, &now);
    int64_t left_ns = ns_of(until) - ns_of(&now);
    bool follow = atomic_load(&waits.follow);
    if (follow && end_ns == END_UNKNOWN)
      end_ns = atomic_load(&recorded_clock_ns) + (uint64_t)(left_ns > 0 ? left_ns : 1);
    atomic_store(&waits.end_ns[number], end_ns);
    int64_t slice_ns = ns_of(&now) + (follow || left_ns > SLICE_NS ? SLICE_NS : left_ns);
    struct timespec slice = {slice_ns / 1000000000, slice_ns % 1000000000};
    status = real(cond, mutex, &slice);
  } while (status == ETIMEDOUT && !has_ended(until, end_ns));
  atomic_store(&waits.end_ns[number], 0);
  return status;
}

bool recorded_clock_wait_ends(uint64_t time_ns, uint64_t *end_ns) {
  unsigned count = waits.spent_ns < WAKE_TOTAL_NS ? atomic_load(&waits.count) : 0;
  *end_ns = time_ns + recorded_clock_origin_ns;
  bool found = false;
  for (unsigned number = 0; number < count && number < WAITERS; number++) {
    uint64_t end = atomic_load(&waits.end_ns[number]);
    if (end == 0 || end >= *end_ns)
      continue;
    *end_ns = end;
    found = true;
  }
  *end_ns -= recorded_clock_origin_ns;
  return found;
}

/* Does the thread of that name in /proc/self/task sleep, in a system call that changes no memory? One that does works,
   though it may wait for the parent. A thread that has ended sleeps. */
static bool sleeps(int folder, const char *name) {
  static const long memory_calls[] = {SYS_mprotect, COUNTED_SYSCALLS_EACH(COUNTED_SYSCALL_NUMBER)};
  char path[64], text[64];
  snprintf(path, sizeof path, "%s/syscall", name);
  int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
  ssize_t bytes = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
  if (fd >= 0)
    close(fd);
  text[bytes > 0 ? bytes : 0] = '\0';
  long call = strtol(text, NULL, 10); /* "NUMBER ARGUMENT ..."; or "running" */
  bool works = text[0] == 'r';
  for (size_t i = 0; bytes > 0 && i < sizeof memory_calls / sizeof *memory_calls; i++)
    works |= call == memory_calls[i];
  return !works;
}

/* The end of the thread's timed wait; 0: it is in none. */
static uint64_t end_of_wait(int tid) {
  unsigned count = atomic_load(&waits.count);
  for (unsigned number = 0; number < count && number < WAITERS; number++)
    if (atomic_load(&waits.tid[number]) == tid)
      return atomic_load(&waits.end_ns[number]);
  return 0;
}

/* Has the thread nothing to do at that time? In a timed wait it runs a little in each slice, which is no work. */
static bool rests(int folder, const char *name, uint64_t at_ns) {
  uint64_t end = end_of_wait(atoi(name));
  return end == 0 ? sleeps(folder, name) : end != END_UNKNOWN && end > at_ns;
}

/* Has every other thread done what there was for it to do at that time? By the kernel's own list, without opendir,
   which would call the allocator. The replay's own threads sleep until it is their turn. */
static bool others_rest(uint64_t at_ns) {
  struct entry {
    uint64_t inode, offset;
    unsigned short bytes;
    char type, name[];
  };
  _Alignas(struct entry) char entries[4096];
  int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), self = (int)syscall(SYS_gettid);
  bool rest = true;
  long bytes;
  while (folder >= 0 && rest && (bytes = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0)
    for (long at = 0; at < bytes && rest; at += ((const struct entry *)(entries + at))->bytes) {
      const char *name = ((const struct entry *)(entries + at))->name;
      rest = atoi(name) == 0 || atoi(name) == self || rests(folder, name, at_ns);
    }
  if (folder >= 0)
    close(folder);
  return rest;
}

static void let_others_work(uint64_t at_ns) {
  uint64_t begin_ns = os_monotonic_ns(), limit_ns = begin_ns + WAKE_LIMIT_NS;
  while (!others_rest(at_ns) && os_monotonic_ns() < limit_ns)
    os_sleep_until_ns(os_monotonic_ns() + SLICE_NS / 5);
  waits.spent_ns += os_monotonic_ns() - begin_ns;
}

void recorded_clock_pause(void) {
  static unsigned pauses;
  if (atomic_load(&waits.follow) && waits.spent_ns < WAKE_TOTAL_NS && pauses++ < WAKE_PAUSES)
    let_others_work(atomic_load(&recorded_clock_ns));
}

void recorded_clock_wake(uint64_t end_ns) {
  recorded_clock_advance(end_ns);
  let_others_work(end_ns + recorded_clock_origin_ns);
}

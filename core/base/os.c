/* SPDX-License-Identifier: MIT */
#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t os_monotonic_ns(void) {
  return clock_ns(CLOCK_MONOTONIC);
}

uint64_t os_unix_ns(void) {
  return clock_ns(CLOCK_REALTIME);
}

uint64_t os_thread_cpu_ns(void) {
  return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t os_process_cpu_ns(void) {
  return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void os_sleep_until_ns(uint64_t monotonic_ns) {
  struct timespec until = {(time_t)(monotonic_ns / 1000000000u), (long)(monotonic_ns % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
    ;
}

struct os_clocks os_read_clocks(clockid_t clock) {
  struct os_clocks closest = {0, 0};
  uint64_t narrowest_cycles = UINT64_MAX;
  for (int i = 0; i < 8; i++) {
    uint64_t begin = os_span_begin();
    uint64_t ns = clock_ns(clock);
    uint64_t window_cycles = os_span_end() - begin;
    if (window_cycles >= narrowest_cycles)
      continue;
    narrowest_cycles = window_cycles;
    closest = (struct os_clocks){ns, begin + window_cycles / 2};
  }
  return closest;
}

double os_clocks_hz(struct os_clocks from, struct os_clocks to) {
  return to.ns == from.ns ? 0 : (double)(to.cycles - from.cycles) * 1e9 / (double)(to.ns - from.ns);
}

double os_cycles_hz(uint64_t interval_ns) {
  struct os_clocks from = os_read_clocks(CLOCK_MONOTONIC);
  struct timespec pause = {(time_t)(interval_ns / 1000000000u), (long)(interval_ns % 1000000000u)};
  nanosleep(&pause, NULL);
  return os_clocks_hz(from, os_read_clocks(CLOCK_MONOTONIC));
}

bool os_cycles_invariant(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8));
#else
  return true;
#endif
}

size_t os_page_bytes(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

uint32_t os_processors(void) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    return (uint32_t)CPU_COUNT(&allowed);
  long online = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than cpu_set_t holds */
  return online > 0 ? (uint32_t)online : 1;
}

void *os_map(size_t bytes, bool shared) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void os_unmap(void *memory, size_t bytes) {
  if (memory)
    munmap(memory, bytes);
}

int os_pwrite_all(int fd, const void *bytes, size_t count, uint64_t offset) {
  const char *from = bytes;
  while (count > 0) {
    ssize_t wrote = TEMP_FAILURE_RETRY(pwrite(fd, from, count, (off_t)offset));
    if (wrote <= 0) {
      if (wrote == 0)
        errno = ENOSPC;
      return -1;
    }
    from += wrote;
    count -= (size_t)wrote;
    offset += (uint64_t)wrote;
  }
  return 0;
}

int os_pread_all(int fd, void *bytes, size_t count, uint64_t offset) {
  char *to = bytes;
  while (count > 0) {
    ssize_t got = TEMP_FAILURE_RETRY(pread(fd, to, count, (off_t)offset));
    if (got <= 0) {
      if (got == 0)
        errno = ENODATA;
      return -1;
    }
    to += got;
    count -= (size_t)got;
    offset += (uint64_t)got;
  }
  return 0;
}

int os_reserve(int fd, uint64_t offset, uint64_t bytes) {
  int saved = errno;
  if (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) == 0)
    return 0;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
    return -1;
  errno = saved;
  return 0;
}

void os_close(int fd) {
  int saved = errno;
  if (fd >= 0)
    close(fd);
  errno = saved;
}

int os_thread_id(void) {
  return (int)syscall(SYS_gettid);
}

void os_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns, bool shared) {
  struct timespec limit = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
  syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, expected, timeout_ns ? &limit : NULL, NULL, 0);
}

void os_futex_wake(const uint32_t *word, int waiters, bool shared) {
  syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, waiters, NULL, NULL, 0);
}

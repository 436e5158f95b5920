/* SPDX-License-Identifier: MIT */
#include "capture/host/kernel/own_memory.h"

#include "capture/host/kernel/maps.h"
#include "capture/host/process.h"
#include "capture/host/real/real.h"
#include "core/base/os.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- the list of our mappings --- */

enum { MAPPINGS_MOST = 4096 }; /* beyond, they are not known: the program's mlockall locks them */

static struct own_mapping {
  _Atomic uintptr_t low; /* 0: no mapping */
  _Atomic uintptr_t high;
} own_mapping[MAPPINGS_MOST];
static _Atomic uint32_t own_mappings; /* entries that are or were used */

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static uintptr_t up_to_page(uintptr_t address) {
  return (address + os_page_bytes() - 1) & -os_page_bytes();
}

static void list_add(uintptr_t low, size_t bytes) {
  for (uint32_t i = 0; i < MAPPINGS_MOST; i++) {
    uintptr_t none = 0;
    if (atomic_load(&own_mapping[i].low) || !atomic_compare_exchange_strong(&own_mapping[i].low, &none, low))
      continue;
    atomic_store(&own_mapping[i].high, up_to_page(low + bytes));
    uint32_t used = atomic_load(&own_mappings);
    while (used <= i && !atomic_compare_exchange_strong(&own_mappings, &used, i + 1))
      continue;
    return;
  }
}

static void list_remove(uintptr_t low) {
  for (uint32_t i = 0; i < atomic_load(&own_mappings); i++)
    if (atomic_load(&own_mapping[i].low) == low) {
      atomic_store(&own_mapping[i].high, 0);
      atomic_store(&own_mapping[i].low, 0);
    }
}

uint64_t memory_own_bytes(void) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < atomic_load(&own_mappings); i++)
    if (atomic_load(&own_mapping[i].low))
      bytes += atomic_load(&own_mapping[i].high) - atomic_load(&own_mapping[i].low);
  return bytes;
}

/* Also the library's segments, which are adjacent, and struct process. low 0: there is none. */
static struct mapping own_at(uint32_t i, uint32_t count) {
  const struct process *process = process_known();
  if (i < count)
    return (struct mapping){.low = atomic_load(&own_mapping[i].low), .high = atomic_load(&own_mapping[i].high)};
  if (i == count)
    return (struct mapping){.low = (uintptr_t)__ehdr_start, .high = up_to_page((uintptr_t)_end)};
  return (struct mapping){.low = (uintptr_t)process, .high = up_to_page((uintptr_t)(process + 1))};
}

/* The first of our mappings that has addresses in low .. high - 1, cut to these; else high .. high. */
static struct mapping first_own(uintptr_t low, uintptr_t high) {
  struct mapping first = {.low = high, .high = high};
  uint32_t count = atomic_load(&own_mappings);
  for (uint32_t i = 0; i < count + 2; i++) {
    struct mapping own = own_at(i, count);
    bool known = own.low != 0;
    own.low = own.low < low ? low : own.low;
    own.high = own.high > high ? high : own.high;
    if (known && own.low < own.high && own.low < first.low)
      first = own;
  }
  return first;
}

/* --- mapping --- */

/* In a running process that was attached to, the thread may be under a filter of which the recorder has asked other
   calls only. */
static bool may_unlock(void) {
  return host_may(HOST_UNLOCK) && (!redirected_table() || (host_may(HOST_FILES) && filters_count() == 0));
}

/* Is locked what is mapped from now on? */
static bool future_is_locked(void) {
  const struct process *process = process_known();
  return process && (atomic_load(&process->locked) & MCL_FUTURE) && may_unlock();
}

/* Locked are the first OS page, for a moment, and nothing that a mapping grows by which is not locked. */
static void *map(size_t bytes, int flags, int fd) {
  const int protection = PROT_READ | PROT_WRITE;
  if (!future_is_locked()) {
    void *memory = mmap(NULL, bytes, protection, flags, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
  }
  size_t page = os_page_bytes();
  void *first = mmap(NULL, page, protection, flags, fd, 0);
  if (first == MAP_FAILED)
    return NULL;
  syscall(SYS_munlock, first, page);
  long memory = syscall(SYS_mremap, first, page, bytes, MREMAP_MAYMOVE, 0);
  if (memory != -1)
    return (void *)memory;
  int error = errno;
  munmap(first, page);
  errno = error;
  return NULL;
}

void memory_mark(void *memory, size_t bytes) {
  int error = errno;
  madvise(memory, bytes, MADV_DONTDUMP);
  if (future_is_locked())
    syscall(SYS_munlock, memory, bytes);
  errno = error;
}

void memory_own(void *memory, size_t bytes) {
  list_add((uintptr_t)memory, bytes);
  memory_mark(memory, bytes);
}

static void *map_own(size_t bytes, int flags, int fd) {
  void *memory = map(bytes, flags | MAP_NORESERVE, fd);
  if (memory)
    memory_own(memory, bytes);
  return memory;
}

void *memory_map(size_t bytes, enum memory_kind kind) {
  if (!host_may(HOST_MAP)) {
    errno = EPERM;
    return NULL;
  }
  /* Shared memory without a file can't grow. */
  bool shared = kind == MEMORY_SHARED && !future_is_locked();
  return map_own(bytes, (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1);
}

void *memory_map_file(size_t bytes, int fd) {
  return map_own(bytes, MAP_SHARED, fd);
}

void *memory_map_wiped(size_t bytes) {
  void *memory = memory_map(bytes, MEMORY_PRIVATE);
  if (memory && madvise(memory, bytes, MADV_WIPEONFORK) != 0) {
    memory_unmap(memory, bytes);
    return NULL;
  }
  return memory;
}

void memory_unmap(void *memory, size_t bytes) {
  if (!memory)
    return;
  list_remove((uintptr_t)memory);
  munmap(memory, bytes);
}

/* --- the program's mlockall --- */

static void unlock_own(void) {
  uint32_t count = atomic_load(&own_mappings);
  for (uint32_t i = 0; i < count + 2; i++) {
    struct mapping own = own_at(i, count);
    if (own.low && own.low < own.high)
      syscall(SYS_munlock, own.low, own.high - own.low);
  }
}

void memory_follow_lock(struct process *process) {
  int error = errno;
  if (may_unlock()) {
    void *probe = mmap(NULL, os_page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe != MAP_FAILED &&
        madvise(probe, os_page_bytes(), MADV_DONTNEED) != 0) /* the kernel keeps what is locked */
      atomic_store(&process->locked, MCL_FUTURE);
    if (probe != MAP_FAILED)
      munmap(probe, os_page_bytes());
    if (atomic_load(&process->locked))
      unlock_own();
  }
  errno = error;
}

/* The number of bytes that are mapped and not ours; locks them, unless flags are 0. UINT64_MAX: not known. */
static uint64_t lock_hosts(int flags) {
  struct maps maps;
  struct mapping mapping;
  uint64_t bytes = 0;
  if (!maps_open(&maps))
    return UINT64_MAX;
  while (maps_next(&maps, &mapping) && mapping.low <= INTPTR_MAX) /* behind it is the kernel's */
    for (uintptr_t at = mapping.low; at < mapping.high;) {
      struct mapping own = first_own(at, mapping.high);
      bytes += own.low - at;
      /* As mlockall does, without regard to OS pages that can't be there. */
      if (own.low > at && (flags & MCL_ONFAULT))
        syscall(SYS_mlock2, at, own.low - at, MLOCK_ONFAULT);
      else if (own.low > at && flags)
        syscall(SYS_mlock, at, own.low - at);
      at = own.high;
    }
  maps_close(&maps);
  return bytes;
}

/* The kernel has refused to lock what is mapped now, as it were too much. Would it be without ours? before: the flags
   of the last call. */
static int lock_without_own(int flags, int before) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || lock_hosts(0) > limit.rlim_cur) {
    errno = ENOMEM;
    return -1;
  }
  if ((flags & MCL_FUTURE) && syscall(SYS_mlockall, flags & ~MCL_CURRENT) != 0)
    return -1;
  if (!(flags & MCL_FUTURE) && (before & MCL_FUTURE))
    syscall(SYS_munlockall);
  lock_hosts(flags);
  return 0;
}

int memory_lock_all(int flags) {
  struct process *process = process_own();
  int before = process ? atomic_exchange(&process->locked, flags) : 0; /* what is mapped from now on may be locked */
  int first_error = errno, result = (int)syscall(SYS_mlockall, flags);
  bool unlock = process && (flags & MCL_CURRENT) && may_unlock();
  if (result == 0 && unlock)
    unlock_own();
  else if (result != 0 && errno == ENOMEM && unlock)
    result = lock_without_own(flags, before);
  if (result == 0)
    errno = first_error;
  else if (process)
    atomic_store(&process->locked, before);
  return result;
}

__attribute__((visibility("default"))) int mlockall(int flags);

int mlockall(int flags) {
  return memory_lock_all(flags);
}

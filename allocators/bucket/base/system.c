/* SPDX-License-Identifier: MIT */
#include "allocators/bucket/base/system.h"

#include "allocators/common/lock.h"
#include "allocators/common/startup.h"

#include <sys/mman.h>

enum { OWN_STEP_BYTES = 64, OWN_BYTES = 64 << 10 };

static struct lock lock; /* of the two below */
static char *own;
static size_t own_left_bytes;
static _Atomic size_t mapped_bytes;

static void note(size_t bytes) {
  if (!threads_may_run()) {
    atomic_store_explicit(&mapped_bytes, system_bytes() + bytes, memory_order_relaxed);
    return;
  }
  COUNT(atomics);
  atomic_fetch_add_explicit(&mapped_bytes, bytes, memory_order_relaxed);
}

void *system_map(size_t bytes) {
  COUNT(mmaps);
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return NULL;
  note(bytes);
  return memory;
}

size_t system_bytes(void) {
  return atomic_load_explicit(&mapped_bytes, memory_order_relaxed);
}

bool system_purge(void *start, size_t bytes) {
  COUNT(madvises);
  return madvise(start, bytes, MADV_DONTNEED) == 0;
}

void *system_own(size_t bytes) {
  bytes = round_up(bytes, OWN_STEP_BYTES);
  system_lock();
  if (bytes > own_left_bytes) {
    size_t mapped = round_up(bytes > OWN_BYTES ? bytes : OWN_BYTES, os_page_bytes);
    char *memory = system_map(mapped);
    if (!memory) {
      system_unlock();
      return NULL;
    }
    own = memory;
    own_left_bytes = mapped;
  }
  char *taken = own;
  own += bytes;
  own_left_bytes -= bytes;
  system_unlock();
  return taken;
}

void system_lock(void) {
  lock_take(&lock);
}

void system_unlock(void) {
  lock_drop(&lock);
}

void system_after_fork(void) {
  lock_reset(&lock);
}

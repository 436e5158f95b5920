/* SPDX-License-Identifier: MIT */
#include "allocators/bucket/block.h"

#include "allocators/common/counters.h"
#include "allocators/common/entry.h"

#include <string.h>
#include <sys/mman.h>

uintptr_t block_secret;

void block_fault(const char *where, const void *object) {
  if (!is_aligned(object))
    fault(where, "invalid pointer: not a multiple of 16", object);
  if (block_is_free(block_of(object)))
    fault(where, "double free, or an object that was freed", object);
  fault(where, "invalid pointer, or overwritten header", object);
}

enum { OWN_STEP_BYTES = 64, OWN_BYTES = 64 << 10 };

struct lock memory_lock; /* of the two below */
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
  lock_take(&memory_lock);
  if (bytes > own_left_bytes) {
    size_t mapped = round_up(bytes > OWN_BYTES ? bytes : OWN_BYTES, os_page_bytes);
    char *memory = system_map(mapped);
    if (!memory) {
      lock_drop(&memory_lock);
      return NULL;
    }
    own = memory;
    own_left_bytes = mapped;
  }
  char *taken = own;
  own += bytes;
  own_left_bytes -= bytes;
  lock_drop(&memory_lock);
  return taken;
}

enum { WORD_BITS = 64, WORDS = NUMBERS / WORD_BITS };

struct lock numbers_lock;
static uint64_t taken[WORDS];
static unsigned beyond; /* how many numbers from NUMBERS on were assigned */

int number_take(void) {
  lock_take(&numbers_lock);
  int number = NO_NUMBER;
  for (int word = 0; word < WORDS && number == NO_NUMBER; word++)
    if (~taken[word]) {
      int bit = __builtin_ctzll(~taken[word]);
      taken[word] |= UINT64_C(1) << bit;
      number = word * WORD_BITS + bit;
    }
  if (number == NO_NUMBER)
    number = NUMBERS + (int)(beyond++ % NUMBERS);
  lock_drop(&numbers_lock);
  return number;
}

void number_give_back(int number) {
  if (number == NO_NUMBER || number >= NUMBERS)
    return;
  lock_take(&numbers_lock);
  taken[number / WORD_BITS] &= ~(UINT64_C(1) << number % WORD_BITS);
  lock_drop(&numbers_lock);
}

void numbers_keep(int mine) {
  memset(taken, 0, sizeof taken);
  if (mine != NO_NUMBER && mine < NUMBERS)
    taken[mine / WORD_BITS] = UINT64_C(1) << mine % WORD_BITS;
}

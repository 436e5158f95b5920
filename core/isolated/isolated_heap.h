/* SPDX-License-Identifier: MIT */
/* The isolated heap: a heap beside another allocator, for groups of objects. The engine serves what a workload has
   served apart from it (core/workload/WORKLOAD.md, REGION), libheaptape-place.so what a plan places (place/plan.h).

   Job: act as the arena that a program would have for one group of objects. Not its job: which objects. The rule of
   each region: requests of up to 16 KiB are rounded up to 16 bytes, and each rounded size is a class, as in an arena
   made for the sizes of its objects. A class hands out memory of runs of 64 KiB (256 KiB for objects above 1 KiB):
   first the objects freed last, then new parts of the run. A run in which nothing lives goes back to the kernel, except
   the one that was emptied last. Larger requests take adjacent whole runs, or above 2 MiB their own mapping, and go
   back to the kernel when they are freed. Runs come from blocks of 4 MiB, whose first OS page describes them. One
   lock per region. Invariants: no OS page is shared with another region or with the other allocator; all memory
   handed out, and the descriptions, are anonymous and private, so that they count as the process's RssAnon.
   Thread-safe; never calls malloc; never changes errno but in isolated_setup. Not safe in a signal handler that
   interrupted it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Regions are numbered from 1. */
enum { REGION_LIMIT = 15 };

/* Call once, first: regions 1 .. count. shared: the map of owners and the tables of blocks are shared memory, which
   does not count as RssAnon, and which a fork child must not use. Returns 0, or -1 with errno set: no address space. */
int isolated_setup(unsigned count, bool shared);

/* Around fork, so that the child finds no lock held: before it; and after it in parent and child. */
void isolated_before_fork(void);
void isolated_after_fork(void);

/* A new object of that region, aligned to 16 bytes: the short way. NULL: no memory. */
void *isolated_malloc(unsigned region, size_t size_bytes);

/* The same for more than ISOLATED_CLASS_MAX_BYTES, zeroed and aligned to align_bytes. */
void *isolated_acquire_large(unsigned region, size_t size_bytes, size_t align_bytes);

/* The same, aligned to 16 bytes or align_bytes (0 or a power of two; any other value counts as 16). zeroed: its bytes
   are 0. */
struct isolated_request {
  size_t size_bytes, align_bytes;
  bool zeroed;
};
enum { ISOLATED_CLASS_MAX_BYTES = 16 << 10, ISOLATED_CLASS_STEP_BYTES = 16 };
static inline __attribute__((always_inline)) void *isolated_acquire(unsigned region, struct isolated_request request) {
  size_t bytes = request.size_bytes, align = request.align_bytes;
  if (align > ISOLATED_CLASS_STEP_BYTES && (align & (align - 1)) == 0) {
    if (bytes > SIZE_MAX / 4 || align > SIZE_MAX / 4)
      return NULL;
    bytes = (bytes + (bytes == 0) + align - 1) & ~(align - 1); /* such a class is aligned, as runs are */
  } else {
    align = 0;
  }
  if (bytes > ISOLATED_CLASS_MAX_BYTES)
    return isolated_acquire_large(region, bytes, align);
  void *object = isolated_malloc(region, bytes);
  return request.zeroed && object ? memset(object, 0, bytes) : object;
}

/* object: of any region, or NULL. */
void isolated_release(void *object);

/* Like realloc, for an object of a region, which stays in its region; size_bytes 0 returns an object, too. NULL: no
   memory; the object is unchanged. */
void *isolated_resize(void *object, size_t size_bytes);

/* Returns the object's usable size. */
size_t isolated_usable_bytes(const void *object);

/* For each 4 MiB of address space: its region, and the OS pages of an object with its own mapping that begins there. */
struct isolated_owner {
  uint32_t region : 4;
  uint32_t os_pages : 28; /* 0: a block */
};
#if defined(__aarch64__)
enum { ISOLATED_ADDRESS_BITS = 48, ISOLATED_BLOCK_BITS = 22 };
#else
enum { ISOLATED_ADDRESS_BITS = 47, ISOLATED_BLOCK_BITS = 22 };
#endif
extern struct isolated_owner *isolated_owners __attribute__((visibility("hidden")));
extern uintptr_t isolated_owner_limit __attribute__((visibility("hidden"))); /* 0 before isolated_setup */

/* Returns whether the object is of a region. */
static inline bool isolated_owns(const void *object) {
  uintptr_t block = (uintptr_t)object >> ISOLATED_BLOCK_BITS;
  return block < isolated_owner_limit && isolated_owners[block].region != 0;
}

/* SPDX-License-Identifier: MIT */
/* The isolated heap: a heap of the engine's own, beside the allocator under test, for objects that a workload has
   served apart (core/workload/WORKLOAD.md, REGION).

   Job: act as the arena that a program would have for one group of objects. Not its job: which objects. The rule of
   each region: requests of up to 16 KiB are rounded up to 16 bytes, and each rounded size is a class, as in an arena
   made for the sizes of its objects. A class hands out memory of runs of 64 KiB (256 KiB for objects above 1 KiB):
   first the objects freed last, then new parts of the run. A run in which nothing lives goes back to the kernel, except
   the one that was emptied last. Larger requests take adjacent whole runs, or above 2 MiB their own mapping, and go
   back to the kernel when they are freed. Runs come from blocks of 4 MiB, whose first OS page describes them. One
   lock per region. Invariants: no OS page is shared with another region or with the allocator under test; all memory
   handed out, and the descriptions, are anonymous and private, so that they count as the process's RssAnon; the map of
   owners is shared memory, and does not. Thread-safe; never calls malloc; leaves errno unchanged on success. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Regions are numbered from 1. */
enum { REGION_LIMIT = 15 };

/* Call once, first. Returns 0, or -1 with errno set: no address space. */
int isolated_setup(void);

/* For a new object of that region, aligned to 16 bytes or align_bytes (0 or a power of two; any other value counts as
   16). zeroed: its bytes are 0. NULL: no memory. */
struct isolated_request {
  size_t size_bytes, align_bytes;
  bool zeroed;
};
void *isolated_acquire(unsigned region, const struct isolated_request *request);

/* object: of any region, or NULL. */
void isolated_release(void *object);

/* Like realloc, for an object of a region, which stays in its region; size_bytes 0 returns an object, too. NULL: no
   memory; the object is unchanged. */
void *isolated_resize(void *object, size_t size_bytes);

/* Returns the object's usable size. */
size_t isolated_usable_bytes(const void *object);

/* Returns whether the object is of a region. Without isolated_setup: false. */
bool isolated_owns(const void *object);

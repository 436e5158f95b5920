/* SPDX-License-Identifier: MIT */
/* Memory apart: a heap of the engine's own, beside the allocator under test, for objects that a workload has served
   apart (core/workload/WORKLOAD.md, APART).

   Job: stand for an arena that a program would write for one group of objects. Not its job: which objects. The rule, of
   each region: requests of up to 16 KiB are rounded up to 16 bytes, and each size so rounded is a class, as in an arena
   that knows the sizes of its objects. A class hands out of runs of 64 KiB (256 KiB for objects above 1 KiB), objects
   freed last first, then ever more of the run; a run in which nothing lives goes back to the kernel, but for the one
   that was emptied last. Larger requests take whole runs one beside the other, above 2 MiB a mapping of their own, and
   go back to the kernel when they are freed. Runs come from blocks of 4 MiB, whose first OS page describes them. One
   lock per region. Invariants: no OS page is shared with another region or with the allocator under test; all memory
   handed out, and the descriptions, are anonymous and private, so that they count as the process's RssAnon; the map of
   who owns what is shared memory, and does not. Thread-safe; never calls malloc; keeps errno as it finds it where it
   succeeds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Regions are numbered from 1. */
enum { REGION_LIMIT = 15 };

/* Once, before all else. Returns 0, or -1 with errno set: no address space. */
int region_setup(void);

/* A new object of that region, aligned to 16 bytes or align_bytes (0, or a power of two; others count as 16); NULL if
   there is no memory. zeroed: its bytes are 0. */
struct region_request {
  size_t size_bytes, align_bytes;
  bool zeroed;
};
void *region_acquire(unsigned region, const struct region_request *request);

/* object is of any region, or NULL. */
void region_release(void *object);

/* As realloc of an object of a region, which keeps its region; size_bytes 0 gives an object too. NULL: no memory, the
   object is as it was. */
void *region_resize(void *object, size_t size_bytes);

/* Bytes of the object that may be used. */
size_t region_usable_bytes(const void *object);

/* Is the object of a region? Without region_setup: never. */
bool region_owns(const void *object);

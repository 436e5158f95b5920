/* SPDX-License-Identifier: MIT */
/* Memory from and to the system: arenas' heaps, large objects with their own mapping, and the settings that change as
   the program runs. */
#pragma once

#include "allocators/common/base.h"
#include "allocators/common/counters.h"
#include "allocators/common/entry.h"
#include "allocators/reference/arena.h"
#include "allocators/reference/chunk.h"

/* Where arenas get memory and give it back: the break, heaps of 64 MiB, mappings. All need the arena's lock. */

/* Makes the top chunk at least bytes + CHUNK_MIN_BYTES large. False: no memory, errno undefined. */
bool heap_grow(struct arena *arena, size_t bytes);

/* Makes a new arena in its own heap; NULL: no memory. */
struct arena *heap_new_arena(unsigned number);

/* Gives back what the top has beyond keep_bytes, in whole OS pages. Returns whether there was anything. */
bool heap_trim(struct arena *arena, size_t keep_bytes);

/* Gives OS pages inside a free chunk back to the system; the chunk stays. Returns whether there were any. */
bool heap_purge(struct chunk *chunk);

/* Unmaps newest heaps in which nothing is used. Keeps errno. */
void heap_drop_empty(struct arena *arena);

/* Return the first chunk of a heap, and the end of its chunks (fence or end of the top). */
struct chunk *heap_first_chunk(struct heap *heap);

/* Objects with their own mapping: large requests that fit nowhere in their arena. No lock is needed.

   Freeing one that is larger than mmap_threshold raises the threshold to its size, up to 32 MiB, and trim_threshold to
   twice that: programs that free large objects soon request such objects again, and mapping them costs a page fault for
   each OS page. Not if one of the two thresholds was set. */

/* Returns zeroed memory for an object at a multiple of alignment (a power of two); NULL: none, errno undefined. */
void *mapped_take(size_t object_bytes, size_t alignment);

void mapped_release(struct chunk *chunk);

/* Resizes the object, maybe moving it; NULL: failed, and it is unchanged. */
void *mapped_resize(struct chunk *chunk, size_t object_bytes);

/* Returns the number of mapped objects, and their bytes: for statistics, not exact while other threads run. */
void mapped_count(size_t *count, size_t *bytes);

/* Settings derived from the tunables, which change while the program runs: by mallopt, or as thresholds adapt. */

extern size_t fast_max_bytes HIDDEN;   /* largest chunk that goes to a fast bin; 0: none */
extern size_t quick_max_bytes HIDDEN;  /* largest chunk that may go to a tcache or a fast bin */
extern bool dynamic_thresholds HIDDEN; /* neither threshold was set, so they follow the program */
extern bool requests_do_more
    HIDDEN; /* each request that is not inlined fills its object, or makes the bin of its size */

/* Call after the tunables were read. */
void settings_setup(void);

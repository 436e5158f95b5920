/* SPDX-License-Identifier: MIT */
/* Where arenas get memory and give it back: the break, heaps of 64 MiB, mappings. All need the arena's lock. */
#pragma once

#include "allocators/common/startup.h"
#include "allocators/reference/arena/arena.h"

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

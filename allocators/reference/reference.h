/* What the reference allocator reports beyond the malloc API: counts of what it did, and every chunk that it has.

   All are found by dlsym in a process that it is preloaded to, and may be called from any thread at any time, but not
   from a signal handler. */
#ifndef ALLOCATORS_REFERENCE_REFERENCE_H
#define ALLOCATORS_REFERENCE_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#define REFERENCE_PUBLIC __attribute__((visibility("default")))

/* One counter; names and meanings stand in counters.def. */
struct reference_stat {
  const char *name;
  uint64_t value;
};

/* Fills in at most limit counters, summed over all threads that there are or were since the start or the last fork of
   this process's ancestors. Returns how many there are; 0: the tunable stats is off. */
REFERENCE_PUBLIC size_t reference_stats(struct reference_stat *stats, size_t limit);

enum reference_state {
  REFERENCE_USED,
  REFERENCE_TCACHE, /* free in some thread's cache, used to everybody else */
  REFERENCE_FAST,
  REFERENCE_UNSORTED,
  REFERENCE_SMALL,
  REFERENCE_LARGE,
  REFERENCE_TOP, /* the end of the arena's newest heap */
  REFERENCE_STATES
};

struct reference_chunk {
  unsigned arena; /* 0: the main one */
  enum reference_state state;
  const void *address; /* of the chunk; its object is 16 bytes further */
  size_t size_bytes;   /* with the 8 bytes of overhead */
};

/* Calls visit for each chunk of each arena: heap by heap, in order of address within a heap, under the arena's lock. So
   visit must not call the malloc API. Chunks cover their heap without gaps but for its header and the fence at the end
   of a full one. Objects with a mapping of their own belong to no arena and are not visited. The state of used, tcache
   and fast chunks is exact for other threads only while they don't allocate. */
REFERENCE_PUBLIC void reference_walk(void (*visit)(const struct reference_chunk *chunk, void *context), void *context);

/* The name of a state: "used", "tcache", ... */
REFERENCE_PUBLIC const char *reference_state_name(enum reference_state state);

/* The same walk for callers without our structs, and the names of its states; NULL above the last. A block here is
   what is a chunk's alone, from its head to the next one's, so that no byte of an object lies in another's block. */
REFERENCE_PUBLIC void
heaptape_heap_walk(void (*visit)(const void *address, size_t bytes, unsigned state, void *context), void *context);
REFERENCE_PUBLIC const char *heaptape_heap_walk_state(unsigned state);

#endif

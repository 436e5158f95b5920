/* The switches: what REFERENCE_TUNABLES=name=value:name=value sets, read once at the first call.

   Constant afterwards, except for the two thresholds that adapt (mapped.h) and what mallopt sets. A name that is not in
   tunables.def, or a value out of its range, is reported on stderr and ignored. Ignored altogether in a set-user-ID
   program. */
#ifndef ALLOCATORS_REFERENCE_BASE_TUNABLES_H
#define ALLOCATORS_REFERENCE_BASE_TUNABLES_H

#include <stdbool.h>
#include <stddef.h>

struct tunables {
#define TUNABLE(name, standard, lowest, highest, meaning) size_t name;
#include "allocators/reference/base/tunables.def"
#undef TUNABLE
  size_t fast_max_bytes;   /* largest chunk that goes to a fast bin; 0: none */
  bool dynamic_thresholds; /* mmap_threshold was not set, so it follows the program */
};

extern struct tunables tunables;

/* For the two thresholds, which another thread may be raising. */
static inline size_t tunable_now(const size_t *tunable) {
  return __atomic_load_n(tunable, __ATOMIC_RELAXED);
}

/* Reads the environment. Called once, before any other thread can run here. Allocates nothing. */
void tunables_read(void);

#endif

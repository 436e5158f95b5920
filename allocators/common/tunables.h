/* SPDX-License-Identifier: MIT */
/* The switches: set by NAME_TUNABLES=name=value:name=value, NAME the allocator's, read once at the first call.

   Each allocator has its own table, tunables.def, in ALLOCATOR_TUNABLES:
     TUNABLE(name, standard value, lowest, highest, meaning)
     CHOICE(name, standard value, words, meaning)   words separated by spaces; the value is the word's number

   Constant afterwards, except where the allocator itself changes them. A name that is not in the table, or a value
   out of its range, is reported on stderr and ignored. Ignored altogether in a set-user-ID program. */
#pragma once

#include "allocators/common/base.h"

#include <stdbool.h>
#include <stddef.h>

struct tunables {
#define TUNABLE(name, standard, lowest, highest, meaning) size_t name;
#define CHOICE(name, standard, words, meaning) size_t name;
#include ALLOCATOR_TUNABLES
#undef TUNABLE
#undef CHOICE
};

/* Whether each tunable was set. */
struct tunables_set {
#define TUNABLE(name, standard, lowest, highest, meaning) bool name;
#define CHOICE(name, standard, words, meaning) bool name;
#include ALLOCATOR_TUNABLES
#undef TUNABLE
#undef CHOICE
};

extern struct tunables tunables HIDDEN;
extern struct tunables_set tunables_set HIDDEN;

/* Reads a tunable that another thread may be changing. */
static inline size_t tunable_now(const size_t *tunable) {
  return __atomic_load_n(tunable, __ATOMIC_RELAXED);
}

/* Reads the environment. Called once, before any other thread can run here. Allocates nothing. */
void tunables_read(void);

/* SPDX-License-Identifier: MIT */
/* The places in the workload of the TOUCHED words of large live objects, by slot. The value to store is known at the
   object's release. Memory is O(live objects of at least TOUCHED_MIN_BYTES). Not thread-safe. */
#pragma once

#include "core/base/address_map.h"
#include "core/base/vector.h"

#include <stdbool.h>
#include <stdint.h>

/* Objects of fewer bytes have no TOUCHED word: capture does not check them either. */
struct touched_word {
  uint64_t offset;    /* in the file */
  uint64_t bytes;     /* the object's request */
  uint64_t old_bytes; /* before the resize that acquired it; 0: there was none, or what it had is not known */
  uint32_t had;       /* the most OS pages that it had before */
  uint32_t reused;    /* its OS pages that an earlier object had, of large ones (convert/compile/reused.h) */
  bool moved;         /* by that resize */
  uint32_t thread;    /* the thread whose stream it is in */
};

struct touched_words {
  struct address_map map; /* slot + 1 to index */
  VECTOR(struct touched_word) words;
  uint32_t free_list; /* first free word plus 1 */
};

bool touched_words_init(struct touched_words *words);
void touched_words_free(struct touched_words *words);

/* False if there is no memory. The slot must have none. */
bool touched_words_put(struct touched_words *words, uint32_t slot, const struct touched_word *word);

/* Returns the slot's word and removes it; false if it has none. */
bool touched_words_take(struct touched_words *words, uint32_t slot, struct touched_word *word);

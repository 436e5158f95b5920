/* SPDX-License-Identifier: MIT */
/* The recorded accesses as the engine performs them: one word each.

   Job: decode the file of accesses (core/trace/access_stream.h), piece by piece, into items that cost one load and no
   branch on their length; give other memory its place. Not its job: performing them (perform.h), checking the file
   before the run (replay/parent/access_stream.h); but it checks again what it relies on, as the file may change.
   Invariants: items are those of the stream, in its order; a piece ends with a mark; memory is bounded, whatever the
   stream's length. No malloc. Only the thread that has the turn may call these functions. */
#pragma once

#include <stdint.h>

/* Bits 0-31: slot of the object; bits 32-63: its granule, signed. Other memory is an object in the slot after the
   workload's last. ITEM_NO_SLOT: not an access but a mark, whose kind is in place of the granule. */
#define ITEM_NO_SLOT UINT32_MAX
enum item_mark { ITEM_OP, ITEM_PIECE_END, ITEM_STREAM_END };

static inline uint32_t item_slot(uint64_t item) {
  return (uint32_t)item;
}

static inline int32_t item_granule(uint64_t item) {
  return (int32_t)(item >> 32);
}

struct prepared_counts {
  uint64_t accesses, object_accesses; /* so far; those to objects */
  uint64_t items;                     /* marks included */
};

/* Opens the file. other_slot: the slot of other memory, above all slots of objects. Fails the engine's run
   (engine_fail) where it can't be read or there is no memory. */
void prepared_open(const char *path, uint32_t other_slot);

/* Prepares the next piece and returns its first item; the previous piece is overwritten. Fails the engine's run for a
   damaged item. */
const uint64_t *prepared_next_piece(void);

/* Returns the counts of all pieces so far. */
struct prepared_counts prepared_counts(void);

/* SPDX-License-Identifier: MIT */
/* The blame pass: who holds the resident memory, at some positions of the replay (docs/use/BLAME.md).

   Job: when to attribute, and where the rows go. Not its job: the memory pass, which runs beside it (replay/memory/),
   attribution (attribution.h), JSON (blame_json.h).
   Invariants: the recorded order, so that one thread is in here at a time and positions are those of the recording; at
   requested positions and at the peak all groups are kept, at other positions those of at least FOLD_SHARE of resident
   memory; nothing here calls malloc, and what it faults in is not counted as the allocator's. */
#pragma once

#include "replay/passes/blame/births.h"

struct blame_watch {
  uint64_t next_position; /* at which to attribute */
  uint64_t rows;          /* of the time line, when last read */
};

extern struct blame_watch blame_watch;

/* Call after memory_setup; fails by engine_fail. */
void blame_setup(void);

/* Call these after memory_begin, and after memory_end. */
void blame_begin(void);
void blame_end(void);

/* Attributes if an attribution is due now. */
void blame_look(struct worker *worker);

/* Call after each op of the pass, after memory_after_op. */
static inline void blame_after_op(struct worker *worker) {
  if (__builtin_expect(atomic_load_explicit(&engine.result->done, memory_order_relaxed) >= blame_watch.next_position ||
                           engine.result->rows != blame_watch.rows,
                       0))
    blame_look(worker);
}

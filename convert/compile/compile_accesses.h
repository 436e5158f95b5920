/* Brings a trace's data accesses into the order and the terms of its workload (WORKLOAD.md, accesses): one EVENT item
   for each op, in the workload's order, and between them the accesses that the program made there, objects named by
   their slots.

   The trace's stream has the calls as they came, the workload the order that the history proved: they agree but for
   steps of calls that overlap. Where they don't, the workload's order is kept, and an access to an object that is not
   live there is counted and left out. Calls that are no ops (failed ones, releases of objects never seen, those that a
   gap counts) have no item. Not its job: that order (convert/history/history.h), reading blocks.
   Memory is O(live objects + threads + gaps) plus one block; calls that the workload has in another order wait, at most
   COMPILE_ACCESSES_MAX_WAITING of them. Not thread-safe. */
#ifndef CONVERT_COMPILE_COMPILE_ACCESSES_H
#define CONVERT_COMPILE_COMPILE_ACCESSES_H

#include "convert/history/history.h"

enum { COMPILE_ACCESSES_MAX_WAITING = 1 << 20 };

struct compiled_accesses {
  uint64_t objects, other;   /* accesses in the file */
  uint64_t lost;             /* accesses left out, as their object is not live where they stand */
  uint64_t ops_without_call; /* the stream ended before their calls */
};

struct compile_accesses;

/* Creates or truncates path. Returns 0, or -1 with error, also if the trace has no accesses. */
int compile_accesses_open(struct compile_accesses **out, struct trace_reader *reader, const char *path,
                          struct error *error);

/* The next op, and each step that gives none (history_consumer.left_out): all of them, in order. Return 0, or -1 with
   the error given to open. */
int compile_accesses_op(struct compile_accesses *accesses, const struct history_op *op);
int compile_accesses_left_out(struct compile_accesses *accesses, const struct merge_step *step);

/* After the last op: the rest of the stream, and its totals. Returns 0, or -1 as above. */
int compile_accesses_finish(struct compile_accesses *accesses, struct compiled_accesses *counts);

void compile_accesses_free(struct compile_accesses *accesses);

#endif

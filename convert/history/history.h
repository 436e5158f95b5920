/* SPDX-License-Identifier: MIT */
/* The history of a trace: matches each address to the object that lives there, in a legal order, and counts the events
   that are not legal. It is the proof behind `check`, and the input of `compile`.

   Steps come merged by stamp. A step that can't be placed yet (acquire of a live address, release or touch of an
   address that is not live) parks its thread until another thread makes it possible: this repairs an inversion of any
   depth. The wait of a parked thread is given up when nothing else can move, or when the merge is further than the
   horizon past its step; then the step is counted as what it appears to be (unseen or double free, unseen touch,
   overlapping acquire). Invariants: each op handed to the consumer is legal after those before it; every event is
   either an op or counted with the reason why not. Memory is O(live objects + threads). Not thread-safe. */
#pragma once

#include "convert/history/merge.h"
#include "core/trace/read/trace_read.h"
#include "core/workload/slots.h"
#include "core/workload/witness.h"

enum history_kind {
  HISTORY_ACQUIRE, /* the slot is empty before */
  HISTORY_RELEASE, /* the slot is empty afterwards */
  HISTORY_TOUCH,   /* also a realloc that keeps its slot */
  HISTORY_MOVE,    /* realloc of a live object: same slot, new size */
  HISTORY_NOTHING  /* no object: free(NULL) */
};

/* Totals. */
struct history_state {
  uint64_t live_bytes, live_objects;
};

/* One op. The object's slot (slots.at[slot]) is valid during the call, with its old size for MOVE and
   RELEASE, its new one for ACQUIRE. */
struct history_op {
  enum history_kind kind;
  uint8_t call;   /* as in the event, but NULL_IN if the object passed to realloc was never seen; free if implied */
  uint8_t region; /* number of the isolated heap that serves it; 0: the allocator serves it */
  bool moved;     /* made by a rewriting away from its event, which was left out: does not count as an event */
  uint32_t thread;
  uint32_t slot;              /* SLOTS_NONE for NOTHING */
  uint32_t touched_os_pages;  /* of the object that is released or moves, plus 1; 0: not known */
  uint32_t touched_parts;     /* where (core/base/touched.h); not checked against the object */
  uint64_t size_bytes, param; /* the call's arguments */
  uint64_t request_bytes;     /* of ACQUIRE and MOVE */
  uint64_t stamp;
  const struct trace_event *event;    /* valid during the call; NULL: a free that was never seen,
                                         implied by what came after */
  const struct history_state *before; /* the op; valid during the call */
};

/* Callbacks may be NULL, except op. */
struct history_consumer {
  void *context;
  /* Returns 0, or -1 to stop (it fills in the error itself). */
  int (*op)(void *context, const struct history_op *op, struct slots *slots);
  void (*thread_end)(void *context, uint32_t thread);
  /* The event, or its first step, gives no op: a failed call, or a release or touch of an object never seen. slot: of
     the live object passed to a failed realloc, else SLOTS_NONE. Returns as op. */
  int (*left_out)(void *context, const struct merge_step *step, uint32_t slot);
  /* A realloc has released the object's old address; MOVE follows when it gets the new one. Returns as op. */
  int (*move_begins)(void *context, const struct merge_step *step, uint32_t slot);
  /* After the last op: the object that lives in the slot had these OS pages resident when the process ended. */
  void (*touched_at_end)(void *context, uint32_t slot, struct touched touched);
};

struct history_options {
  double horizon_ns; /* negative: the default of history_run */
  bool check_ranges; /* also prove that no two live objects overlap; slower. Not where addresses are made up */
  uint64_t os_page_bytes;
  void (*progress)(void *context, uint64_t events); /* NULL: none; called every 65,536 events */
  void *progress_context;
};

#define HISTORY_DEFAULT_HORIZON_NS 1e7
/* In stamps, for clocks without a rate ("counter"). */
#define HISTORY_DEFAULT_HORIZON_STAMPS (1u << 16)

/* Runs through the whole trace. consumer may be NULL. Default horizon: 10 ms; 2^16 stamps if the clock has no rate but
   counts events; 0 (only equal stamps are tried in every order) if the order is a file's own, or if the trace reports
   missing events and its writer keeps the order of FORMAT.md ("tags", "every"): there a repair would pair a release of
   an unseen object with the next object at that address. Returns 0, or -1 with error. */
int history_run(struct trace_reader *reader, const struct history_options *options,
                const struct history_consumer *consumer, struct witness *witness, struct error *error);

/* Live bytes and objects during a pass over a history, and their peaks in its witness. Code that hands on ops keeps one
   (history.c, convert/whatif/emitter.c). Invariant: os_page_bytes is a power of two. */

struct live_totals {
  struct history_state state;
  uint64_t os_page_bytes;
  uint64_t live_os_page_bytes; /* objects of an OS page or more rounded up; separate from the state, as code that
                                  reads neighbours as one vector waits for earlier stores to reach the cache */
  struct witness *witness;     /* its ops field counts the ops handed on */
};

static inline uint64_t live_rounded(const struct live_totals *live, uint64_t size_bytes) {
  uint64_t os_page = live->os_page_bytes;
  return size_bytes < os_page ? size_bytes : (size_bytes + os_page - 1) & ~(os_page - 1);
}

static inline void live_subtract(struct live_totals *live, uint64_t size_bytes) {
  live->state.live_bytes -= size_bytes;
  live->live_os_page_bytes -= live_rounded(live, size_bytes);
}

/* Call it after the op has been handed on: the peak is after the op whose position is ops - 1. */
static inline void live_add(struct live_totals *live, uint64_t size_bytes) {
  struct witness *witness = live->witness;
  live->state.live_bytes += size_bytes;
  live->live_os_page_bytes += live_rounded(live, size_bytes);
  if (live->state.live_bytes > witness->peak_live_bytes) {
    witness->peak_live_bytes = live->state.live_bytes;
    witness->peak_position = witness->ops - 1;
    witness->objects_at_peak = live->state.live_objects;
  }
  if (live->live_os_page_bytes > witness->peak_live_os_page_bytes)
    witness->peak_live_os_page_bytes = live->live_os_page_bytes;
}

/* One more object lives; its bytes are added by live_add. */
static inline void live_begin_object(struct live_totals *live) {
  if (++live->state.live_objects > live->witness->peak_live_objects)
    live->witness->peak_live_objects = live->state.live_objects;
}

/* SPDX-License-Identifier: MIT */
/* The contents of a slice, as the user specifies them: KEY=FROM..TO; either side may be left out.

     time=1.5s..3s        time since the recording's start; ns, us, ms, s, m; plain numbers are seconds
     progress=10%..20%    share of the events
     progress=1000..5000  events by number, from 0, in merged order
     mark=warm..done      from the first mark of that text to the next mark of the other
     thread=0,3..5        objects that these threads acquired, and their own other calls
     size=1k..64k         objects by the size of their first request, TO included; k, m, g are binary

   For time, progress and mark, FROM belongs to the slice and TO doesn't. Several specs are the intersection. Not its
   job: what the trace has (rewrite.h). */
#pragma once

#include "convert/history/history.h"
#include "convert/rewrite/trace_out.h"
#include "core/workload/workload_read.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLICE_MAX_RANGES = 64 };

struct slice_range {
  uint64_t from, to;
};

struct slice_spec {
  const json_t *texts;             /* the specs as the user gave them, an array; for INFO */
  double from_ns, to_ns;           /* to_ns < 0: to the end */
  uint64_t from_event, to_event;   /* to_event UINT64_MAX: to the end */
  double from_percent, to_percent; /* of the events */
  const char *from_mark, *to_mark; /* into the arguments, or NULL; from_mark has from_mark_bytes, up to the dots */
  uint32_t from_mark_bytes;
  uint64_t from_size, to_size;                  /* bytes, both included */
  struct slice_range threads[SLICE_MAX_RANGES]; /* numbers, both included */
  uint32_t thread_ranges;                       /* 0: all */
  bool by_time, by_mark, by_size;
};

#define SLICE_EVERYTHING                                                                                               \
  { .to_ns = INFINITY, .to_event = UINT64_MAX, .to_percent = 100, .to_size = UINT64_MAX }

/* Narrows spec by text, which must live as long as spec. Returns NULL, or what is wrong with text. */
const char *slice_spec_parse(struct slice_spec *spec, const char *text);

/* Makes one trace from others, in this order: merge, slice, anonymise, and write it as a normal trace or an archive.
   Steps between the first and the last go through temporary files. Not thread-safe. */

struct rewrite {
  struct slice_spec slice; /* texts is NULL: no slice */
  bool merge, anonymise, archive;
  struct history_options history;
};

/* Writes path from the readers (one, unless it is a merge). Returns 0, or -1 with error. */
int rewrite_trace(const struct rewrite *rewrite, struct trace_reader **readers, uint32_t count, const char *path,
                  struct error *error);

/* Joins the traces of several processes into one, as if they had been threads of one process, so that their combined
   load on a machine's memory can be replayed.

   Traces that are files of one rotated recording are one process: they have the same addresses and
   clock, and their threads continue. Merging only such files gives the trace that the recording would have been without
   rotation.

   Threads of the second trace follow those of the first, and so on. Addresses of process number i move up by i x 2^48,
   so that addresses of different processes never collide; a trace with addresses above 2^48 can't be merged. Stamps are
   put on the first trace's clock: unchanged where both recordings read the same cycle counter (the clock of day shows
   this), else by the clock of day at their origins. Samples are sums over all processes at that time. A child of fork
   that was recorded from its fork frees objects of its parent: the merged trace then lacks its start, as the child's
   does. Data accesses are left out. Memory is O(block + threads + samples of one trace). Not thread-safe. */

/* Returns 0, or -1 with error. */
int trace_merge(struct trace_reader *const *readers, uint32_t count, const char *path,
                const struct trace_options *options, struct error *error);

/* Cuts a part out of a trace; the part is itself a legal history.

   Objects that live where the part begins are acquired in a prologue: each by the thread that acquired it, with its
   present size, in the order of their acquires, one stamp before the part's first. Objects that live where it ends stay
   live. An event is in the part if it is within the window and its object, if it has one, is chosen: by the size first
   requested, and by the thread that acquired it. So ops of other threads on a chosen object stay, and releases of
   objects left out are left out. Events keep their stamps, addresses and all other data, except that stamps are raised
   where the order had to be repaired, or was left open by equal stamps of two threads.

   A realloc that the window's beginning cuts in two, between its release and its acquire, only acquires; one that its
   end cuts in two only frees. Releases of objects never seen are left out, and a free is inserted where one was not
   seen, so `check` calls a slice legal. Data accesses are left out. INFO's `slice` describes the source. Memory is that
   of history_run. Not thread-safe. */

/* Returns 0, or -1 with error, also if the trace lacks times, or a mark, that the spec needs. */
int trace_slice(struct trace_reader *reader, const char *path, const struct slice_spec *spec,
                const struct trace_options *options, struct error *error);

/* Reduces a trace to what its replay needs: the calls with their sizes, counts and alignments, the object passed to
   each, the order, the OS pages touched, the memory samples against progress, and the data accesses.

   Addresses are replaced by addresses in a space where every thread's objects are consecutive and no address is used
   twice; stamps become the ordinals of runs of events of one thread; names, process ids, times, stacks, modules, marks
   and names of threads are left out. The history is put into its legal order: steps that `check` would repair are
   repaired, releases of objects never seen are left out, a free is inserted where one was not seen. So compile makes
   the same workload, word for word, from the new trace as from the old one, if that was legal
   (convert/test/test_tapes.py). Memory is that of history_run. */

int trace_anonymise(struct trace_reader *reader, const char *path, const struct trace_options *options,
                    struct error *error);

/* Makes a trace of a workload's ops: of all or some of its objects, up to a position, on fewer threads. `heaptape
   minimise` makes its candidates with it.

   Objects are numbered from 0 in the order of their births in the total order; a call that is given NULL and acquires
   nothing counts as an object that is born and ends there. Invariants: the trace is a legal history, from which the
   compiler makes the workload again, if all of it is wanted; an object is present with all its ops up to the end, or
   not at all. Addresses are made up. Memory is O(slots + threads). Not thread-safe. */

struct workload_trace_selection {
  const uint8_t *objects; /* by number: 0: is left out; NULL: all stay */
  uint64_t object_count;  /* of the array: must be the number of the workload's objects */
  uint64_t end;           /* position of the first op left out; all later ops are left out, too */
  const uint32_t *joined; /* threads whose ops are made by thread 0 */
  size_t joined_count;
};

struct workload_trace_counts {
  uint64_t objects, events; /* objects: of the workload, up to the end; events: written */
};

/* The workload's ops must be legal (`check`); an illegal op that is noticed is an error. Returns 0, or -1 with error;
   then the file is incomplete. */
int workload_trace_write(const struct workload *workload, const struct workload_trace_selection *wanted,
                         const char *path, struct workload_trace_counts *counts, struct error *error);

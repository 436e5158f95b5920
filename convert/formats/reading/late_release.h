/* SPDX-License-Identifier: MIT */
/* Puts releases in their place that the recorder logged too late, in a stream that does not tell its threads.

   heaptrack, mtrace and jemalloc's utrace log a realloc after the call. Meanwhile another thread may have been handed
   the old address, and its acquire stands before the release. Without threads the history can't repair that: it keeps
   each thread's order. So events pass through a window here. An acquire of an address that is live leaves an empty
   place before itself; if a late release (of a realloc) of that address comes within the window, it moves there. If
   none comes, the place stays empty, and the overlap is the history's to count.

   Invariants: events keep their order, but for the releases moved; each is handed on once. Memory is O(live objects).
   Not thread-safe. */
#pragma once

#include "convert/formats/reading/importing.h"

/* A thread may lose its processor between its call and the log: on a busy machine up to 27,000 events were seen between
   the two (heaptrack, four threads that realloc, load 8). */
enum { LATE_RELEASE_WINDOW = 1 << 16 };

struct late_place {
  struct trace_event event;
  uint64_t now;
  uint64_t awaited; /* not 0: an empty place, for a release of this address */
  uint32_t earlier; /* the empty place before this one that awaits the same, as in live; 0: none */
};

struct late_releases {
  struct import *import;
  struct address_map live; /* slot: low 32 bits of the number of the place that awaits a release; 0: none */
  uint64_t first, next;    /* numbers of the places in the window, from 1 */
  uint64_t moved;
  struct late_place places[LATE_RELEASE_WINDOW];
};

/* NULL with import->error if there is no memory. */
struct late_releases *late_releases_new(struct import *import);
void late_releases_free(struct late_releases *late); /* may be NULL */

/* Takes an event of the stream; now as for import_event_in_order. A free whose address may be an old one of a realloc
   is may_be_late. Returns 0, or -1. */
int late_releases_event(struct late_releases *late, uint64_t now, const struct trace_event *event, bool may_be_late);

/* Hands on what is in the window, and reports what was moved. */
int late_releases_finish(struct late_releases *late);

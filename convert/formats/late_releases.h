/* SPDX-License-Identifier: MIT */
/* Moves releases that the recorder logged too late to their place, in a stream without thread ids.

   heaptrack, mtrace and jemalloc's utrace log a realloc after the call. Meanwhile another thread may have been handed
   the old address, and its acquire is logged before the release. Without threads the history can't repair that: it
   keeps each thread's order. So events pass through a window here. An acquire of an address that is live leaves an
   empty place before itself; if a late release (of a realloc) of that address comes within the window, it moves there.
   If none comes, the place stays empty, and the history counts the overlap.

   Invariants: events keep their order, except the releases moved; each is passed on once. Memory is O(live objects).
   Not thread-safe. */
#pragma once

#include "convert/foreign/importing.h"

/* A thread may be descheduled between its call and the log: on a busy machine up to 27,000 events were seen between
   them (heaptrack, four threads that realloc, load 8). */
enum { LATE_RELEASE_WINDOW = 1 << 16 };

struct late_place {
  struct trace_event event;
  uint64_t now;
  uint64_t awaited; /* not 0: an empty place, for a release of this address */
  uint32_t earlier; /* the previous empty place that awaits the same address, numbered as in live; 0: none */
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

/* Takes an event of the stream; now as for import_event_in_order. may_be_late: the event is a free whose address may be
   the old one of a realloc. Returns 0, or -1. */
int late_releases_event(struct late_releases *late, uint64_t now, const struct trace_event *event, bool may_be_late);

/* Passes on the events in the window, and reports how many releases were moved. */
int late_releases_finish(struct late_releases *late);

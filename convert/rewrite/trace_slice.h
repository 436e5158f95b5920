/* SPDX-License-Identifier: MIT */
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
#pragma once

#include "convert/rewrite/copying/trace_out.h"
#include "convert/rewrite/slice_spec.h"

/* Returns 0, or -1 with error, also if the trace lacks times, or a mark, that the spec needs. */
int trace_slice(struct trace_reader *reader, const char *path, const struct slice_spec *spec,
                const struct trace_options *options, struct error *error);

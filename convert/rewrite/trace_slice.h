/* SPDX-License-Identifier: MIT */
/* Cuts a piece out of a trace that is a legal history of its own.

   Objects that live where the piece begins come in as a prologue: each is acquired by the thread that acquired it, with
   its present size, in the order of their acquires, one stamp before the piece's first. Objects live where it ends stay
   live. An event is in the piece if it lies within the window and its object, if it has one, is chosen: by the size
   first requested, and the thread that acquired it. So what other threads do with a chosen object stays, and releases
   of objects left out are left out. Events keep their stamps, addresses and all else that the trace holds of them, but
   where the order had to be repaired, or was left open by equal stamps of two threads, stamps are raised to tell it.

   A realloc that the window's beginning cuts in two, between its release and its acquire, only acquires; one that its
   end cuts in two only frees. Releases of objects never seen are left out, and a free is put in where one was not seen:
   `check` finds nothing wrong with a slice. Data accesses are left out. INFO has what it is a slice of (`slice`).
   Memory is that of history_run. Not thread-safe. */
#pragma once

#include "convert/rewrite/copying/trace_out.h"
#include "convert/rewrite/slice_spec.h"

/* Returns 0, or -1 with error: also where the trace has no times, or
   no such mark, that the spec names. */
int trace_slice(struct trace_reader *reader, const char *path, const struct slice_spec *spec,
                const struct trace_options *options, struct error *error);

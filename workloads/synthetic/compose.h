/* SPDX-License-Identifier: MIT */
/* Composes a workload (core/workload/WORKLOAD.md) from calls on objects, one after the other in their total order,
   without a trace: generators of workloads use it instead of writing words.

   Job: slots, waits, the time line, the info JSON's counts, sizes and witness. The caller makes legal calls only: an
   object is touched, resized and released while it is live. Invariants: a file that is closed without error passes
   `check`; memory is O(live objects + threads). Errors are sticky: check composition_close. Not thread-safe; allocates
   with malloc. */
#pragma once

#include "core/base/error.h"
#include "core/trace/event.h"

#include <jansson.h>

struct composition;

/* The arguments of a call: size_bytes < 2^63, param < 2^56, each 0 where the call has none. */
struct compose_call {
  uint8_t call; /* id, no flags */
  uint64_t size_bytes, param;
  uint64_t touched_os_pages; /* OS pages of the new object that the program writes to; 0: not known */
};

/* Creates or truncates path. Returns 0, or -1 with error; then *out is NULL. */
int composition_open(struct composition **out, const char *path, struct error *error);

/* Returns the number of a new thread, from 0; it is part of the workload once it makes a call. */
uint32_t composition_add_thread(struct composition *composition);

/* Ends the thread: it makes no more calls. */
void composition_end_thread(struct composition *composition, uint32_t thread);

/* Returns the new object's slot, which another object may have after the release. */
uint32_t compose_acquire(struct composition *composition, uint32_t thread, const struct compose_call *call);
/* realloc and reallocarray of a live object: it keeps its slot. */
void compose_resize(struct composition *composition, uint32_t thread, const struct compose_call *call, uint32_t object);
/* free and similar calls, and a realloc to 0 bytes. */
void compose_release(struct composition *composition, uint32_t thread, const struct compose_call *call,
                     uint32_t object);
void compose_touch(struct composition *composition, uint32_t thread, const struct compose_call *call, uint32_t object);
/* free(NULL) and similar calls. */
void compose_nothing(struct composition *composition, uint32_t thread, const struct compose_call *call);

/* The thread's present position, for compose_after. */
uint64_t compose_mark(const struct composition *composition, uint32_t thread);
/* The thread's next call waits for another thread's mark, as in the program: one wait for many objects. */
void compose_after(struct composition *composition, uint32_t thread, uint64_t mark);

/* Ops so far. */
uint64_t composition_ops(const struct composition *composition);

/* True after a failure: further calls do nothing, and close reports the error. */
bool composition_failed(const struct composition *composition);

/* Completes the file. Adds calls, witness and request sizes to info, a JSON object whose reference it takes over.
   Returns 0, or -1 with error; frees the composition in either case. */
int composition_close(struct composition *composition, json_t *info, struct error *error);

/* SPDX-License-Identifier: MIT */
/* The memory pass: how much memory the process has, at known positions of the replay. What the blame pass, which
   contains it, uses of it.

   Job: sample RssAnon and VmSize against progress, count live bytes exactly, trigger the map of live bytes by address;
   at the end free what is live, call the allocator's purge, and read again. Invariants: progress is the number of ops
   completed, which under the recorded order is the recorded position; samples lie at evenly spaced positions, and at
   each new maximum of live bytes that is 1 % above the last; one thread samples at a time, the one that did the op,
   with preallocated memory only. Peaks between the samples are found by the parent: RssAnon and VmSize fall only in a
   system call, and it reads them before each of these (syscalls.h). How exact RssAnon is depends on the kernel: Linux
   6.17 and later sum their per-processor counters for it; earlier ones may be off by up to 64 OS pages per thread or
   processor. Huge pages are counted by what RSS grew between two samples beyond the page faults meanwhile: not those
   given back before the next sample. A pass that contains it calls these functions from its own hooks; its figures
   begin with struct memory_figures. */
#pragma once

#include "replay/engine/loop.h"
#include "replay/memory/fragmentation.h"
#include "replay/parent/run.h"

/* with_map: false: of the memory map, only the position 0 is added. Ends the process where there is no memory. */
void memory_setup(bool with_map);

/* The last action of setup: notes the memory before the first op. */
void memory_read_start(void);

/* Reads RssAnon and VmSize. Returns 0, or -1: /proc can't be read. */
int memory_read(uint64_t *rss_anon_bytes, uint64_t *vm_size_bytes);

/* Add the row at position 0, and the last one. */
void memory_begin(void);
void memory_last_row(void);

/* The last action of end: what the allocator still holds when nothing is live, and after a purge. On the main thread,
   when all other threads have ended, so that releasing what their caches kept is up to the allocator. The engine's
   object table is empty afterwards. */
void memory_held(void);

/* Call after an op; live_change: by how much live bytes changed. Samples if a sample is due. */
void memory_after_op(struct worker *worker, int64_t live_change);

/* struct pass, time_passes: the mean by recorded time, in which memory counts for as long as it was held, also where
   the program made no calls. */
void memory_time_passes(uint64_t time_ns);

/* struct pass, launch: measures the baseline first, unless the spec has it, in a run of the same pass, as its tables
   count in VmSize. */
int memory_launch(struct run *run, const struct run_spec *spec, struct error *error);

/* struct pass, counted: the highest resident bytes. */
uint64_t memory_counted(const struct run *run);

/* Adds the figures to the run's object: time line, peaks, system calls, what is held, memory map, fragmentation. */
void memory_report(json_t *into, const struct run *run);

static ALWAYS_INLINE int64_t memory_before_op(const struct step *step) {
  return step->object->size_bytes == OBJECT_MISSING ? 0 : (int64_t)step->object->size_bytes;
}

static ALWAYS_INLINE void memory_step_after_op(const struct step *step, int64_t live_before) {
  if (step->dispatch.traits & CALL_ACQUIRES)
    fragmentation_note_acquire(step->op->slot, step->object);
  memory_after_op(step->worker, memory_before_op(step) - live_before);
}

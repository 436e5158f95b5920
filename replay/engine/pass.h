/* SPDX-License-Identifier: MIT */
/* A pass: what a run measures or checks. All that there is to know about one is a value of this type.

   Job: the facts by which runs are planned and checked; the functions that the engine and its parent call. Not its job:
   any pass (replay/passes/); the loop, which each pass compiles for itself with its own hooks (loop.h). Invariants: no
   file of engine/ or parent/ knows a pass by name; hooks that a pass doesn't need are NULL, and cost nothing. Functions
   of the engine's process call no malloc; those of the parent may. */
#pragma once

#include "core/base/registry.h"
#include "replay/engine/run_spec.h"

#include <jansson.h>
#include <stddef.h>

struct error;
struct replay_thread;
struct run;
struct worker;

/* How often a pass is repeated: as often as asked; twice, to see whether it is exact; once. */
enum pass_repeats { REPEATED, TWICE, ONCE };

/* Settings that only some passes take. */
enum pass_takes { TAKES_ORIGINS = 1, TAKES_DISTURB = 2, TAKES_WARM = 4 };

/* A loop for each: threads run freely; by turns; the workload has one thread, which runs freely. */
enum loop_sort { LOOP_FREELY, LOOP_BY_TURNS, LOOP_ALONE, LOOP_SORTS };

/* Replays a thread's stream, which its worker has opened, to its END. */
typedef void loop_body(struct replay_thread *self);

struct pass {
  const char *name, *summary;
  unsigned turn; /* passes are made in this order; each has its own */

  enum replay_order order; /* the default */
  bool recorded_only;      /* there is no other */
  enum pass_repeats repeats;
  bool by_default;     /* replay makes it where no passes are named */
  bool exact;          /* it counts and reads no clock: other work on the machine does not change it */
  bool counts_startup; /* libraries that are loaded change its figures */
  bool samples_memory; /* the parent counts its system calls (syscalls.h): the engine makes none of those */
  bool needs_accesses; /* the data accesses of the recording, in a file beside the workload */
  unsigned takes;      /* enum pass_takes, or'ed */
  bool own_counters;   /* an allocator that can count its own operations does so */
  bool sets_touch;     /* whatever was asked for: touch */
  enum touch_policy touch;
  const char *without_null, *without_as_malloc; /* why it can't be made with these; NULL: it can */
  uint64_t hang_ns;                             /* an op may take that long; 0: the default */

  /* Options of this pass alone, which it adds to the engine's (CLI_ADD of `replay`) and takes into variables of its
     own, in the parent: their names for errors; was one of them given? which one is missing (NULL: none)? */
  const char *own_names;
  bool (*own_given)(void);
  const char *(*own_missing)(void);

  /* In the engine's process. */
  loop_body *loops[LOOP_SORTS]; /* NULL: for LOOP_ALONE that of LOOP_FREELY; for LOOP_FREELY: threads never do */
  size_t worker_bytes;          /* of worker->own, zeroed; 0: none */
  size_t figures_bytes;         /* of engine.figures, in memory shared with the parent, zeroed; 0: none */
  void (*process_begins)(void); /* the first action of main */
  void (*setup)(void);          /* everything is set up, no thread runs; ends by engine_fail */
  void (*begin)(void);          /* before clock and faults are read for the first time, and before warm rounds */
  void (*first_op)(void);       /* right before the first op */
  void (*time_passes)(uint64_t time_ns); /* before an op that was recorded then; any thread; NULL: nothing to do */
  void (*last_op)(void);                 /* all threads have ended */
  void (*end)(void);                     /* clock and faults have been read for the last time */
  void (*thread_begins)(struct replay_thread *self);
  void (*thread_ends)(struct replay_thread *self); /* after its last op */
  void (*add_worker)(const struct worker *worker); /* adds its figures to engine.figures; after end */

  /* In the parent. */
  int (*launch)(struct run *run, const struct run_spec *spec, struct error *error); /* NULL: run_process is enough */
  void (*report)(json_t *into, const struct run *run);
  const char *counts; /* with counted: what */
  /* What was counted of the calls that were made, and each of them adds to: 0 is an error, as figures would say that
     the calls are free. NULL: 0 is a figure. */
  uint64_t (*counted)(const struct run *run);
};

/* A pass is registered by being linked. */
#define REGISTER_PASS(one) REGISTRY_ADD(replay_passes, pass, entry_##one, &one)

/* Returns the pass whose turn is next behind `previous`, which is NULL for the first; NULL: there is none. */
const struct pass *pass_after(const struct pass *previous);

#define FOR_EACH_PASS(pass) for (const struct pass *pass = pass_after(NULL); pass; pass = pass_after(pass))

/* Return the pass; NULL: there is none of that name, or turn. */
const struct pass *pass_named(const char *name);
const struct pass *pass_of_turn(unsigned turn);

/* SPDX-License-Identifier: MIT */
/* The parent's half of the misses pass: the engine under our Valgrind tool, mode replay.

   Job: check the recorded accesses, start the engine under the tool, read its result. Not its job: what the
   engine does (replay/passes/misses.h), the model (observe/valgrind/simulate/simulate.h). Single-threaded. */
#pragma once

#include "core/valgrind/command.h"
#include "replay/passes/access_stream.h"

#include <jansson.h>

struct miss_request {
  const char *accesses;      /* file; NULL: none was given */
  const char *caches, *tlbs; /* in the tool's syntax; NULL: its defaults */
  uint64_t ops, slots;       /* of the workload */
  uint32_t threads, edges;   /* of the workload; of windows that the engine should note */
};

struct miss_counter {
  struct valgrind_command command;
  struct access_stream stream;
  json_t *simulated; /* the tool's result; NULL: not read */
};

/* workload: named in errors. Returns 0, or -1 with error filled in: no tool, or a stream that is damaged or another
   workload's. The caller closes the command in either case and owns `simulated`. */
int miss_counter_begin(struct miss_counter *counter, const struct miss_request *request, const char *workload,
                       struct error *error);

/* Reads the tool's result. Returns 0, or -1 with error filled in. */
int miss_counter_read(struct miss_counter *counter, const struct miss_request *request, struct error *error);

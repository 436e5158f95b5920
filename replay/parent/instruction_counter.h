/* SPDX-License-Identifier: MIT */
/* The parent's half of the instructions pass: the engine under Valgrind.

   Job: choose what counts (our tool where it was built and fits the Valgrind that is installed, callgrind otherwise),
   start the engine under it, and read what it counted. Both count the same instructions; ours takes a fraction of
   callgrind's time. Not its job: what the engine does (replay/passes/instructions.h). Single-threaded. */
#pragma once

#include "core/trace/event.h"
#include "core/valgrind/command.h"

#include <stdbool.h>
#include <stdint.h>

enum counted_by { COUNTED_BY_WHAT_IS_THERE, COUNTED_BY_HEAPTAPE, COUNTED_BY_CALLGRIND };

struct instruction_counter {
  enum counted_by by; /* one of the latter two */
  struct valgrind_command command;
};

/* workload: named in errors. Returns 0, or -1 with error filled in: there is no Valgrind, or not what is wanted.
   Its command is to be closed in either case. */
int instruction_counter_begin(struct instruction_counter *counter, enum counted_by wanted, const char *workload,
                              struct error *error);

/* What was counted: below each kind of call, and before the first op. */
struct instruction_counts {
  uint64_t calls[CALL_LIMIT];
  bool startup_known;       /* our tool's alone */
  uint64_t startup;         /* while the allocator ran: its constructors, and calls of the dynamic linker's and the
                               libraries' constructors */
  uint64_t startup_process; /* with what the dynamic linker and the libraries' constructors executed until main began;
                               not the engine's own, which looks at each library that is loaded */
  /* Between two edges of windows; one fewer than there are edges. NULL: none were asked for. */
  struct window_count {
    uint64_t calls[CALL_LIMIT], instructions[CALL_LIMIT];
  } * windows;
};

/* Fills in counts. edges: of windows that the engine was to have noted; 0: none, as always under callgrind. Returns 0,
   or -1 with error filled in; instruction_counts_free in either case. */
int instruction_counter_read(const struct instruction_counter *counter, uint32_t edges,
                             struct instruction_counts *counts, struct error *error);
void instruction_counts_free(struct instruction_counts *counts);

/* As results name it: "heaptape" or "callgrind". */
const char *counted_by_name(enum counted_by by);

/* SPDX-License-Identifier: MIT */
/* The parent's half of the instructions pass: the engine under our Valgrind tool.

   Job: start the engine under the tool, and read its counts. Not its job: what the engine does
   (replay/passes/instructions.h). Single-threaded. */
#pragma once

#include "core/trace/event.h"
#include "core/valgrind/command.h"

#include <stdint.h>

/* workload: named in errors. Returns 0, or -1 with error filled in: there is no tool here. The caller closes the
   command in either case. */
int instruction_counter_begin(struct valgrind_command *command, const char *workload, struct error *error);

/* Instructions counted below each kind of call, and before the first op. */
struct instruction_counts {
  uint64_t calls[CALL_LIMIT];
  uint64_t startup;         /* while the allocator ran: its constructors, and calls of the dynamic linker's and the
                               libraries' constructors */
  uint64_t startup_process; /* with what the dynamic linker and the libraries' constructors executed until main began;
                               not the engine's own, which examines each loaded library */
  /* Between two edges of windows; one fewer than there are edges. NULL: none were requested. */
  struct window_count {
    uint64_t calls[CALL_LIMIT], instructions[CALL_LIMIT];
  } * windows;
};

/* Fills in counts from the tool's result. edges: number of window edges that the engine should have noted; 0: none.
   Returns 0, or -1 with error filled in; call instruction_counts_free in either case. */
int instruction_counter_read(const char *path, uint32_t edges, struct instruction_counts *counts, struct error *error);
void instruction_counts_free(struct instruction_counts *counts);

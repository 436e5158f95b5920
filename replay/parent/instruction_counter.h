/* SPDX-License-Identifier: MIT */
/* The parent's half of the instructions pass: the engine under Valgrind.

   Job: choose the counter (our tool where it was built and fits the installed Valgrind, callgrind otherwise), start the
   engine under it, and read its counts. Both count the same instructions; ours takes a fraction of
   callgrind's time. Not its job: what the engine does (replay/passes/instructions.h). Single-threaded. */
#pragma once

#include "core/trace/event.h"
#include "core/valgrind/command.h"

#include <stdbool.h>
#include <stdint.h>

enum counted_by { COUNTED_BY_WHAT_IS_THERE, COUNTED_BY_HEAPTAPE, COUNTED_BY_CALLGRIND };

struct instruction_counter {
  enum counted_by by; /* heaptape or callgrind */
  struct valgrind_command command;
};

/* workload: named in errors. Returns 0, or -1 with error filled in: no Valgrind, or not the wanted counter. The caller
   closes the command in either case. */
int instruction_counter_begin(struct instruction_counter *counter, enum counted_by wanted, const char *workload,
                              struct error *error);

/* Instructions as a processor's counter has them: a repeated string instruction is one; callgrind has one for each
   element. By our tool also the string instructions among them, and the bytes that these moved or compared. */
struct executed_count {
  uint64_t instructions, strings, string_bytes;
};

/* Instructions counted below each kind of call, and before the first op. */
struct instruction_counts {
  struct executed_count calls[CALL_LIMIT];
  bool startup_known;            /* by our tool only, as string instructions are */
  struct executed_count startup; /* while the allocator ran: its constructors, and calls of the dynamic linker's and the
                                    libraries' constructors */
  struct executed_count startup_process; /* with what the dynamic linker and the libraries' constructors executed until
                                            main began; not the engine's own, which examines each loaded library */
  /* Between two edges of windows; one fewer than there are edges. NULL: none were requested. */
  struct window_count {
    uint64_t calls[CALL_LIMIT], instructions[CALL_LIMIT];
  } * windows;
};

/* Fills in counts. edges: number of window edges that the engine should have noted; 0: none, as always under callgrind.
   Returns 0, or -1 with error filled in; call instruction_counts_free in either case. */
int instruction_counter_read(const struct instruction_counter *counter, uint32_t edges,
                             struct instruction_counts *counts, struct error *error);
void instruction_counts_free(struct instruction_counts *counts);

/* Returns the name in results: "heaptape" or "callgrind". */
const char *counted_by_name(enum counted_by by);

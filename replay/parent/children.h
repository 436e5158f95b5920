/* SPDX-License-Identifier: MIT */
/* The processes that an engine leaves, and what it prints: an allocator may fork, keep descriptors open, and write
   without end.

   Job: all descendants of this process end with the engine, and its output reaches our stderr up to a limit.
   Single-threaded; this process has no other children. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum { ENGINE_OUTPUT_BYTES = 64 << 10 }; /* passed on; a line says how much more there was */

struct engine_output {
  int read_end;  /* does not block */
  int write_end; /* the child's: its stdout and stderr */
  uint64_t bytes;
};

/* Before the fork. From now on processes whose parents end become our children. Returns 0, or -1 with errno set. */
int engine_output_open(struct engine_output *output);

/* In the child, between fork and exec: a process group of its own, which is killed with this process, and its output
   into the pipe. Async-signal-safe. */
void engine_output_become(const struct engine_output *output, pid_t parent);

/* In the parent: after the fork; then whenever poll says that read_end is readable. */
void engine_output_begin(struct engine_output *output);
void engine_output_pass_on(struct engine_output *output);

/* When the engine has ended: kills all that it started, passes on what is left, and closes the pipe. */
void engine_output_finish(struct engine_output *output);

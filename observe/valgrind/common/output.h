/* SPDX-License-Identifier: GPL-2.0-only */
/* The tool's result: one JSON object in a separate file per process.

   Job: the file's name, the keys that all modes share, numbers and strings. Invariants: a file is written whole, at the
   process's end or before an exec; a process that is killed leaves none. */
#pragma once

#include "observe/valgrind/common/tool.h"

#include <pub_tool_libcprint.h>

/* The result's file. */
struct output {
  const HChar *name;
  Int first; /* the process whose file is NAME; every other's is NAME.PID. 0: this process's file is NAME */
  const HChar *mode;
  Bool before_exec; /* NAME.PID.N in any case, N from 1: the first that does not exist */
};

/* Opens the file and writes the keys that every result has: mode, process and program. Returns NULL, with a message, if
   it can't. */
VgFile *output_begin(const struct output *output);

/* The exec failed: removes the file that was written before it. */
void output_forget_exec(void);

/* Writes the keys "instructions", "string_instructions" and "string_bytes". */
void output_counted(VgFile *file, struct counted counted);

/* Writes the closing brace and closes. */
void output_end(VgFile *file);

/* The tool's result: one JSON object in a file of its own per process.

   Job: the file's name, the keys that all modes share, numbers and strings. Not its job: what a mode counted.
   Invariant: a file is written whole at the process's end; a process that is killed or becomes another program leaves
   none. */
#ifndef OBSERVE_VALGRIND_OUTPUT_H
#define OBSERVE_VALGRIND_OUTPUT_H

#include <pub_tool_basics.h>
#include <pub_tool_libcprint.h>

/* Opens the file and writes what every result has: mode, process and program. name: of the process whose id is first
   (0: of whatever process this is); every other process writes to NAME.PID. Returns NULL, with a message, if it can't.
 */
VgFile *output_begin(const HChar *name, Int first, const HChar *mode);

/* Writes the closing brace and closes. */
void output_end(VgFile *file);

#endif

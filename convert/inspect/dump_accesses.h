/* SPDX-License-Identifier: MIT */
/* Prints a trace's data accesses, with the calls between them, one per line, in the trace's own order.

   As text: `call 0 sp=0x7ffe1230`, `call 0 sp=0x7ffe1230 acquires 7` (object 7), `object 7 +0x20` (an access to the
   granule at that offset, or `-0x10`), `other 0x7ffe1240`. CSV and JSON lines have kind, thread, acquires (0 or 1),
   stack_pointer, object and granule (in units of 16 bytes), numbers in decimal. Streaming: memory is one block. */
#pragma once

#include "convert/inspect/dump.h"

/* Returns 0, or -1 with error, also if the trace has no accesses. An error of writing names out_name. */
int dump_accesses(const struct trace_reader *reader, enum dump_format format, FILE *out, const char *out_name,
                  struct error *error);

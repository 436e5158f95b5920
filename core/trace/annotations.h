/* SPDX-License-Identifier: MIT */
/* What a trace may hold beside its events: modules, marks and names of threads, as writer and reader pass them around.

   Texts belong to whoever hands them over, and hold for the time of that call. What is written need not be UTF-8:
   bytes that are not come back as '?'; what is read is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TRACE_MARK_MAX_BYTES = 255, TRACE_MAX_BUILD_ID_BYTES = 64 };

/* An executable or library that was mapped. It holds for those stack nodes that come after it in the file, until a
   later one takes its addresses; nodes that have none before them take the first one after. */
struct trace_module {
  const char *name;     /* base name of the file */
  const char *path;     /* NULL: not stored */
  const char *build_id; /* hexadecimal; NULL: it has none, or none is known */
  uint64_t start, end;  /* addresses that it occupies */
  uint64_t bias;        /* an address less bias is one of the file's symbols */
};

/* Copies a module with its texts, which trace_module_free_texts frees, also where this returns false: no memory. */
bool trace_module_copy(struct trace_module *to, const struct trace_module *from);
void trace_module_free_texts(struct trace_module *module);

/* What the program set by heaptape.h. */
#define TRACE_MARK_HERE UINT64_MAX
struct trace_mark {
  uint64_t stamp;
  uint64_t events; /* of that thread that came before it; TRACE_MARK_HERE: as many as have been written */
  uint32_t thread;
  const char *text; /* at most TRACE_MARK_MAX_BYTES, the rest is cut */
};

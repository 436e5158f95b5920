/* SPDX-License-Identifier: MIT */
/* What a trace may hold besides its events: modules, marks and names of threads, as writer and reader pass them on.

   The caller owns the texts that it passes; they need to live during the call only. Texts to be written need not be
   UTF-8: other bytes are read back as '?'. Texts that are read are UTF-8. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TRACE_MARK_MAX_BYTES = 255, TRACE_MAX_BUILD_ID_BYTES = 64 };

/* An executable or library that was mapped. It applies to the stack nodes after it in the file, until a later module
   has the same addresses; nodes without a module before them belong to the first one after. */
struct trace_module {
  const char *name;     /* base name of the file */
  const char *path;     /* NULL: not stored */
  const char *build_id; /* hexadecimal; NULL: it has none, or none is known */
  uint64_t start, end;  /* addresses that it occupies */
  uint64_t bias;        /* an address less bias is an address of the file's symbols */
};

/* Copies a module with its texts, which trace_module_free_texts frees, also where this returns false: no memory. */
bool trace_module_copy(struct trace_module *to, const struct trace_module *from);
void trace_module_free_texts(struct trace_module *module);

/* A mark that the program set by heaptape.h. */
#define TRACE_MARK_HERE UINT64_MAX
struct trace_mark {
  uint64_t stamp;
  uint64_t events; /* of that thread before the mark; TRACE_MARK_HERE: as many as have been written */
  uint32_t thread;
  const char *text; /* at most TRACE_MARK_MAX_BYTES, the rest is cut */
};

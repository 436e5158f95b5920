/* SPDX-License-Identifier: MIT */
/* glibc's mtrace(3) text (import_mtrace.c shows it).

   The format has malloc, realloc and free of one thread in order. All other calls that acquire become malloc, of the
   product for calloc and reallocarray. Lost: threads, times, alignments, free(NULL), malloc_usable_size, failed
   reallocs, and everything in the trace besides its calls. */
#include "convert/formats/exporters/exporting.h"

#include <inttypes.h>

static uint64_t product(const struct export_call *call) {
  uint64_t bytes;
  return __builtin_mul_overflow(call->size_bytes, call->count, &bytes) ? UINT64_MAX : bytes;
}

static int take(struct export *export, const struct export_call *call) {
  FILE *out = export->out;
  uint64_t bytes = call->kind == EXPORT_CALLOC ? product(call) : call->size_bytes;
  if (call->kind == EXPORT_FREE && !call->released)
    export->lost.null_frees++;
  else if (call->kind == EXPORT_FREE)
    fprintf(out, "@ heaptape:[0x1] - 0x%" PRIx64 "\n", call->released);
  else if (call->kind == EXPORT_REALLOC && call->released)
    fprintf(out, "@ heaptape:[0x1] < 0x%" PRIx64 "\n@ heaptape:[0x1] > 0x%" PRIx64 " 0x%" PRIx64 "\n", call->released,
            call->acquired, bytes);
  else if (call->acquired)
    fprintf(out, "@ heaptape:[0x1] + 0x%" PRIx64 " 0x%" PRIx64 "\n", call->acquired, bytes);
  else
    fprintf(out, "@ heaptape:[0x1] + (nil) 0x%" PRIx64 "\n", bytes);
  return ferror(out) ? export_write_failed(export) : 0;
}

static int run(struct export *export) {
  struct witness witness;
  export->take = take;
  export->one_line_reallocs = true;
  export->tells_failures = true;
  fputs("= Start\n", export->out);
  int result = export_calls(export, &witness);
  fputs("= End\n", export->out);
  return result;
}

const struct export_format export_format_mtrace = {run};

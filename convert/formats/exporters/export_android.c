/* SPDX-License-Identifier: MIT */
/* Android's memory_replay text (import_android.c shows it), with the thread's number as its tid, and with start and end
   of each call if the trace has times.

   The format has malloc, calloc, memalign, realloc and free. Operators new and delete, posix_memalign, aligned_alloc
   and the sized frees become these; valloc and pvalloc become memalign of an OS page; reallocarray becomes realloc of
   the product. Lost: malloc_usable_size, failed reallocs, and everything in the trace besides its calls. */
#include "convert/formats/exporters/exporting.h"

#include <inttypes.h>

static void put_times(const struct export *export, const struct export_call *call) {
  const struct trace_summary *summary = trace_reader_summary(export->reader);
  if (summary->clock_hz > 0)
    fprintf(export->out, " %" PRIu64 " %" PRIu64, call->release_ns, call->acquire_ns);
  fputc('\n', export->out);
}

static int take(struct export *export, const struct export_call *call) {
  FILE *out = export->out;
  fprintf(out, "%" PRIu32 ": ", call->thread);
  switch (call->kind) {
  case EXPORT_MALLOC:
    fprintf(out, "malloc 0x%" PRIx64 " %" PRIu64, call->acquired, call->size_bytes);
    break;
  case EXPORT_CALLOC:
    fprintf(out, "calloc 0x%" PRIx64 " %" PRIu64 " %" PRIu64, call->acquired, call->count, call->size_bytes);
    break;
  case EXPORT_ALIGNED:
    fprintf(out, "memalign 0x%" PRIx64 " %" PRIu64 " %" PRIu64, call->acquired, call->alignment, call->size_bytes);
    break;
  case EXPORT_REALLOC:
    fprintf(out, "realloc 0x%" PRIx64 " 0x%" PRIx64 " %" PRIu64, call->acquired, call->released, call->size_bytes);
    break;
  case EXPORT_FREE:
    fprintf(out, "free 0x%" PRIx64, call->released);
    break;
  }
  put_times(export, call);
  return ferror(out) ? export_write_failed(export) : 0;
}

static void thread_end(struct export *export, uint32_t thread) {
  const struct trace_summary *summary = trace_reader_summary(export->reader);
  uint64_t end_ns = (uint64_t)trace_stamp_ns(summary, summary->last_stamp);
  struct export_call end = {.release_ns = end_ns, .acquire_ns = end_ns};
  fprintf(export->out, "%" PRIu32 ": thread_done 0x0", thread);
  put_times(export, &end);
}

static int run(struct export *export) {
  struct witness witness;
  export->take = take;
  export->thread_end = thread_end;
  export->one_line_reallocs = trace_reader_summary(export->reader)->clock_hz <= 0;
  export->tells_failures = true;
  return export_calls(export, &witness);
}

const struct export_format export_format_android = {run};

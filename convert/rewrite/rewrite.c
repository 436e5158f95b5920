#include "convert/rewrite/rewrite.h"

#include "convert/rewrite/trace_anonymise.h"
#include "convert/rewrite/trace_copy.h"
#include "convert/rewrite/trace_merge.h"
#include "convert/rewrite/trace_slice.h"
#include "core/base/temporary_file.h"

enum step { MERGE, SLICE, ANONYMISE, COPY, STEPS };

static int run_step(const struct rewrite *rewrite, enum step step, struct trace_reader **readers, uint32_t count,
                    const char *path, const struct trace_options *options, struct error *error) {
  const struct history_options *history = &rewrite->history;
  switch (step) {
  case MERGE:
    return trace_merge(readers, count, path, options, history->progress, history->progress_context, error);
  case SLICE:
    return trace_slice(readers[0], path, &rewrite->slice, rewrite->slices, options, history, error);
  case ANONYMISE:
    return trace_anonymise(readers[0], path, options, history, error);
  default:
    return trace_copy(readers[0], path, options, history->progress, history->progress_context, error);
  }
}

static void close_all(struct trace_reader **readers, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    trace_reader_close(readers[i]);
}

int rewrite_trace(const struct rewrite *rewrite, struct trace_reader **readers, uint32_t count, const char *path,
                  struct error *error) {
  const struct trace_options between = {.archive = false};
  bool wanted[STEPS] = {rewrite->merge, rewrite->slices != NULL, rewrite->anonymise, false};
  enum step last = COPY;
  for (enum step step = MERGE; step < COPY; step++)
    if (wanted[step])
      last = step;
  wanted[last] = true;
  struct trace_reader *reader = NULL; /* of the step before */
  int result = 0;
  for (enum step step = MERGE; step <= last && result == 0; step++) {
    struct temporary_file temporary = {.fd = -1};
    if (!wanted[step])
      continue;
    if (step != last)
      result = temporary_file_open(&temporary, error);
    if (result == 0)
      result = run_step(rewrite, step, reader ? &reader : readers, reader ? 1 : count,
                        step == last ? path : temporary.path, step == last ? &rewrite->options : &between, error);
    trace_reader_close(reader);
    reader = NULL;
    if (step != last && result == 0)
      result = trace_reader_open(&reader, temporary.path, error);
    temporary_file_close(&temporary);
  }
  trace_reader_close(reader);
  close_all(readers, count);
  return result;
}

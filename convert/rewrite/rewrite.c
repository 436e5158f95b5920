/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/rewrite.h"

#include "core/base/files.h"

enum step { MERGE, SLICE, ANONYMISE, COPY, STEPS };

struct step_run {
  enum step step;
  struct trace_reader **readers;
  uint32_t count;
  const char *path;
  struct trace_options options;
};

static int run_step(const struct step_run *run, const struct slice_spec *spec, struct error *error) {
  switch (run->step) {
  case MERGE:
    return trace_merge(run->readers, run->count, run->path, &run->options, error);
  case SLICE:
    return trace_slice(run->readers[0], run->path, spec, &run->options, error);
  case ANONYMISE:
    return trace_anonymise(run->readers[0], run->path, &run->options, error);
  default:
    return trace_copy(run->readers[0], run->path, &run->options, error);
  }
}

int rewrite_trace(const struct rewrite *rewrite, struct trace_reader **readers, uint32_t count, const char *path,
                  struct error *error) {
  bool wanted[STEPS] = {rewrite->merge, rewrite->slice.texts != NULL, rewrite->anonymise, false};
  enum step last = COPY;
  for (enum step step = MERGE; step < COPY; step++)
    if (wanted[step])
      last = step;
  wanted[last] = true;
  struct trace_reader *reader = NULL; /* of the previous step */
  int result = 0;
  for (enum step step = MERGE; step <= last && result == 0; step++) {
    struct temporary_file temporary = {.fd = -1};
    if (!wanted[step])
      continue;
    if (step != last)
      result = temporary_file_open(&temporary, error);
    struct step_run run = {.step = step,
                           .readers = reader ? &reader : readers,
                           .count = reader ? 1 : count,
                           .path = step == last ? path : temporary.path,
                           .options = {.archive = step == last && rewrite->archive, .history = &rewrite->history}};
    if (result == 0)
      result = run_step(&run, &rewrite->slice, error);
    trace_reader_close(reader);
    reader = NULL;
    if (step != last && result == 0)
      result = trace_reader_open(&reader, temporary.path, error);
    temporary_file_close(&temporary);
  }
  trace_reader_close(reader);
  return result;
}

/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/rewrite.h"

#include "convert/rewrite/trace_copy.h"
#include "core/base/files.h"

static int copy_sample(void *context, const struct trace_sample *sample) {
  return trace_writer_sample(context, sample);
}

static int trace_copy(struct trace_reader *reader, const char *path, const struct trace_options *options,
                      struct error *error) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  const struct trace_change change = {0};
  json_t *info = trace_out_source_info(summary);
  if (summary->truncated)
    json_object_set_new(info, "truncated_source", json_true());
  struct trace_out *out = trace_out_open(path, info, options, summary->threads, error);
  json_decref(info);
  if (!out)
    return -1;
  int result = trace_copy_into(out, reader, &change, error);
  if (result == 0)
    result = trace_reader_samples(reader, copy_sample, trace_out_writer(out), error);
  if (result == 0)
    result = trace_copy_accesses(reader, out, error);
  return trace_out_close(out, summary, result != 0, error);
}

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

/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/rewrite.h"

#include "convert/copy/trace_copy.h"
#include "convert/rewrite/slice.h"
#include "core/base/files.h"
#include "core/command/cli.h"

#include <stdlib.h>

/* In this order. Steps between the first and the last go through temporary files. */
enum step { MERGE, SLICE, ANONYMISE, STEPS };

struct rewrite {
  struct trace_rewriting rewriting; /* its first member: `convert` has a pointer to it */
  struct slice_spec slice;
  json_t *slice_texts; /* as given */
  bool wanted[STEPS];
};

static int run_step(const struct rewrite *rewrite, enum step step, const struct trace_job *job, struct error *error) {
  if (step == MERGE)
    return trace_merge(job->readers, job->count, job->path, &job->options, error);
  return step == SLICE ? trace_slice(job->readers[0], job->path, &rewrite->slice, &job->options, error)
                       : trace_anonymise(job->readers[0], job->path, &job->options, error);
}

static int rewrite_trace(const struct trace_rewriting *rewriting, const struct trace_job *job, struct error *error) {
  const struct rewrite *rewrite = (const struct rewrite *)rewriting;
  enum step last = rewrite->wanted[ANONYMISE] ? ANONYMISE : rewrite->wanted[SLICE] ? SLICE : MERGE;
  struct trace_reader *reader = NULL; /* of the previous step */
  int result = 0;
  for (enum step step = MERGE; step <= last && result == 0; step++) {
    struct temporary_file temporary = {.fd = -1};
    if (!rewrite->wanted[step])
      continue;
    if (step != last)
      result = temporary_file_open(&temporary, error);
    const struct trace_job part = {
        .readers = reader ? &reader : job->readers,
        .count = reader ? 1 : job->count,
        .path = step == last ? job->path : temporary.path,
        .options = {.archive = step == last && job->options.archive, .history = job->options.history}};
    if (result == 0)
      result = run_step(rewrite, step, &part, error);
    trace_reader_close(reader);
    reader = NULL;
    if (step != last && result == 0)
      result = trace_reader_open(&reader, temporary.path, error);
    temporary_file_close(&temporary);
  }
  trace_reader_close(reader);
  return result;
}

/* The first of the options makes it. Returns it with that step wanted; NULL: no memory. */
static struct rewrite *wanted(struct trace_rewriting **rewriting, enum step step) {
  struct rewrite *rewrite = (struct rewrite *)*rewriting;
  if (!rewrite && (rewrite = calloc(1, sizeof *rewrite))) {
    rewrite->rewriting.run = rewrite_trace;
    rewrite->slice = (struct slice_spec)SLICE_EVERYTHING;
    rewrite->slice.texts = rewrite->slice_texts = json_array();
    *rewriting = &rewrite->rewriting;
  }
  if (!rewrite)
    return NULL;
  rewrite->wanted[step] = true;
  rewrite->rewriting.takes_several |= step == MERGE;
  if (step != ANONYMISE)
    rewrite->rewriting.without_accesses = "a slice or a merged trace has none";
  return rewrite;
}

static const char *take_slice(void *field, const char *value) {
  struct rewrite *rewrite = wanted(field, SLICE);
  if (!rewrite)
    return "out of memory";
  json_array_append_new(rewrite->slice_texts, json_string(value));
  return slice_spec_parse(&rewrite->slice, value);
}

static const char *take_merge(void *field, const char *value) {
  (void)value;
  return wanted(field, MERGE) ? NULL : "out of memory";
}

static const char *take_anonymise(void *field, const char *value) {
  (void)value;
  return wanted(field, ANONYMISE) ? NULL : "out of memory";
}

static const struct cli_option rows[] = {
    {"slice", 0, "SPEC", take_slice,
     .help = "a part that is itself a legal history: time=1.5s..3s, progress=10%..20%, progress=1000..5000 (events), "
             "mark=FROM..TO, thread=0,3..5, size=1k..64k. Either side may be left out; several specs are the "
             "intersection. Objects that are live where the part begins are acquired in a prologue",
     .repeats = true},
    {"merge", 0, NULL, take_merge, .help = "traces of several processes as one process with all their threads"},
    {"anonymise", 0, NULL, take_anonymise,
     .help = "only what a replay needs: no addresses, times, names, stacks, marks"},
    {.name = NULL},
};
CLI_ADD(convert, rows);

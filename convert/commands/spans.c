/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/inspect/inspect.h"

#include <stddef.h>

struct settings {
  uint64_t from_byte;
  uint32_t sites;
};

static const struct cli_option options[] = {
    {.name = "from-byte",
     .value = "N",
     .take = cli_count,
     .field = offsetof(struct settings, from_byte),
     .help = "leave out the events in blocks that begin before that byte of the file"},
    {.name = "sites",
     .value = "N",
     .take = cli_count_32,
     .field = offsetof(struct settings, sites),
     .help = "also where the objects were acquired: N lines for the peak, N for the objects left"},
    {.name = NULL},
};

static int run(struct cli_words words) {
  struct settings settings = {.sites = 0};
  struct error error = {""};
  struct trace_reader *reader;
  struct progress progress;
  int status = cli_parse(&convert_program, &command_spans, &settings, &words);
  if (status != CLI_RUN)
    return status;
  if (trace_reader_open(&reader, words.at[0], &error) != 0)
    return failed(&error);
  struct history_options history = history_with_progress(&progress, "spans", reader);
  if (settings.from_byte) /* as for any trace that lacks its start */
    history.horizon_ns = 0;
  const struct spans_options wanted = {&history, settings.from_byte, settings.sites};
  json_t *spans = spans_of_trace(reader, &wanted, &error);
  progress_end(&progress);
  trace_reader_close(reader);
  return spans ? print_json(spans) : failed(&error);
}

const struct cli_command command_spans = {
    .called = "heaptape-convert spans",
    .summary = "what a program acquired in the spans that it marked",
    .synopsis = "[OPTION...] F.tape",
    .details =
        "What a program acquired in the spans that it marked in its recording, as JSON (convert/inspect/inspect.h). "
        "The trace may still be being written.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run};

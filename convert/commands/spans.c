/* SPDX-License-Identifier: MIT */
#include "convert/inspect/spans.h"
#include "convert/commands/commands.h"

#include <stddef.h>

struct spans_settings {
  uint64_t from_byte;
  uint32_t sites;
};

static const struct cli_option spans_option_rows[] = {
    {"from-byte", 0, "N", cli_count, offsetof(struct spans_settings, from_byte),
     .help = "leave out the events in blocks that begin before that byte of the file"},
    {"sites", 0, "N", cli_count_32, offsetof(struct spans_settings, sites),
     .help = "also where the objects were acquired: N lines for the peak, N for the objects left"},
    {.name = NULL},
};

static int run_spans(void *parsed, struct cli_words words) {
  const struct spans_settings *settings = parsed;
  struct error error = {0};
  struct trace_reader *reader;
  struct progress progress;
  if (trace_reader_open(&reader, words.at[0], &error) != 0)
    return failed(&error);
  struct history_options history = history_with_progress(&progress, "spans", reader);
  if (settings->from_byte) /* as for any trace that lacks its start */
    history.horizon_ns = 0;
  const struct spans_options wanted = {&history, settings->from_byte, settings->sites};
  json_t *spans = spans_of_trace(reader, &wanted, &error);
  progress_end(&progress);
  trace_reader_close(reader);
  return spans ? print_json(spans) : failed(&error);
}

static const struct cli_command command_spans = {
    .called = "heaptape-convert spans",
    .summary = "what a program acquired in the spans that it marked",
    .synopsis = "[OPTION...] F.tape",
    .details =
        "What a program acquired in the spans that it marked in its recording, as JSON (convert/inspect/spans.h). "
        "The trace may still be being written.",
    .options = spans_option_rows,
    .least = 1,
    .most = 1,
    .settings_bytes = sizeof(struct spans_settings),
    .turn = 8,
    .run = run_spans};
REGISTER_COMMAND(command_spans);

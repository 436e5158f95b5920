/* SPDX-License-Identifier: MIT */
#include "convert/commands/commands.h"

#include "convert/spans/spans.h"

static int run(const struct options *options) {
  struct error error = {""};
  struct trace_reader *reader = NULL;
  struct progress progress;
  if (trace_reader_open(&reader, options->in, &error) != 0)
    return failed(&error);
  struct history_options history = history_options_of(options, &progress, "spans", reader);
  if (options->from_byte) /* as for any trace that lacks its start */
    history.horizon_ns = 0;
  const struct spans_options wanted = {&history, options->from_byte, options->sites};
  json_t *spans = spans_of_trace(reader, &wanted, &error);
  progress_end(&progress);
  trace_reader_close(reader);
  return spans ? print_json(spans) : failed(&error);
}

const struct command command_spans = {
    .name = "spans",
    .help =
        "usage: heaptape-convert spans F.tape [--from-byte N] [--sites N]\n"
        "\n"
        "What a program acquired in the spans that it marked in its recording, as JSON (convert/spans/README.md). The trace may\n"
        "still be being written.\n"
        "\n"
        "  --from-byte N  leave out the events in blocks that begin before that byte of the file\n"
        "  --sites N      also where the objects were acquired: N lines for the peak, N for the objects left\n",
    .run = run};

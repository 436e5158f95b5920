/* SPDX-License-Identifier: MIT */
/* For tests: the results of capture/sampling/ for a file of kernel records, or for a folder like that of the PMUs.

   read-perf-records records FILE detail|faults ZERO MULTIPLIER SHIFT    a JSON object per sample, then the counts
   read-perf-records pmu FOLDER                                          a JSON object per event */
#include "capture/sampling/perf_pmu.h"
#include "capture/sampling/perf_records.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 1 << 24 };

static void print_sample(void *context, const struct perf_sample *sample) {
  (void)context;
  printf("{\"pid\": %" PRIu32 ", \"kernel\": %s, \"stamp\": %" PRIu64 ", \"address\": %" PRIu64
         ", \"latency\": %" PRIu64 ", \"what\": %u}\n",
         sample->pid, sample->kernel ? "true" : "false", sample->access.stamp, sample->access.address,
         sample->access.latency_cycles, sample->access.what);
}

static int print_records(char **arguments) {
  static uint8_t bytes[FILE_BYTES];
  FILE *file = fopen(arguments[0], "rb");
  if (!file)
    return 1;
  size_t count = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  struct perf_records records = {.detail = strcmp(arguments[1], "detail") == 0,
                                 .level = ACCESS_LEVEL_PAGE_FAULT,
                                 .clock = {.cycles = true,
                                           .zero = strtoull(arguments[2], NULL, 0),
                                           .multiplier = (uint32_t)strtoul(arguments[3], NULL, 0),
                                           .shift = (uint16_t)strtoul(arguments[4], NULL, 0)},
                                 .take = print_sample};
  perf_records_take(&records, bytes, count);
  printf("{\"lost\": %" PRIu64 ", \"throttled\": %" PRIu64 ", \"damaged\": %" PRIu64 "}\n", records.lost,
         records.throttled, records.damaged);
  return 0;
}

static int print_pmu(const char *root) {
  struct perf_event_choices choices;
  struct error error = {""};
  if (perf_pmu_choose(&choices, root, SAMPLING_MEMORY, &error) != 0) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  for (uint32_t i = 0; i < choices.count; i++) {
    const struct perf_event_choice *event = &choices.events[i];
    printf("{\"name\": \"%s\", \"type\": %" PRIu32 ", \"config\": [%" PRIu64 ", %" PRIu64 ", %" PRIu64
           "], \"precise\": %u, \"factor\": %" PRIu32 ", \"samples\": %s}\n",
           event->name, event->type, event->config[0], event->config[1], event->config[2], event->precise,
           event->period_factor, event->samples ? "true" : "false");
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 7 && strcmp(argv[1], "records") == 0)
    return print_records(argv + 2);
  return argc == 3 && strcmp(argv[1], "pmu") == 0 ? print_pmu(argv[2]) : 2;
}

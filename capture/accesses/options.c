/* SPDX-License-Identifier: MIT */
/* `record --accesses` and `--burst`. */
#include "capture/recorder/command/options.h"
#include "capture/recorder/command/beside.h"
#include "core/trace/access_stream.h"

#include <stdlib.h>
#include <string.h>

/* Every event needs a stamp: calls are matched with accesses by order. */
static const char *take_accesses(void *field, const char *value) {
  struct collector_settings *settings = field;
  settings->flags |= ATTACH_STAMP_EVERY | ATTACH_ACCESSES;
  settings->simulated = true;
  settings->filter_bytes = value ? 0 : ACCESS_FILTER_BYTES;
  if (!value || strcmp(value, "all") == 0)
    return NULL;
  uint64_t bytes;
  if (options_bytes(&bytes, value) || bytes < 64 || bytes > 1 << 30 || (bytes & (bytes - 1)) != 0)
    return "is neither \"all\" nor a power of two of bytes from 64 to 1G";
  settings->filter_bytes = bytes;
  return NULL;
}

/* The longest mark that heaptape_mark stores. */
enum { MARK_BYTES = 255 };

static const char *take_burst_end(const char *text, int *signal) {
  if (strlen(text) > MARK_BYTES)
    return "a mark has at most 255 bytes";
  bool is_signal = strncmp(text, "SIG", 3) == 0 && options_find_signal(text);
  return is_signal ? options_signal(signal, text) : NULL;
}

/* Splits FROM..TO; the parts live as long as the program does. */
static const char *take_burst(void *field, const char *value) {
  struct collector_settings *settings = field;
  const char *dots = strstr(value, "..");
  if (!dots || !value[2])
    return "is not FROM..TO, where one end may be left out";
  char *from = strndup(value, (size_t)(dots - value));
  if (!from)
    return "out of memory";
  settings->in_bursts = true;
  settings->burst = (struct burst_ends){.from = from, .to = dots + 2};
  const char *problem = take_burst_end(settings->burst.from, &settings->burst.from_signal);
  return problem ? problem : take_burst_end(settings->burst.to, &settings->burst.to_signal);
}

static const struct cli_option options[] = {
    {"accesses", 0, "[=all|BYTES]", take_accesses, 0,
     "run CMD under Valgrind and store its data accesses beside its calls: those that miss a cache of BYTES with lines of 16 "
     "bytes (a power of two, at least 64), or all",
     "4096", .group = "memory"},
    {"burst", 0, "FROM..TO", take_burst, 0,
     "store data accesses only in bursts, from the mark FROM to the mark TO (heaptape_mark); outside bursts the program "
     "runs faster, and its calls are stored as usual. FROM left out: from the start; TO left out: up to the end; a signal "
     "such as SIGUSR1: when the recorder (not the program) gets it; ctl: only by 'heaptape ctl'",
     .group = "memory"},
    {.name = NULL},
};
CLI_ADD(record, options);

static const char *contradiction(const struct collector_settings *settings) {
  bool accesses = settings->flags & ATTACH_ACCESSES;
  if (settings->in_bursts && !accesses)
    return "--burst limits data accesses: give --accesses, too";
  if (accesses && settings->budget > 0)
    return "--budget is about calls: it can't limit what --accesses costs";
  if (accesses && settings->rotate_bytes)
    return "--rotate can't divide data accesses among files: leave --accesses out";
  return NULL;
}

/* INFO's `accesses`.`bursts`; marks are any bytes, and those that are not UTF-8 are left out. */
static json_t *burst_ends(const struct burst_ends *burst) {
  json_t *ends = json_object();
  json_object_set_new(ends, "from", json_string(burst->from));
  json_object_set_new(ends, "to", json_string(burst->to));
  return ends;
}

static json_t *info(const struct collector_settings *settings) {
  if (!(settings->flags & ATTACH_ACCESSES))
    return NULL;
  json_t *accesses =
      json_pack("{s:i,s:I}", "granule_bytes", ACCESS_GRANULE_BYTES, "filter_bytes", (json_int_t)settings->filter_bytes);
  if (accesses && settings->in_bursts)
    json_object_set_new(accesses, "bursts", burst_ends(&settings->burst));
  return accesses;
}

/* Ends that are signals reach Valgrind by way of the recorder. */
static void add_bursts(struct valgrind_command *command, const struct burst_ends *burst) {
  valgrind_command_add(command, "--bursts=%s", burst->from[0] ? "out" : "in");
  if (burst->from[0] && !burst->from_signal)
    valgrind_command_add(command, "--burst-from=%s", burst->from);
  if (burst->to[0] && !burst->to_signal)
    valgrind_command_add(command, "--burst-to=%s", burst->to);
}

static void set_mode(struct valgrind_command *command, const struct collector_settings *settings) {
  valgrind_command_add_live(command, "accesses", settings->follow);
  valgrind_command_add(command, "--filter=%llu", (unsigned long long)settings->filter_bytes);
  if (settings->in_bursts)
    add_bursts(command, &settings->burst);
}

static const struct beside_calls accesses = {contradiction, info, set_mode};
REGISTER_BESIDE_CALLS(accesses);

/* SPDX-License-Identifier: MIT */
#include "replay/parent/instruction_counter.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char CALLER_PREFIX[] = "heaptape_calls_";

static int choose(struct instruction_counter *counter, enum counted_by wanted, const char *workload,
                  struct error *error) {
  char why[sizeof error->text - 128];
  counter->by = COUNTED_BY_HEAPTAPE;
  if (wanted != COUNTED_BY_CALLGRIND && valgrind_find_tool(&counter->command.valgrind, why, sizeof why) == 0)
    return 0;
  if (wanted == COUNTED_BY_HEAPTAPE)
    return error_set(error, workload, "instructions can't be counted: %s", why);
  counter->by = COUNTED_BY_CALLGRIND;
  if (valgrind_find(&counter->command.valgrind, why, sizeof why) == 0)
    return 0;
  return error_set(error, workload, "instructions are counted by valgrind, which is not installed here");
}

/* callgrind: plain names and numbers in the output, which keeps its reader short. */
int instruction_counter_begin(struct instruction_counter *counter, enum counted_by wanted, const char *workload,
                              struct error *error) {
  struct valgrind_command *command = &counter->command;
  if (choose(counter, wanted, workload, error) != 0 || valgrind_command_open(command, error) != 0)
    return -1;
  if (counter->by == COUNTED_BY_HEAPTAPE) {
    valgrind_command_add(command, "--tool=heaptape");
    valgrind_command_add(command, "--mode=count");
    valgrind_command_add(command, "--out-file=%s", command->output);
    return 0;
  }
  valgrind_command_add(command, "--tool=callgrind");
  valgrind_command_add(command, "--callgrind-out-file=%s", command->output);
  valgrind_command_add(command, "--toggle-collect=%s*", CALLER_PREFIX);
  valgrind_command_add(command, "--compress-strings=no");
  valgrind_command_add(command, "--compress-pos=no");
  return 0;
}

/* Returns the call whose caller has that name; -1: none. */
static int call_of_caller(const char *function) {
  if (strncmp(function, CALLER_PREFIX, sizeof CALLER_PREFIX - 1) != 0)
    return -1;
  char ident[64];
  size_t bytes = strcspn(function + sizeof CALLER_PREFIX - 1, "'\n");
  snprintf(ident, sizeof ident, "%.*s", (int)bytes, function + sizeof CALLER_PREFIX - 1);
  return call_by_name(ident);
}

/* "fn=CALLER" begins a function; "calls=N ..." is followed by "LINE INSTRUCTIONS", the instructions of everything below
   the call. */
static int read_callgrind(const char *path, struct executed_count calls[CALL_LIMIT], struct error *error) {
  FILE *file = fopen(path, "r");
  if (!file)
    return error_errno(error, path, "callgrind left no output");
  char line[4096];
  int call = -1;
  bool is_below = false, complete = false;
  while (fgets(line, sizeof line, file)) {
    uint64_t count;
    if (strncmp(line, "fn=", 3) == 0)
      call = call_of_caller(line + 3);
    else if (is_below && call >= 0 && sscanf(line, "%*s %" SCNu64, &count) == 1)
      calls[call].instructions += count;
    complete |= strncmp(line, "totals:", 7) == 0;
    is_below = strncmp(line, "calls=", 6) == 0;
  }
  fclose(file);
  return complete ? 0 : error_set(error, path, "callgrind's output is cut short");
}

/* Counts before the first edge belong to no window. */
static void add_row(const json_t *row, uint32_t edges, struct window_count *windows) {
  json_int_t at[4];
  for (size_t column = 0; column < 4; column++)
    at[column] = json_integer_value(json_array_get(row, column));
  if (at[0] < 1 || at[0] >= edges || at[1] < 0 || at[1] >= CALL_LIMIT)
    return;
  windows[at[0] - 1].calls[at[1]] = (uint64_t)at[2];
  windows[at[0] - 1].instructions[at[1]] = (uint64_t)at[3];
}

static int read_windows(const char *path, const json_t *snapshots, uint32_t edges, struct instruction_counts *counts,
                        struct error *error) {
  if (json_integer_value(json_object_get(snapshots, "count")) != edges)
    return error_set(error, path, "the Valgrind tool did not count by windows");
  counts->windows = calloc(edges, sizeof *counts->windows);
  if (!counts->windows)
    return error_set(error, path, "out of memory");
  json_t *rows = json_object_get(snapshots, "rows"), *row;
  size_t index;
  json_array_foreach(rows, index, row) add_row(row, edges, counts->windows);
  return 0;
}

static struct executed_count read_executed(const json_t *from) {
  return (struct executed_count){(uint64_t)json_integer_value(json_object_get(from, "instructions")),
                                 (uint64_t)json_integer_value(json_object_get(from, "string_instructions")),
                                 (uint64_t)json_integer_value(json_object_get(from, "string_bytes"))};
}

/* A kind is the call's id (replay/passes/instructions.c). */
static int read_ours(const char *path, uint32_t edges, struct instruction_counts *counts, struct error *error) {
  json_error_t what;
  json_t *result = json_load_file(path, 0, &what);
  json_t *kinds = json_object_get(result, "kinds"), *entry;
  size_t index;
  json_array_foreach(kinds, index, entry) {
    json_int_t kind = json_integer_value(json_object_get(entry, "kind"));
    if (kind >= 0 && kind < CALL_LIMIT)
      counts->calls[kind] = read_executed(entry);
  }
  const json_t *startup = json_object_get(result, "startup");
  counts->startup_known = startup != NULL;
  counts->startup = read_executed(json_object_get(startup, "allocator"));
  counts->startup_process = read_executed(json_object_get(startup, "loading"));
  counts->startup_process.instructions += counts->startup.instructions;
  counts->startup_process.strings += counts->startup.strings;
  counts->startup_process.string_bytes += counts->startup.string_bytes;
  int status = json_is_array(kinds) ? 0 : error_set(error, path, "the Valgrind tool left no result");
  if (status == 0 && edges > 0)
    status = read_windows(path, json_object_get(result, "snapshots"), edges, counts, error);
  json_decref(result);
  return status;
}

int instruction_counter_read(const struct instruction_counter *counter, uint32_t edges,
                             struct instruction_counts *counts, struct error *error) {
  *counts = (struct instruction_counts){.startup_known = false};
  if (counter->by == COUNTED_BY_HEAPTAPE)
    return read_ours(counter->command.output, edges, counts, error);
  return read_callgrind(counter->command.output, counts->calls, error);
}

void instruction_counts_free(struct instruction_counts *counts) {
  free(counts->windows);
  counts->windows = NULL;
}

const char *counted_by_name(enum counted_by by) {
  return by == COUNTED_BY_HEAPTAPE ? "heaptape" : "callgrind";
}

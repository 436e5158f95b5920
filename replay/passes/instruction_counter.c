/* SPDX-License-Identifier: MIT */
#include "replay/passes/instruction_counter.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int instruction_counter_begin(struct valgrind_command *command, const char *workload, struct error *error) {
  char why[sizeof error->text - 128];
  if (valgrind_find(&command->valgrind, why, sizeof why) != 0)
    return error_set(error, workload, "instructions can't be counted here: %s", why);
  if (valgrind_command_open(command, error) != 0)
    return -1;
  valgrind_command_add(command, "--tool=heaptape");
  valgrind_command_add(command, "--mode=count");
  valgrind_command_add(command, "--out-file=%s", command->output);
  return 0;
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

/* A kind is the call's id (replay/passes/instructions.c). */
int instruction_counter_read(const char *path, uint32_t edges, struct instruction_counts *counts, struct error *error) {
  *counts = (struct instruction_counts){.startup = 0};
  json_error_t what;
  json_t *result = json_load_file(path, 0, &what);
  json_t *kinds = json_object_get(result, "kinds"), *entry;
  size_t index;
  json_array_foreach(kinds, index, entry) {
    json_int_t kind = json_integer_value(json_object_get(entry, "kind"));
    if (kind >= 0 && kind < CALL_LIMIT)
      counts->calls[kind] = (uint64_t)json_integer_value(json_object_get(entry, "instructions"));
  }
  const json_t *startup = json_object_get(result, "startup");
  counts->startup = (uint64_t)json_integer_value(json_object_get(startup, "allocator_instructions"));
  counts->startup_process =
      counts->startup + (uint64_t)json_integer_value(json_object_get(startup, "loading_instructions"));
  int status = json_is_array(kinds) ? 0 : error_set(error, path, "the Valgrind tool left no result");
  if (status == 0 && edges > 0)
    status = read_windows(path, json_object_get(result, "snapshots"), edges, counts, error);
  json_decref(result);
  return status;
}

void instruction_counts_free(struct instruction_counts *counts) {
  free(counts->windows);
  counts->windows = NULL;
}

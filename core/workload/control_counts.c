/* SPDX-License-Identifier: MIT */
#include "core/workload/control_counts.h"

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/trace/event.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { OPTION_NAME_BYTES = 24, TEXT_ROWS = 6 };

void control_counts_add(struct control_counts *counts, uint8_t call, uint64_t option, uint64_t value) {
  struct control_count *at = counts->row, *end = at + CONTROL_COUNTS;
  while (at != end && at->count && (at->call != call || at->option != option || at->value != value))
    at++;
  if (at != end)
    *at = (struct control_count){call, option, value, at->count + 1};
}

static const char *allocator_of(uint8_t call) {
  const char *ident = call_table[call].ident;
  return strncmp(ident, "mi_", 3) == 0    ? "mimalloc"
         : strncmp(ident, "tc_", 3) == 0  ? "tcmalloc"
         : strncmp(ident, "tbb_", 4) == 0 ? "tbbmalloc"
                                          : "glibc";
}

/* glibc's names are those of malloc.h; of others, whose numbers change with their versions, the number. */
static const char *option_name(const struct control_count *row, char *number) {
  static const struct {
    int number;
    const char *name;
  } names[] = {{1, "M_MXFAST"},          {-1, "M_TRIM_THRESHOLD"}, {-2, "M_TOP_PAD"},
               {-3, "M_MMAP_THRESHOLD"}, {-4, "M_MMAP_MAX"},       {-5, "M_CHECK_ACTION"},
               {-6, "M_PERTURB"},        {-7, "M_ARENA_TEST"},     {-8, "M_ARENA_MAX"}};
  for (size_t i = 0; row->call == CALL_mallopt && i < sizeof names / sizeof *names; i++)
    if ((uint32_t)names[i].number == row->option)
      return names[i].name;
  snprintf(number, OPTION_NAME_BYTES, "%" PRIu64, row->option);
  return number;
}

static int64_t value_of(const struct control_count *row) {
  return row->call == CALL_mallopt ? (int32_t)row->value : (int64_t)(row->value << 1) >> 1;
}

static void add_words(struct text_line *words, const struct control_count *row) {
  const struct call_info *info = &call_table[row->call];
  char number[OPTION_NAME_BYTES];
  const char *name = option_name(row, number);
  if (row->call == CALL_mallopt)
    text_add(words, "sets %s=%" PRId64, name, value_of(row));
  else if (info->param == OPTION)
    text_add(words, "calls %s for option %s", info->name, name);
  else
    text_add(words, "calls %s", info->name);
  if (row->count > 1)
    text_add(words, " %" PRIu64 " times", row->count);
}

/* Calls that differ in their value alone are one. */
static size_t without_values(const struct control_counts *counts, struct control_counts *into) {
  size_t rows = 0;
  for (const struct control_count *at = counts->row; at != counts->row + CONTROL_COUNTS && at->count; at++) {
    size_t same = 0;
    while (same < rows && (into->row[same].call != at->call || at->call == CALL_mallopt))
      same++;
    if (same == rows)
      into->row[rows++] = *at;
    else
      into->row[same].count += at->count;
  }
  return rows;
}

json_t *control_counts_json(const struct control_counts *counts) {
  struct control_counts shown = {0};
  struct text_line words = {.used = 0};
  size_t rows = without_values(counts, &shown), said = rows > TEXT_ROWS ? TEXT_ROWS : rows;
  json_t *calls = json_array();
  if (rows == 0) {
    json_decref(calls);
    return NULL;
  }
  for (size_t i = 0; i < said; i++) {
    text_add(&words, "%s", i == 0 ? "" : i + 1 == said && said == rows ? " and " : ", ");
    add_words(&words, &shown.row[i]);
  }
  if (rows > said)
    text_add(&words, " and makes %zu other kinds of such calls", rows - said);
  for (const struct control_count *at = counts->row; at != counts->row + CONTROL_COUNTS && at->count; at++) {
    char number[OPTION_NAME_BYTES];
    json_t *row = json_pack("{s:s}", "call", call_table[at->call].name);
    if (call_table[at->call].param == OPTION)
      json_object_set_new(row, "option", json_string(option_name(at, number)));
    if (call_table[at->call].has_size)
      json_object_set_new(row, "value", json_integer(value_of(at)));
    json_set_count(row, "count", at->count);
    json_array_append_new(calls, row);
  }
  return json_pack("{s:s, s:s, s:o}", "of", allocator_of(counts->row[0].call), "text", words.text, "calls", calls);
}

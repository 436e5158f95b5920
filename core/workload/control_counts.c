/* SPDX-License-Identifier: MIT */
#include "core/workload/control_counts.h"

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/trace/control_names.h"
#include "core/trace/event.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_ROWS = 6 };

void control_counts_add(struct control_counts *counts, uint8_t call, uint64_t option, uint64_t value) {
  struct control_count *at = counts->row, *end = at + CONTROL_COUNTS;
  while (at != end && at->count && (at->call != call || at->option != option || at->value != value))
    at++;
  if (at != end)
    *at = (struct control_count){call, option, value, at->count + 1};
}

/* In the order in which they are said. */
static const char *const allocators[] = {"glibc", "jemalloc", "mimalloc", "tcmalloc", "tbbmalloc"};
enum { ALLOCATORS = sizeof allocators / sizeof *allocators };

static size_t allocator_of(uint8_t call) {
  const char *ident = call_table[call].ident;
  return strncmp(ident, "mallctl", 7) == 0 ? 1
         : strncmp(ident, "mi_", 3) == 0   ? 2
         : strncmp(ident, "tc_", 3) == 0   ? 3
         : strncmp(ident, "tbb_", 4) == 0  ? 4
                                           : 0;
}

/* Is the option a name (control_names.def)? */
static bool is_named(uint8_t call) {
  return call == CALL_mallctl || call == CALL_mallctlbymib || call == CALL_tc_set_property;
}

/* Does its value say more than its number of calls does? */
static bool shows_value(const struct control_count *row) {
  const struct control_name *name = is_named(row->call) ? control_name_of(row->option) : NULL;
  return row->call == CALL_mallopt || (name && (name->value == BOOL || name->value == UINT || name->value == SIZE));
}

/* glibc's names are those of malloc.h; of others, whose numbers change with their versions, the number. */
static const char *option_name(const struct control_count *row, char *to) {
  static const struct {
    int number;
    const char *name;
  } names[] = {{1, "M_MXFAST"},          {-1, "M_TRIM_THRESHOLD"}, {-2, "M_TOP_PAD"},
               {-3, "M_MMAP_THRESHOLD"}, {-4, "M_MMAP_MAX"},       {-5, "M_CHECK_ACTION"},
               {-6, "M_PERTURB"},        {-7, "M_ARENA_TEST"},     {-8, "M_ARENA_MAX"}};
  for (size_t i = 0; row->call == CALL_mallopt && i < sizeof names / sizeof *names; i++)
    if ((uint32_t)names[i].number == row->option)
      return names[i].name;
  if (is_named(row->call))
    return control_name_of(row->option) ? control_name_text(row->option, to) : "another name";
  snprintf(to, CONTROL_NAME_BYTES, "%" PRIu64, row->option);
  return to;
}

static int64_t value_of(const struct control_count *row) {
  return control_takes_ints(row->call) ? (int32_t)row->value : control_value_read(row->value);
}

/* A row that is shown: calls that differ in their value alone are one, but where they are few and say something. */
struct shown {
  struct control_count row;
  bool one_value;
};

static void add_words(struct text_line *words, const struct shown *shown) {
  const struct control_count *row = &shown->row;
  const struct call_info *info = &call_table[row->call];
  char number[CONTROL_NAME_BYTES];
  const char *name = option_name(row, number);
  if (shows_value(row) && shown->one_value)
    text_add(words, "sets %s=%" PRId64, name, value_of(row));
  else if (is_named(row->call))
    text_add(words, "calls %s for %s", info->name, name);
  else if (info->param == OPTION)
    text_add(words, "calls %s for option %s", info->name, name);
  else
    text_add(words, "calls %s", info->name);
  if (row->count > 1)
    text_add(words, " %" PRIu64 " times", row->count);
  if (is_named(row->call) && !control_is_replayed(row->option))
    text_add(words, " (never replayed)");
}

/* The rows of one allocator's calls. Returns how many there are. */
static size_t of_allocator(const struct control_counts *counts, size_t allocator, struct shown *to) {
  size_t rows = 0;
  for (const struct control_count *at = counts->row; at != counts->row + CONTROL_COUNTS && at->count; at++) {
    size_t same = 0;
    if (allocator_of(at->call) != allocator)
      continue;
    while (same < rows && (to[same].row.call != at->call || to[same].row.option != at->option ||
                           (at->call == CALL_mallopt && to[same].row.value != at->value)))
      same++;
    if (same == rows)
      to[rows++] = (struct shown){*at, true};
    else {
      to[same].row.count += at->count;
      to[same].one_value = false;
    }
  }
  return rows;
}

json_t *control_counts_json(const struct control_counts *counts) {
  struct shown shown[CONTROL_COUNTS];
  struct text_line words = {.used = 0}, of = {.used = 0};
  size_t rows = 0;
  for (size_t i = 0; i < ALLOCATORS; i++) {
    size_t more = of_allocator(counts, i, shown + rows);
    if (more)
      text_add(&of, "%s%s", rows ? " and " : "", allocators[i]);
    rows += more;
  }
  if (rows == 0)
    return NULL;
  size_t said = rows > TEXT_ROWS ? TEXT_ROWS : rows;
  for (size_t i = 0; i < said; i++) {
    text_add(&words, "%s", i == 0 ? "" : i + 1 == said && said == rows ? " and " : ", ");
    add_words(&words, &shown[i]);
  }
  if (rows > said)
    text_add(&words, " and makes %zu other kind%s of such calls", rows - said, rows - said == 1 ? "" : "s");
  json_t *calls = json_array();
  for (const struct control_count *at = counts->row; at != counts->row + CONTROL_COUNTS && at->count; at++) {
    char number[CONTROL_NAME_BYTES];
    json_t *row = json_pack("{s:s}", "call", call_table[at->call].name);
    if (call_table[at->call].param == OPTION)
      json_object_set_new(row, "option", json_string(option_name(at, number)));
    if (call_table[at->call].has_size)
      json_object_set_new(row, "value", json_integer(value_of(at)));
    json_set_count(row, "count", at->count);
    json_array_append_new(calls, row);
  }
  return json_pack("{s:s, s:s, s:o}", "of", of.text, "text", words.text, "calls", calls);
}

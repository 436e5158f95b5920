/* SPDX-License-Identifier: MIT */
#include "core/base/os.h"
#include "replay/parent/run.h"
#include "replay/passes/blame/blame.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const grouping_names[BLAME_GROUPINGS] = {"site", "function", "thread", "size", "phase", "age"};

/* The positions in order, with the peak among them. */
struct sequence {
  const struct blame_figures *blame;
  bool peak_separate;   /* it is not another position, too */
  uint32_t peak, count; /* peak: its index */
  bool has_peak;
};

static struct sequence sequence_of(const struct blame_figures *blame) {
  struct sequence sequence = {.blame = blame, .has_peak = blame->peak.parts.rss_anon_bytes > 0};
  uint64_t position = blame->peak.parts.position;
  while (sequence.peak < blame->position_count && blame->positions[sequence.peak].parts.position < position)
    sequence.peak++;
  sequence.peak_separate = sequence.has_peak && (sequence.peak == blame->position_count ||
                                                 blame->positions[sequence.peak].parts.position != position);
  sequence.count = blame->position_count + sequence.peak_separate;
  return sequence;
}

/* Where the peak is another position too, its rows are used for both. */
static const struct blame_position *position_at(const struct sequence *sequence, uint32_t index) {
  if (sequence->has_peak && index == sequence->peak)
    return &sequence->blame->peak;
  return &sequence->blame->positions[index - (sequence->peak_separate && index > sequence->peak)];
}

static json_t *why_json(uint32_t why) {
  static const struct {
    uint32_t bit;
    const char *name;
  } names[] = {{BLAME_BECAUSE_EVEN, "even"},
               {BLAME_BECAUSE_REQUESTED, "asked"},
               {BLAME_BECAUSE_PEAK, "peak"},
               {BLAME_BECAUSE_LIVE_PEAK, "live_peak"},
               {BLAME_BECAUSE_END, "end"}};
  json_t *array = json_array();
  for (size_t index = 0; index < sizeof names / sizeof *names; index++)
    if (why & names[index].bit)
      json_array_append_new(array, json_string(names[index].name));
  return array;
}

static void add_walk(json_t *into, const struct memory_figures *result, const struct walked *walked) {
  for (unsigned state = 0; state < result->walk_states; state++) {
    char key[WALK_STATE_NAME_BYTES + 32];
    const char *name = result->walk_state_names[state];
    snprintf(key, sizeof key, "walk_%s_bytes", name);
    json_set_count(into, key, walked[state].bytes);
    snprintf(key, sizeof key, "walk_%s_beside_live_bytes", name);
    json_set_count(into, key, walked[state].beside_bytes);
    snprintf(key, sizeof key, "walk_%s_empty_bytes", name);
    json_set_count(into, key, walked[state].empty_bytes);
  }
}

static json_t *position_json(const struct memory_figures *result, const struct blame_position *position,
                             const struct baseline *baseline, uint32_t why) {
  const struct fragmentation_row *parts = &position->parts;
  const struct os_pages_sum *sum = &parts->sum;
  uint64_t rss = above(parts->rss_anon_bytes, baseline->rss_anon_bytes);
  uint64_t table = sum->live_bytes + sum->rounding_bytes + sum->beside_bytes + sum->empty_bytes + sum->untouched_bytes;
  json_t *out = json_object();
  const struct {
    const char *key;
    uint64_t value;
  } figures[] = {{"position", parts->position},
                 {"rss_anon_bytes", rss},
                 {"live_bytes", parts->live_bytes},
                 {"live_objects", position->live_objects},
                 {"live_resident_bytes", sum->live_bytes},
                 {"rounding_bytes", sum->rounding_bytes},
                 {"beside_live_bytes", sum->beside_bytes},
                 {"empty_bytes", sum->empty_bytes},
                 {"never_used_bytes", sum->untouched_bytes},
                 {"overlap_bytes", sum->overlap_bytes}};
  for (size_t index = 0; index < sizeof figures / sizeof *figures; index++)
    json_set_count(out, figures[index].key, figures[index].value);
  json_object_set_new(out, "beside_table_bytes", json_integer((json_int_t)rss - (json_int_t)table));
  json_object_set_new(out, "why", why_json(why));
  add_walk(out, result, parts->walked);
  return out;
}

static json_t *positions_json(const struct memory_figures *result, const struct sequence *sequence,
                              const struct baseline *baseline) {
  json_t *array = json_array();
  for (uint32_t index = 0; index < sequence->count; index++) {
    const struct blame_position *position = position_at(sequence, index);
    uint32_t why = position->why;
    if (sequence->has_peak && index == sequence->peak)
      why |= BLAME_BECAUSE_PEAK;
    json_array_append_new(array, position_json(result, position, baseline, why));
  }
  return array;
}

enum { COLUMNS = 11 };

static const char *const column_names[COLUMNS] = {
    "at",          "grouping", "group",       "groups",           "objects", "live_bytes", "rounding_bytes",
    "empty_bytes", "os_pages", "alone_bytes", "alone_empty_bytes"};

/* The rows, column after column. */
struct table {
  int64_t *values;
  uint64_t rows, used;
};

static void add_row(struct table *table, const struct blame_row *row, uint32_t at) {
  const int64_t values[COLUMNS] = {at,
                                   row->grouping,
                                   row->group,
                                   (int64_t)row->groups,
                                   (int64_t)row->sums.objects,
                                   (int64_t)row->sums.live_bytes,
                                   (int64_t)row->sums.rounding_bytes,
                                   (int64_t)row->sums.empty_bytes,
                                   (int64_t)row->sums.os_pages,
                                   (int64_t)row->sums.alone_bytes,
                                   (int64_t)row->sums.alone_empty_bytes};
  for (int column = 0; column < COLUMNS; column++)
    table->values[(uint64_t)column * table->rows + table->used] = values[column];
  table->used++;
}

/* If the peak is another position too, that position's rows are left out. */
static bool is_replaced(const struct sequence *sequence, const struct blame_row *row) {
  return sequence->has_peak && !sequence->peak_separate && row->at == sequence->peak;
}

static void add_rows(struct table *table, const struct sequence *sequence) {
  const struct blame_figures *blame = sequence->blame;
  for (uint64_t index = 0; index < blame->row_count; index++) {
    const struct blame_row *row = &blame->rows[index];
    if (!is_replaced(sequence, row))
      add_row(table, row, row->at + (sequence->peak_separate && row->at >= sequence->peak));
  }
  for (uint64_t index = 0; index < blame->peak_row_count; index++)
    add_row(table, &blame->peak_rows[index], sequence->peak);
}

static bool make_table(struct table *table, const struct sequence *sequence) {
  *table = (struct table){.rows = sequence->blame->peak_row_count};
  for (uint64_t index = 0; index < sequence->blame->row_count; index++)
    table->rows += !is_replaced(sequence, &sequence->blame->rows[index]);
  table->values = calloc(table->rows + 1, COLUMNS * sizeof *table->values);
  if (table->values)
    add_rows(table, sequence);
  return table->values != NULL;
}

/* The frames of the sites that are reported: each once, since most stacks share theirs. */
struct frames {
  const json_t *all;
  json_t *kept;
  int64_t *place; /* of each frame, among the kept ones; negative: not kept */
};

static bool frames_begin(struct frames *frames, const json_t *all) {
  size_t count = json_array_size(all);
  *frames = (struct frames){.all = all, .kept = json_array(), .place = malloc((count + 1) * sizeof *frames->place)};
  for (size_t index = 0; frames->place && index < count; index++)
    frames->place[index] = -1;
  return frames->place != NULL;
}

static void append_frame(struct frames *frames, size_t number, json_t *to) {
  json_t *frame = json_array_get(frames->all, number);
  if (!frame)
    return;
  if (frames->place[number] < 0) {
    frames->place[number] = (int64_t)json_array_size(frames->kept);
    json_array_append(frames->kept, frame);
  }
  json_array_append_new(to, json_integer(frames->place[number]));
}

static json_t *site_json(const json_t *site, struct frames *frames) {
  json_t *copy = json_copy((json_t *)(uintptr_t)site), *numbers = json_array();
  size_t index;
  const json_t *frame;
  json_array_foreach(json_object_get(site, "frames"), index, frame)
    append_frame(frames, (size_t)json_integer_value(frame), numbers);
  json_object_set_new(copy, "frames", numbers);
  return copy;
}

static json_t *named_json(const json_t *names, size_t number, struct frames *frames) {
  json_t *entry = json_array_get(json_object_get(names, frames ? "sites" : "functions"), number);
  if (!entry)
    return json_null();
  return frames && json_is_object(entry) ? site_json(entry, frames) : json_incref(entry);
}

/* Names of the functions in the table; where frames are given, of the sites. */
static json_t *names_json(const json_t *names, const struct table *table, struct frames *frames) {
  json_t *object = json_object();
  uint64_t grouping = frames ? BLAME_SITE : BLAME_FUNCTION;
  const int64_t *of_row = table->values + table->rows, *group = of_row + table->rows;
  for (uint64_t row = 0; row < table->used; row++) {
    char key[24];
    if ((uint64_t)of_row[row] != grouping || group[row] < 0)
      continue;
    snprintf(key, sizeof key, "%" PRId64, group[row]);
    if (!json_object_get(object, key))
      json_object_set_new(object, key, named_json(names, (size_t)group[row], frames));
  }
  return object;
}

static bool add_names(json_t *into, const json_t *names, const struct table *table) {
  struct frames frames;
  if (!frames_begin(&frames, json_object_get(names, "frames")))
    return false;
  json_object_set_new(into, "sites", names_json(names, table, &frames));
  json_object_set_new(into, "frames", frames.kept);
  free(frames.place);
  json_object_set_new(into, "functions", names_json(names, table, NULL));
  static const char *const kept[] = {"marks", "threads", "lacks"};
  for (size_t index = 0; index < sizeof kept / sizeof *kept; index++)
    json_object_set(into, kept[index], json_object_get(names, kept[index]));
  return true;
}

static json_t *strings(const char *const *texts, int count) {
  json_t *array = json_array();
  for (int index = 0; index < count; index++)
    json_array_append_new(array, json_string(texts[index]));
  return array;
}

static json_t *blame_json(const struct blame_figures *blame, const struct baseline *baseline, const json_t *names) {
  const struct memory_figures *result = &blame->memory;
  if (!blame->measured)
    return json_null();
  struct sequence sequence = sequence_of(blame);
  struct table table;
  if (!make_table(&table, &sequence))
    return NULL;
  char *packed = report_packed(table.values, table.rows * COLUMNS * sizeof *table.values);
  json_t *out = packed ? json_pack("{s:o, s:b, s:o, s:o, s:o, s:s, s:o, s:s, s:o}", "os_page_bytes",
                                   json_unsigned(os_page_bytes()), "origins", names != NULL, "positions",
                                   positions_json(result, &sequence, baseline), "groupings",
                                   strings(grouping_names, BLAME_GROUPINGS), "columns", strings(column_names, COLUMNS),
                                   "encoding", "zlib+base64", "rows", json_unsigned(table.rows), "values", packed,
                                   "rows_lost", json_unsigned(blame->rows_lost + blame->peak_rows_lost))
                       : NULL;
  if (out && names && !add_names(out, names, &table)) {
    json_decref(out);
    out = NULL;
  }
  free(packed);
  free(table.values);
  return out;
}

void blame_report(json_t *into, const struct run *run, const json_t *names) {
  json_object_set_new(into, "blame", blame_json(run->figures, &run->baseline, names));
}

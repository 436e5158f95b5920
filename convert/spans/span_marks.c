/* SPDX-License-Identifier: MIT */
#include "convert/spans/span_marks.h"

#include <stdlib.h>
#include <string.h>

static const char prefix[] = "heaptape:";

/* Fills in kind and place, and in *name the text after "begin ". Returns false for other marks of the program. */
static bool parse_span_mark(const char *text, struct span_mark *mark, const char **name) {
  static const char *const words[] = {
      [SPAN_BEGIN] = "begin ", [SPAN_OWN] = "own", [SPAN_REST] = "rest", [SPAN_END] = "end", [SPAN_AT] = "at "};
  if (strncmp(text, prefix, sizeof prefix - 1) != 0)
    return false;
  text += sizeof prefix - 1;
  for (mark->kind = SPAN_BEGIN; mark->kind <= SPAN_AT; mark->kind++) {
    const char *word = words[mark->kind];
    bool has_rest = mark->kind == SPAN_BEGIN || mark->kind == SPAN_AT;
    if (has_rest ? strncmp(text, word, strlen(word)) != 0 : strcmp(text, word) != 0)
      continue;
    *name = mark->kind == SPAN_BEGIN ? text + strlen(word) : NULL;
    unsigned long place = mark->kind == SPAN_AT ? strtoul(text + strlen(word), NULL, 10) : 0;
    mark->place = place < UINT32_MAX ? (uint32_t)place : 0;
    return true;
  }
  return false;
}

static int add(void *context, const struct trace_mark *from) {
  struct span_marks *marks = context;
  struct span_mark mark = {.stamp = from->stamp, .events = from->events, .thread = from->thread};
  const char *name;
  if (from->thread >= marks->threads || !parse_span_mark(from->text, &mark, &name))
    return 0;
  if (name && !(mark.name = strdup(name)))
    return 1;
  struct span_mark *added = mark.kind == SPAN_AT ? vector_add(&marks->places) : vector_add(&marks->turns);
  if (!added) {
    free(mark.name);
    return 1;
  }
  *added = mark;
  return 0;
}

static int by_stamp(const void *left, const void *right) {
  const struct span_mark *a = left, *b = right;
  return COMPARE(a->stamp, b->stamp) ?: COMPARE(a->events, b->events);
}

static int by_thread(const void *left, const void *right) {
  const struct span_mark *a = left, *b = right;
  return COMPARE(a->thread, b->thread) ?: by_stamp(left, right);
}

void span_marks_rewind(struct span_marks *marks, const uint64_t *passed) {
  marks->next_turn = 0;
  for (uint32_t thread = 0; thread < marks->threads; thread++) {
    marks->events[thread] = passed ? passed[thread] : 0;
    marks->next_place[thread] = SIZE_MAX;
  }
  for (size_t i = marks->places.count; i-- > 0;)
    marks->next_place[marks->places.at[i].thread] = i;
}

int span_marks_load(struct span_marks *marks, struct trace_reader *reader, const uint64_t *passed,
                    struct error *error) {
  *marks = (struct span_marks){.threads = trace_reader_summary(reader)->threads};
  int result = trace_reader_marks(reader, add, marks, error);
  marks->events = calloc(marks->threads + 1, sizeof *marks->events);
  marks->next_place = calloc(marks->threads + 1, sizeof *marks->next_place);
  if (result > 0 || !marks->events || !marks->next_place)
    return error_set(error, trace_reader_path(reader), "out of memory");
  vector_sort(&marks->turns, by_stamp);
  vector_sort(&marks->places, by_thread);
  span_marks_rewind(marks, passed);
  return result;
}

void span_marks_free(struct span_marks *marks) {
  for (size_t i = 0; i < marks->turns.count; i++)
    free(marks->turns.at[i].name);
  free(marks->turns.at);
  free(marks->places.at);
  free(marks->events);
  free(marks->next_place);
  *marks = (struct span_marks){0};
}

const struct span_mark *span_marks_turn(struct span_marks *marks, uint32_t thread, uint64_t stamp) {
  if (marks->next_turn == marks->turns.count)
    return NULL;
  const struct span_mark *mark = &marks->turns.at[marks->next_turn];
  if (mark->stamp > stamp && (mark->thread != thread || mark->events > marks->events[thread]))
    return NULL;
  marks->next_turn++;
  return mark;
}

uint32_t span_marks_place(struct span_marks *marks, uint32_t thread) {
  size_t *next = &marks->next_place[thread];
  uint32_t place = 0;
  for (; *next < marks->places.count && marks->places.at[*next].thread == thread &&
         marks->places.at[*next].events <= marks->events[thread];
       ++*next)
    place = marks->places.at[*next].place;
  if (place == 0 && *next != SIZE_MAX && *next > 0 && marks->places.at[*next - 1].thread == thread)
    place = marks->places.at[*next - 1].place;
  return place;
}

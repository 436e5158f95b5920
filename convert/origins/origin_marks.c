/* SPDX-License-Identifier: MIT */
#include "convert/origins/origin_marks.h"

#include <stdlib.h>
#include <string.h>

static int add(void *context, const struct trace_mark *mark) {
  struct origin_marks *marks = context;
  struct origin_mark *copy = vector_add(&marks->list);
  if (!copy)
    return 1;
  *copy = (struct origin_mark){mark->stamp, mark->events, UINT64_MAX, mark->thread, strdup(mark->text)};
  return copy->text ? 0 : 1;
}

/* Keeps the order within a thread, since the stamps of its marks rise. */
static int by_stamp(const void *left, const void *right) {
  const struct origin_mark *a = left, *b = right;
  return COMPARE(a->stamp, b->stamp) ?: COMPARE(a->thread, b->thread) ?: COMPARE(a->events, b->events);
}

static int by_position(const void *left, const void *right) {
  const struct origin_mark *a = left, *b = right;
  return COMPARE(a->position, b->position) ?: by_stamp(left, right);
}

int origin_marks_load(struct origin_marks *marks, struct trace_reader *reader, struct error *error) {
  *marks = (struct origin_marks){.threads = trace_reader_summary(reader)->threads};
  int result = trace_reader_marks(reader, add, marks, error);
  if (result < 0 || (result == 0 && marks->list.count == 0))
    return result;
  marks->events = calloc(marks->threads + 1, sizeof *marks->events);
  marks->next = calloc(marks->threads + 1, sizeof *marks->next);
  if (result > 0 || !marks->events || !marks->next)
    return error_set(error, trace_reader_path(reader), "out of memory");
  vector_sort(&marks->list, by_stamp);
  return 0;
}

void origin_marks_free(struct origin_marks *marks) {
  for (size_t i = 0; i < marks->list.count; i++)
    free(marks->list.at[i].text);
  free(marks->list.at);
  free(marks->events);
  free(marks->next);
  *marks = (struct origin_marks){0};
}

static void place(struct origin_marks *marks, struct origin_mark *mark, uint64_t position) {
  if (mark->position != UINT64_MAX)
    return;
  mark->position = position;
  marks->passed++;
  if (!marks->last || marks->last->position < position || marks->last < mark)
    marks->last = mark;
}

void origin_marks_before_op(struct origin_marks *marks, uint64_t position, uint32_t thread, uint64_t stamp) {
  while (marks->next_by_stamp < marks->list.count && marks->list.at[marks->next_by_stamp].stamp <= stamp)
    place(marks, &marks->list.at[marks->next_by_stamp++], position);
  if (!marks->events || thread >= marks->threads)
    return;
  /* Each thread passes the list once, up to its first pending mark. */
  for (size_t *next = &marks->next[thread]; *next < marks->list.count; ++*next) {
    struct origin_mark *mark = &marks->list.at[*next];
    if (mark->thread != thread)
      continue;
    if (mark->events > marks->events[thread])
      break;
    place(marks, mark, position);
  }
}

void origin_marks_after_event(struct origin_marks *marks, uint32_t thread) {
  if (marks->events && thread < marks->threads)
    marks->events[thread]++;
}

void origin_marks_end(struct origin_marks *marks, uint64_t ops) {
  for (size_t i = 0; i < marks->list.count; i++)
    place(marks, &marks->list.at[i], ops);
  vector_sort(&marks->list, by_position);
}

/* SPDX-License-Identifier: MIT */
#include "convert/inspect/marks.h"

#include "convert/history/merge.h"

#include <stdlib.h>
#include <string.h>

static int add(void *context, const struct trace_mark *mark) {
  struct marks *marks = context;
  struct trace_mark *copy = vector_add(&marks->list);
  if (!copy)
    return 1;
  *copy = *mark;
  copy->text = strdup(mark->text);
  return copy->text ? 0 : 1;
}

static int by_place(const void *left, const void *right) {
  const struct trace_mark *a = left, *b = right;
  return COMPARE(a->thread, b->thread) ?: COMPARE(a->events, b->events) ?: COMPARE(a->stamp, b->stamp);
}

int marks_load(struct marks *marks, struct trace_reader *reader, struct error *error) {
  uint32_t threads = trace_reader_summary(reader)->threads;
  *marks = (struct marks){.threads = threads};
  int result = trace_reader_marks(reader, add, marks, error);
  if (result < 0 || (result == 0 && marks->list.count == 0))
    return result;
  marks->events = calloc(threads + 1, sizeof *marks->events);
  marks->next = calloc(threads + 1, sizeof *marks->next);
  marks->end = calloc(threads + 1, sizeof *marks->end);
  if (result > 0 || !marks->events || !marks->next || !marks->end)
    return error_set(error, trace_reader_path(reader), "out of memory");
  vector_sort(&marks->list, by_place);
  for (size_t i = 0; i < marks->list.count && marks->list.at[i].thread < threads; i++) {
    uint32_t thread = marks->list.at[i].thread;
    if (marks->end[thread] == 0)
      marks->next[thread] = (uint32_t)i;
    marks->end[thread] = (uint32_t)i + 1;
  }
  return 0;
}

void marks_free(struct marks *marks) {
  for (size_t i = 0; i < marks->list.count; i++)
    free((char *)marks->list.at[i].text);
  free(marks->list.at);
  free(marks->events);
  free(marks->next);
  free(marks->end);
  *marks = (struct marks){0};
}

const struct trace_mark *marks_before(struct marks *marks, uint32_t thread) {
  if (!marks->events) /* there are no marks */
    return NULL;
  uint32_t at = marks->next[thread];
  if (at < marks->end[thread] && marks->list.at[at].events <= marks->events[thread]) {
    marks->next[thread]++;
    return &marks->list.at[at];
  }
  marks->events[thread]++;
  return NULL;
}

const struct trace_mark *marks_left(struct marks *marks, uint32_t thread) {
  for (uint32_t i = 0; i < marks->threads; i++)
    if (marks->next && (thread == MERGE_ALL_THREADS || thread == i) && marks->next[i] < marks->end[i])
      return &marks->list.at[marks->next[i]++];
  return NULL;
}

static int by_stamp(const void *left, const void *right) {
  const struct trace_mark *a = left, *b = right;
  return COMPARE(a->stamp, b->stamp);
}

json_t *marks_json(struct trace_reader *reader, struct error *error) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  json_t *array = NULL;
  struct marks marks;
  if (marks_load(&marks, reader, error) == 0) {
    array = json_array();
    vector_sort(&marks.list, by_stamp);
    for (size_t i = 0; i < marks.list.count; i++) {
      const struct trace_mark *mark = &marks.list.at[i];
      json_t *object = json_pack("{sI sI ss}", "thread", (json_int_t)mark->thread, "events", (json_int_t)mark->events,
                                 "text", mark->text);
      if (summary->clock_hz > 0)
        json_object_set_new(object, "time_ns", json_integer((json_int_t)trace_stamp_ns(summary, mark->stamp)));
      json_array_append_new(array, object);
    }
  }
  marks_free(&marks);
  return array;
}

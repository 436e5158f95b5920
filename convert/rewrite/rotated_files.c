/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/rotated_files.h"

#include "convert/history/trace_info.h"

#include <stdio.h>
#include <stdlib.h>

/* Reads the file's set and number, if it has them. */
static void read_rotation(struct rotated_file *file, const char *info_json) {
  struct trace_info info;
  trace_info_read(&info, info_json);
  const json_t *rotation = json_object_get(info.json, "rotation");
  const char *set = json_string_value(json_object_get(rotation, "set"));
  json_int_t number = json_integer_value(json_object_get(rotation, "file"));
  if (set && number > 0 && number < UINT32_MAX) {
    file->set = strtoull(set, NULL, 16);
    file->file = (uint32_t)number;
  }
  trace_info_free(&info);
}

/* Finds the recording of trace i among those before it. */
static int place(struct rotated_files *files, uint32_t i, const char *path, struct error *error) {
  struct rotated_file *file = &files->at[i];
  for (uint32_t k = i; k-- > 0 && file->file;) {
    struct rotated_file *before = &files->at[k];
    if (!before->file || before->set != file->set)
      continue;
    if (file->file != before->file + 1)
      return error_set(error, path, "is file %u of its recording, and comes after file %u: give all files, in sequence",
                       file->file, before->file);
    file->recording = before->recording;
    file->first = before->first;
    for (uint32_t each = 0; each <= i; each++)
      if (files->at[each].recording == file->recording)
        files->at[each].last = i;
    return 0;
  }
  file->recording = files->recordings++;
  file->first = file->last = i;
  return 0;
}

/* Where a thread was before: the file, and its number there; file 0: nowhere. */
struct origin {
  uint32_t thread, file;
};

static int take_gap(void *context, uint64_t events_before, uint64_t dropped, const char *why) {
  struct origin origin;
  if (events_before == 0 && dropped == 0 && sscanf(why, TRACE_CONTINUES, &origin.thread, &origin.file) == 2)
    *(struct origin *)context = origin;
  return 0;
}

/* The number of the thread among the threads of all traces; UINT32_MAX: it continues from none of these files. */
static uint32_t known(const struct rotated_files *files, struct trace_reader *const *readers, uint32_t i,
                      const struct origin *origin) {
  for (uint32_t k = files->at[i].first; origin->file && k < i; k++)
    if (files->at[k].recording == files->at[i].recording && files->at[k].file == origin->file &&
        origin->thread < trace_reader_summary(readers[k])->threads)
      return files->at[k].threads[origin->thread];
  return UINT32_MAX;
}

static int number_threads(struct rotated_files *files, struct trace_reader *const *readers, uint32_t i,
                          struct error *error) {
  uint32_t threads = trace_reader_summary(readers[i])->threads;
  files->at[i].threads = calloc(threads + 1, sizeof *files->at[i].threads);
  if (!files->at[i].threads)
    return error_set(error, trace_reader_path(readers[i]), "out of memory");
  for (uint32_t thread = 0; thread < threads; thread++) {
    struct origin origin = {0, 0};
    if (files->at[i].file && trace_reader_gaps(readers[i], thread, take_gap, &origin, error) != 0)
      return -1;
    uint32_t number = known(files, readers, i, &origin);
    files->at[i].threads[thread] = number < UINT32_MAX ? number : files->threads++;
  }
  return 0;
}

int rotated_files_find(struct rotated_files *files, struct trace_reader *const *readers, uint32_t count,
                       struct error *error) {
  *files = (struct rotated_files){.at = calloc(count, sizeof *files->at), .count = count};
  if (!files->at)
    return error_set(error, trace_reader_path(readers[0]), "out of memory");
  int result = 0;
  for (uint32_t i = 0; i < count && result == 0; i++) {
    files->at[i].recording = UINT32_MAX;
    read_rotation(&files->at[i], trace_reader_summary(readers[i])->info_json);
    result = place(files, i, trace_reader_path(readers[i]), error);
    if (result == 0)
      result = number_threads(files, readers, i, error);
  }
  return result;
}

void rotated_files_free(struct rotated_files *files) {
  for (uint32_t i = 0; files->at && i < files->count; i++)
    free(files->at[i].threads);
  free(files->at);
}

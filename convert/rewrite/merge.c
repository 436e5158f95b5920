/* SPDX-License-Identifier: MIT */
/* Which traces are files of one rotated recording (FORMAT.md section 5a), and which of their threads are identical, so
   that a merge can join them into one trace again.

   Invariant: a trace that is not such a file is a separate recording, all of whose threads are new. Memory is O(threads
   of all). Not thread-safe. */
#include "convert/copy/trace_copy.h"
#include "convert/history/trace_info.h"
#include "convert/rewrite/rewrite.h"
#include "core/base/json.h"
#include "core/base/vector.h"
#include "core/trace/read/trace_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rotated_file {
  uint32_t recording;   /* number of the recording, from 0, in the sequence of their first files */
  uint32_t first, last; /* traces: the recording's first and last */
  uint32_t *threads;    /* by its thread number: number among the threads of all traces */
  uint64_t set;         /* from here on: internal */
  uint32_t file;        /* number of the file; 0: not of a rotated recording */
};

struct rotated_files {
  struct rotated_file *at; /* by trace */
  uint32_t count, recordings;
  uint32_t threads; /* of all traces; one that continues in another file counts once */
};

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

/* Files of a recording must come in their sequence, without gaps. Returns 0, or -1 with error; free them either way. */
static int rotated_files_find(struct rotated_files *files, struct trace_reader *const *readers, uint32_t count,
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

static void rotated_files_free(struct rotated_files *files) {
  for (uint32_t i = 0; files->at && i < files->count; i++)
    free(files->at[i].threads);
  free(files->at);
}

enum { ADDRESS_BITS = 48 };

/* Clocks of day that agree with the counters within this limit are of one boot. They are not read at exactly the same
   moment, and NTP moves them. */
#define SAME_CLOCK_SECONDS 1.0

struct merge_clock {
  double hz, unix_ns; /* unix_ns 0: not known */
  uint64_t origin;
  bool counts_cycles;
  /* new stamp = to + (stamp - from) x scale */
  uint64_t from, to;
  double scale;
};

static struct merge_clock clock_of(const struct trace_reader *reader) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  struct trace_info info;
  trace_info_read(&info, summary->info_json);
  bool counts_cycles = strcmp(info.clock_kind, "tsc") == 0 || strcmp(info.clock_kind, "cntvct") == 0;
  const json_t *clock = json_object_get(info.json, "clock");
  struct merge_clock found = {.hz = summary->clock_hz,
                              .unix_ns = json_number_value(json_object_get(clock, "origin_unix_ns")),
                              .origin = summary->clock_origin_stamp,
                              .counts_cycles = counts_cycles};
  trace_info_free(&info);
  return found;
}

static void align(struct merge_clock *clock, const struct merge_clock *first) {
  double apart_ns = clock->unix_ns && first->unix_ns ? clock->unix_ns - first->unix_ns : 0;
  double counted_ns = ((double)clock->origin - (double)first->origin) / first->hz * 1e9;
  bool same_counter = clock->counts_cycles && first->counts_cycles && clock->unix_ns && first->unix_ns &&
                      fabs(clock->hz / first->hz - 1) < 1e-3 && fabs(apart_ns - counted_ns) < SAME_CLOCK_SECONDS * 1e9;
  clock->from = clock->origin;
  clock->unix_ns = first->unix_ns + apart_ns;
  clock->scale = same_counter || clock->hz == first->hz ? 1 : first->hz / clock->hz;
  clock->to = same_counter ? clock->origin : first->origin + (uint64_t)(int64_t)(apart_ns * first->hz / 1e9);
}

/* Time 0 is the earliest origin, and no stamp is below 1. */
static void shift_origins(struct merge_clock *clocks, uint32_t count, json_t *info) {
  const struct merge_clock *earliest = &clocks[0];
  for (uint32_t i = 1; i < count; i++)
    if ((int64_t)clocks[i].to < (int64_t)earliest->to)
      earliest = &clocks[i];
  uint64_t shift = (int64_t)earliest->to < 1 ? 1 - earliest->to : 0;
  for (uint32_t i = 0; i < count; i++)
    clocks[i].to += shift;
  json_t *clock = json_object_get(info, "clock");
  json_set_count(clock, "origin_stamp", earliest->to);
  if (earliest->unix_ns > 0)
    json_set_count(clock, "origin_unix_ns", earliest->unix_ns);
}

static uint64_t align_stamp(void *context, uint64_t stamp) {
  const struct merge_clock *clock = context;
  if (clock->scale == 1)
    return clock->to + (stamp - clock->from);
  return clock->to + (uint64_t)(int64_t)((double)(int64_t)(stamp - clock->from) * clock->scale);
}

/* Traces without times, or with more address bits than a process has, can't be merged. */
static int check_sources(struct trace_reader *const *readers, const struct rotated_files *files, struct error *error) {
  for (uint32_t i = 0; i < files->count; i++) {
    const struct trace_summary *summary = trace_reader_summary(readers[i]);
    if (summary->clock_hz <= 0 && files->recordings > 1)
      return error_set(error, trace_reader_path(readers[i]),
                       "has no times: its events can't be ordered among those of other traces");
  }
  if (files->threads > 1 << 24)
    return error_set(error, trace_reader_path(readers[0]), "too many threads for one trace");
  return 0;
}

/* All samples as changes: each process's memory counts until its next sample. */
struct sample_change {
  struct trace_sample sample; /* stamps on the first trace's clock */
  uint32_t source;
};

struct sample_list {
  VECTOR(struct sample_change) changes;
  struct merge_clock *clock;
  uint32_t source;
};

static int append_sample(struct sample_list *list, const struct trace_sample *sample) {
  struct sample_change *change = vector_add(&list->changes);
  if (!change)
    return 1;
  *change = (struct sample_change){*sample, list->source};
  return 0;
}

static int take_sample(void *context, const struct trace_sample *sample) {
  struct sample_list *list = context;
  struct trace_sample aligned = *sample;
  aligned.stamp = align_stamp(list->clock, sample->stamp);
  return append_sample(list, &aligned);
}

static int by_stamp(const void *left, const void *right) {
  const struct sample_change *a = left, *b = right;
  return COMPARE(a->sample.stamp, b->sample.stamp) ?: COMPARE(a->source, b->source);
}

enum { QUANTITIES = sizeof(struct trace_sample) / sizeof(uint64_t) };

/* An ended process has no memory; its totals and its high-water mark stay. */
static struct trace_sample ended_sample(const struct trace_sample *last, uint64_t stamp) {
  struct trace_sample sample = *last;
  sample.stamp = stamp;
  sample.rss_anon_bytes = sample.rss_file_bytes = sample.rss_shmem_bytes = sample.vm_size_bytes = 0;
  return sample;
}

/* Replaces a process's last sample in the sums by its new one. A quantity that one process lacks is missing in the
   sum. */
static void add_up(uint64_t *sum, const struct sample_change *change, struct trace_sample *last) {
  uint64_t now[QUANTITIES], before[QUANTITIES];
  memcpy(now, &change->sample, sizeof now);
  memcpy(before, last, sizeof before);
  for (int i = 1; i < QUANTITIES; i++)
    sum[i] = now[i] == TRACE_SAMPLE_MISSING || sum[i] == TRACE_SAMPLE_MISSING ? TRACE_SAMPLE_MISSING
                                                                              : sum[i] + now[i] - before[i];
  sum[0] = change->sample.stamp;
  *last = change->sample;
}

static int write_samples(struct sample_list *list, uint32_t sources, struct trace_writer *writer) {
  struct trace_sample *last = calloc(sources, sizeof *last);
  uint64_t sum[QUANTITIES] = {0};
  int result = last ? 0 : 1;
  vector_sort(&list->changes, by_stamp);
  for (size_t i = 0; i < list->changes.count && result == 0; i++) {
    struct trace_sample sample;
    add_up(sum, &list->changes.at[i], &last[list->changes.at[i].source]);
    memcpy(&sample, sum, sizeof sample);
    if (sources > 1)
      sample.vm_hwm_bytes = TRACE_SAMPLE_MISSING; /* the processes' maxima were at different times */
    result = trace_writer_sample(writer, &sample);
  }
  free(last);
  return result;
}

static int merge_samples(struct trace_reader *const *readers, struct merge_clock *clocks,
                         const struct rotated_files *files, struct trace_writer *writer, struct error *error) {
  struct sample_list list = {0};
  int result = 0;
  for (uint32_t i = 0; i < files->count && result == 0; i++) {
    size_t before = list.changes.count;
    list.clock = &clocks[i];
    list.source = files->at[i].recording;
    result = trace_reader_samples(readers[i], take_sample, &list, error);
    if (result == 0 && list.changes.count > before && files->recordings > 1 && files->at[i].last == i) {
      uint64_t end = align_stamp(&clocks[i], trace_reader_summary(readers[i])->last_stamp);
      const struct trace_sample *last = &list.changes.at[list.changes.count - 1].sample;
      struct trace_sample gone = ended_sample(last, (end > last->stamp ? end : last->stamp) + 1);
      result = append_sample(&list, &gone);
    }
  }
  if (result == 0)
    result = write_samples(&list, files->recordings, writer);
  free(list.changes.at);
  return result > 0 ? error_set(error, trace_reader_path(readers[0]), "out of memory") : result;
}

/* Adds what the trace lacks. A later file of a recording additionally lacks only its beginning, which the merged trace
   has. */
static void add_lacks(json_t *lacks, const json_t *source, bool continues) {
  const json_t *item;
  size_t k;
  json_array_foreach(json_object_get(source, "lacks"), k, item) {
    const char *word = json_string_value(item);
    if (word && !(continues && (strcmp(word, "start") == 0 || strcmp(word, "in_flight") == 0)))
      json_object_set_new(lacks, word, json_true());
  }
}

static json_t *about_process(const json_t *source, uint32_t threads) {
  static const char *const copied[] = {
      "program",  "pid",  "parent_pid", "allocator", "linked", "allocator_version", "allocator_build_id",
      "settings", "order"};
  json_t *about = json_object();
  for (size_t key = 0; key < sizeof copied / sizeof *copied; key++)
    if (json_object_get(source, copied[key]))
      json_object_set(about, copied[key], json_object_get(source, copied[key]));
  json_object_set_new(about, "threads", json_integer(threads));
  return about;
}

/* The number of threads, among those of all traces, of the recording that begins with trace first. */
static uint32_t threads_of(const struct rotated_files *files, struct trace_reader *const *readers, uint32_t first) {
  uint32_t threads = 0;
  for (uint32_t i = 0, next = 0; i < files->count; i++)
    for (uint32_t k = 0; k < trace_reader_summary(readers[i])->threads; k++)
      if (files->at[i].threads[k] == next) { /* numbers are assigned in this sequence: it is the first */
        next++;
        threads += files->at[i].first == first;
      }
  return threads;
}

/* INFO of the new trace: the values of the first trace, what any trace lacks, and, for several processes, their
   descriptions. */
static json_t *merged_info(struct trace_reader *const *readers, const struct rotated_files *files) {
  json_t *info = trace_out_source_info(trace_reader_summary(readers[0]));
  json_t *merged = json_array(), *lacks = json_object(), *names = json_array(), *item;
  const char *name;
  for (uint32_t i = 0; i < files->count; i++) {
    const struct trace_summary *summary = trace_reader_summary(readers[i]);
    json_t *source = trace_out_source_info(summary);
    bool continues = files->at[i].first < i;
    if (!continues)
      json_array_append_new(merged, about_process(source, threads_of(files, readers, i)));
    add_lacks(lacks, source, continues);
    if (summary->truncated)
      json_object_set_new(info, "truncated_source", json_true());
    json_decref(source);
  }
  json_object_foreach(lacks, name, item)
    json_array_append_new(names, json_string(name));
  json_decref(lacks);
  json_object_set_new(info, "lacks", names);
  static const char *const left_out[] = {"accesses", "rotation", "pid", "parent_pid"};
  for (size_t key = 0; key < sizeof left_out / sizeof *left_out - (files->recordings > 1 ? 0 : 2); key++)
    json_object_del(info, left_out[key]);
  if (files->recordings > 1)
    json_object_set(info, "merged", merged);
  json_decref(merged);
  return info;
}

static int merge_into(struct trace_out *out, struct trace_reader *const *readers, struct merge_clock *clocks,
                      const struct rotated_files *files, struct error *error) {
  for (uint32_t i = 0; i < files->count; i++) {
    struct trace_change change = {.stamp = align_stamp,
                                  .context = &clocks[i],
                                  .address_offset = (uint64_t)files->at[i].recording << ADDRESS_BITS,
                                  .address_limit = files->recordings > 1 ? 1ull << ADDRESS_BITS : 0,
                                  .threads = files->at[i].threads};
    if (trace_reader_summary(readers[i])->accesses.recorded)
      trace_out_drop_accesses(out);
    if (trace_copy_into(out, readers[i], &change, error) != 0)
      return -1;
  }
  return merge_samples(readers, clocks, files, trace_out_writer(out), error);
}

static int merge_found(struct trace_reader *const *readers, const struct rotated_files *files, const char *path,
                       const struct trace_options *options, struct error *error) {
  struct merge_clock *clocks = calloc(files->count, sizeof *clocks);
  if (!clocks)
    return error_set(error, path, "out of memory");
  for (uint32_t i = 0; i < files->count; i++) {
    clocks[i] = clock_of(readers[files->at[i].first]); /* files of one recording have one clock */
    if (files->recordings > 1)
      align(&clocks[i], &clocks[0]);
    else
      clocks[i].from = clocks[i].to = clocks[i].origin, clocks[i].scale = 1;
  }
  json_t *info = merged_info(readers, files);
  shift_origins(clocks, files->count, info);
  struct trace_out *out = trace_out_open(path, info, options, files->threads, error);
  json_decref(info);
  int result = out ? merge_into(out, readers, clocks, files, error) : -1;
  if (out)
    result = trace_out_close(out, trace_reader_summary(readers[files->at[0].last]), result != 0, error);
  free(clocks);
  return result;
}

int trace_merge(struct trace_reader *const *readers, uint32_t count, const char *path,
                const struct trace_options *options, struct error *error) {
  struct rotated_files files;
  int result = rotated_files_find(&files, readers, count, error);
  if (result == 0)
    result = check_sources(readers, &files, error);
  if (result == 0)
    result = merge_found(readers, &files, path, options, error);
  rotated_files_free(&files);
  return result;
}

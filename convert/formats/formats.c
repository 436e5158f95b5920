/* SPDX-License-Identifier: MIT */
#include "convert/formats/formats.h"

#include "convert/formats/reading.h"
#include "convert/history/trace_info.h"
#include "core/base/files.h"
#include "core/base/vector.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

REGISTER_FORMAT_AS(tape, .name = "tape", .description = "heaptape trace (core/trace/FORMAT.md)", .suffix = ".tape");
REGISTER_FORMAT_AS(work, .name = "work", .description = "heaptape workload (core/workload/WORKLOAD.md)",
                   .suffix = ".work");
REGISTER_FORMAT_AS(csv, .name = "csv", .description = "comma-separated values, as dump --format csv", .suffix = ".csv");
REGISTER_FORMAT_AS(jsonl, .name = "jsonl", .description = "one JSON object per line, as dump --format jsonl",
                   .suffix = ".jsonl");

const struct format *format_by_name(const char *name) {
  FOR_EACH_FORMAT(entry)
  if (strcmp((*entry)->name, name) == 0)
    return *entry;
  return NULL;
}

const struct format *format_by_suffix(const char *path) {
  FOR_EACH_FORMAT(entry) {
    size_t length = strlen(path), suffix = (*entry)->suffix ? strlen((*entry)->suffix) : 0;
    if (suffix && length > suffix && strcmp(path + length - suffix, (*entry)->suffix) == 0)
      return *entry;
  }
  return NULL;
}

/* If standard input can't be read twice, replaces it with an unlinked file of its content. */
static int spool_standard_input(struct error *error) {
  struct stat status;
  if (fstat(STDIN_FILENO, &status) != 0)
    return error_errno(error, "-", "can't read");
  if (S_ISREG(status.st_mode))
    return lseek(STDIN_FILENO, 0, SEEK_SET) == 0 ? 0 : error_errno(error, "-", "can't read");
  struct temporary_file copy;
  if (temporary_file_copy(&copy, STDIN_FILENO, "-", error) != 0)
    return -1;
  int result = dup2(copy.fd, STDIN_FILENO) < 0 ? error_errno(error, "-", "can't read") : 0;
  temporary_file_close(&copy);
  lseek(STDIN_FILENO, 0, SEEK_SET);
  return result;
}

/* The first line that a format recognises decides; no two recognise one line. Tools print greetings before their
 * records. */
enum { DETECTION_LINES = 200 };

static const struct format *by_lines(struct line_reader *lines) {
  const char *line;
  for (int i = 0; i < DETECTION_LINES && line_reader_next(lines, &line) > 0; i++)
    FOR_EACH_FORMAT(entry) {
      const struct import_format *import = (*entry)->import;
      if (import && import->recognises_line && import->recognises_line(line))
        return *entry;
    }
  return NULL;
}

static const struct format *by_bytes(const struct import_sample *start) {
  FOR_EACH_FORMAT(entry) {
    const struct import_format *import = (*entry)->import;
    if (import && import->recognises_bytes && import->recognises_bytes(start))
      return *entry;
  }
  return NULL;
}

/* Returns how many of the first bytes there are; -1 with error: the file can't be unpacked. */
static int64_t read_start(const char *path, unsigned char *bytes, size_t room, struct error *error) {
  struct byte_source *source;
  size_t count = 0;
  int64_t got = 1;
  if (byte_source_open(&source, path, error) != 0)
    return -1;
  while (count < room && (got = byte_source_read(source, bytes + count, room - count)) > 0)
    count += (size_t)got;
  byte_source_close(source);
  return count || got == 0 ? (int64_t)count : -1;
}

/* NULL without error: no format. */
static const struct format *detect_by_lines(const char *path, struct error *error) {
  struct line_reader *lines;
  if (line_reader_open(&lines, path, error) != 0)
    return NULL;
  const struct format *format = by_lines(lines);
  if (format || !line_reader_failed_to_read(lines))
    error->text[0] = '\0'; /* of a line that is no text; but that the rest can't be unpacked is the reason */
  line_reader_close(lines);
  return format;
}

static const struct format *detect_import(const char *path, uint64_t file_bytes, struct error *error) {
  unsigned char bytes[4096];
  struct error whole = {0}; /* where there are bytes, they are looked at first */
  int64_t count = read_start(path, bytes, sizeof bytes, &whole);
  if (count < 0) {
    *error = whole;
    return NULL;
  }
  size_t mark = count >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* of UTF-8 */
  const struct import_sample start = {bytes + mark, (size_t)count - mark, file_bytes};
  const struct format *format = by_bytes(&start);
  const char *unreadable = format ? NULL : unreadable_file(&start);
  if (unreadable)
    error_set(error, path, "%s", unreadable);
  else if (!format && !(format = detect_by_lines(path, error)) && !error->text[0])
    error_set(error, path, "not a heaptape trace or workload, nor any format that convert --list shows");
  return format;
}

const struct format *format_detect(const char *path, struct error *error) {
  bool standard_input = strcmp(path, "-") == 0;
  if (standard_input && spool_standard_input(error) != 0)
    return NULL;
  int fd = standard_input ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  char magic[8] = "";
  if (fd < 0 || fstat(fd, &status) != 0) {
    error_errno(error, path, "can't open");
    return NULL;
  }
  bool regular = S_ISREG(status.st_mode);
  ssize_t got = regular ? pread(fd, magic, sizeof magic, 0) : 0;
  close(fd);
  if (S_ISDIR(status.st_mode) && import_lttng_is_trace(path))
    return format_by_name("lttng");
  if (!regular) {
    error_set(error, path, "not a regular file");
    return NULL;
  }
  if (got == sizeof magic && memcmp(magic, "HEAPTAPE", sizeof magic) == 0)
    return format_by_name("tape");
  if (got == sizeof magic && memcmp(magic, "HEAPWORK", sizeof magic) == 0)
    return format_by_name("work");
  return detect_import(path, (uint64_t)status.st_size, error);
}

/* The object in a slot. */
struct object {
  uint64_t address, number, release_ns;
  uint32_t last_thread;
  bool split; /* its realloc was already written as a free */
};

struct run {
  struct export *export;
  VECTOR(struct object) objects; /* by slot */
  uint64_t numbers, os_page_bytes;
  uint32_t *moving; /* by thread: slot of the object between the steps of a realloc; SLOTS_NONE: none */
  uint32_t moving_count, threads;
  uint64_t last_ns; /* of the previous step, and its thread */
  uint32_t last_thread;
};

int export_write_failed(const struct export *export) {
  return error_errno(export->error, export->out_name, "can't write");
}

/* The time of a step, raised where the order was repaired, or where steps of two threads have the same time, so that a
   reader of the times finds the same order. */
static uint64_t order_ns(struct run *run, uint32_t thread, uint64_t stamp) {
  uint64_t ns = (uint64_t)trace_stamp_ns(trace_reader_summary(run->export->reader), stamp);
  uint64_t least = run->last_ns + (thread != run->last_thread);
  run->last_ns = ns < least ? least : ns;
  run->last_thread = thread;
  return run->last_ns;
}

static struct object *object_of(struct run *run, const struct slots *slots, uint32_t slot) {
  return vector_reach(&run->objects, slots->room - 1) ? &run->objects.at[slot] : NULL;
}

static enum export_kind kind_of(uint8_t call) {
  const struct call_info *info = &call_table[call & CALL_ID_MASK];
  if (!info->acquires)
    return EXPORT_FREE;
  if (info->released != NOTHING)
    return EXPORT_REALLOC;
  if (info->param == COUNT)
    return EXPORT_CALLOC;
  return info->param == ALIGN || (call & CALL_ID_MASK) == CALL_valloc || (call & CALL_ID_MASK) == CALL_pvalloc
             ? EXPORT_ALIGNED
             : EXPORT_MALLOC;
}

/* The fields of a call that do not depend on objects. */
static struct export_call call_of(const struct run *run, uint8_t id, uint32_t thread, uint64_t size_bytes,
                                  uint64_t param) {
  struct export_call call = {.kind = kind_of(id), .call = id, .thread = thread, .bytes = size_bytes};
  if (call_table[id & CALL_ID_MASK].param == COUNT) {
    call.size_bytes = size_bytes;
    call.count = param;
    if (__builtin_mul_overflow(size_bytes, param, &call.bytes))
      call.bytes = UINT64_MAX;
  }
  if (call.kind == EXPORT_ALIGNED)
    call.alignment = call_table[id & CALL_ID_MASK].param == ALIGN ? param : run->os_page_bytes;
  return call;
}

static int write_free(struct run *run, const struct object *object, uint32_t thread, uint64_t time_ns) {
  struct export_call call = call_of(run, CALL_free, thread, 0, 0);
  call.released = object->address;
  call.released_number = object->number;
  call.last_thread = object->last_thread;
  call.release_ns = call.acquire_ns = time_ns;
  return run->export->take(run->export, &call);
}

/* Writes the release of the realloc that the thread is in, now, as a free. */
static int split(struct run *run, uint32_t thread) {
  uint32_t slot = run->moving[thread];
  if (slot == SLOTS_NONE || run->objects.at[slot].split)
    return 0;
  run->objects.at[slot].split = true;
  run->export->lost.split_reallocs++;
  return write_free(run, &run->objects.at[slot], thread, run->objects.at[slot].release_ns);
}

/* An address is handed out. If it was the old address of a realloc under way, and the format has one line per realloc,
   which comes later, that realloc is split. */
static int split_overtaken(struct run *run, uint64_t address) {
  for (uint32_t thread = 0; thread < run->threads; thread++) {
    uint32_t slot = run->moving[thread];
    if (slot != SLOTS_NONE && run->objects.at[slot].address == address && split(run, thread) != 0)
      return -1;
  }
  return 0;
}

static int take_op(void *context, const struct history_op *op, struct slots *slots) {
  struct run *run = context;
  if (op->kind == HISTORY_TOUCH) {
    run->export->lost.usable_sizes++;
    return 0;
  }
  struct export_call call = call_of(run, op->call, op->thread, op->size_bytes, op->param);
  if (!op->event && split(run, op->thread) != 0) /* an implied free can't be inside its thread's realloc */
    return -1;
  call.release_ns = call.acquire_ns = order_ns(run, op->thread, op->stamp);
  if (op->kind == HISTORY_NOTHING)
    return run->export->take(run->export, &call);
  struct object *object = object_of(run, slots, op->slot);
  if (!object)
    return error_set(run->export->error, trace_reader_path(run->export->reader), "out of memory");
  if (op->kind == HISTORY_RELEASE) {
    int result = write_free(run, object, op->thread, call.release_ns);
    *object = (struct object){0};
    return result;
  }
  if (op->kind == HISTORY_MOVE) {
    run->moving[op->thread] = SLOTS_NONE;
    run->moving_count--;
  }
  if (run->moving_count && run->export->one_line_reallocs && split_overtaken(run, op->event->acquired) != 0)
    return -1;
  if (op->kind == HISTORY_MOVE && !object->split) {
    call.released = object->address;
    call.released_number = object->number;
    call.last_thread = object->last_thread;
    call.release_ns = object->release_ns;
  }
  *object = (struct object){.address = op->event->acquired, .number = ++run->numbers, .last_thread = op->thread};
  call.acquired = object->address;
  call.number = object->number;
  return run->export->take(run->export, &call);
}

static int take_left_out(void *context, const struct merge_step *step, uint32_t slot) {
  (void)slot;
  struct run *run = context;
  struct export *export = run->export;
  if (!(step->event->call & CALL_NULL_OUT))
    return 0;
  if ((step->traits & EVENT_TAKES) || !export->keeps_failures) {
    export->lost.failures++;
    return 0;
  }
  struct export_call call = call_of(run, step->event->call, step->thread, step->event->size_bytes, step->event->param);
  call.release_ns = call.acquire_ns = order_ns(run, step->thread, step->stamp);
  return export->take(export, &call);
}

static int move_begins(void *context, const struct merge_step *step, uint32_t slot) {
  struct run *run = context;
  run->objects.at[slot].release_ns = order_ns(run, step->thread, step->stamp);
  run->moving[step->thread] = slot;
  run->moving_count++;
  return 0;
}

static void end_thread(void *context, uint32_t thread) {
  struct run *run = context;
  if (run->export->thread_end)
    run->export->thread_end(run->export, thread);
}

int export_calls(struct export *export, struct witness *witness) {
  struct trace_info info;
  struct run run = {.export = export, .threads = trace_reader_summary(export->reader)->threads};
  const struct history_consumer consumer = {
      .context = &run, .op = take_op, .thread_end = end_thread, .left_out = take_left_out, .move_begins = move_begins};
  trace_info_read(&info, trace_reader_summary(export->reader)->info_json);
  run.os_page_bytes = info.os_page_bytes;
  trace_info_free(&info);
  run.moving = malloc((run.threads + 1) * sizeof *run.moving);
  if (!run.moving)
    return error_set(export->error, trace_reader_path(export->reader), "out of memory");
  memset(run.moving, 0xff, (run.threads + 1) * sizeof *run.moving); /* SLOTS_NONE */
  int result = history_run(export->reader, export->history, &consumer, witness, export->error);
  free(run.moving);
  free(run.objects.at);
  return result;
}

static void add_lost(struct text_line *report, uint64_t count, const char *what) {
  if (count)
    text_add(report, "%s%" PRIu64 " %s", report->used ? ", " : "", count, what);
}

int export_trace(const struct export_job *job, struct text_line *report, struct error *error) {
  struct export export = {
      .reader = job->reader, .out = job->out.file, .out_name = job->out.name, .history = job->history, .error = error};
  *report = (struct text_line){.used = 0};
  if (job->format->run(&export) != 0)
    return -1;
  if (fflush(export.out) != 0 || ferror(export.out))
    return export_write_failed(&export);
  add_lost(report, export.lost.usable_sizes, "calls of malloc_usable_size left out");
  add_lost(report, export.lost.failures, "failed calls left out");
  add_lost(report, export.lost.null_frees, "frees of NULL left out");
  add_lost(report, export.lost.split_reallocs, "reallocs written as free and malloc");
  return 0;
}

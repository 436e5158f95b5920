/* SPDX-License-Identifier: MIT */
#include "core/trace/write/trace_write.h"

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/os.h"
#include "core/trace/summary.h"
#include "core/trace/write/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

/* Chosen by measurement (make bench, bytes per event and collector ns): level 3 is within 5 % of level 9's size at a
   third of its time; a longer block shares more context, but takes more memory per thread and loses more in a crash. */
enum { DEFAULT_ZSTD_LEVEL = 3, DEFAULT_BLOCK_EVENTS = 1 << 16, MIN_BLOCK_EVENTS = 1 << 11 };

/* Events that all threads together may have pending: 2^21 x 72 bytes. With more threads, blocks are shorter. */
enum { PENDING_EVENTS_LIMIT = 1 << 21 };

/* Sets how many events a thread gathers before its block is written: fewer when many threads gather at once. */
static void set_block_limit(struct trace_writer *writer) {
  uint32_t share = PENDING_EVENTS_LIMIT / (writer->pending_threads ? writer->pending_threads : 1);
  if (share < MIN_BLOCK_EVENTS)
    share = MIN_BLOCK_EVENTS;
  writer->block_limit = share < writer->block_events ? share : writer->block_events;
}

/* The file is emptied only once it is locked, as another writer may have it open. Descriptors that are duplicates have
   one lock; a file system without locks has none. */
static int open_file(struct trace_writer *writer, const struct trace_writer_options *options) {
  struct stat status;
  int exclusive = options && options->is_new ? O_EXCL : 0;
  writer->fd = options && options->file ? fcntl(*options->file, F_DUPFD_CLOEXEC, 0)
                                        : output_open(writer->path, O_WRONLY | exclusive);
  if (writer->fd < 0 || fstat(writer->fd, &status) != 0)
    return writer_fail(writer, errno);
  if (!S_ISREG(status.st_mode))
    return 0;
  if (flock(writer->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return writer_fail(writer, EBUSY);
  return ftruncate(writer->fd, 0) == 0 ? 0 : writer_fail(writer, errno);
}

static int open_output(struct trace_writer *writer, const struct trace_writer_options *options) {
  if (open_file(writer, options) != 0)
    return -1;
  writer->block_events = options && options->block_events ? options->block_events : DEFAULT_BLOCK_EVENTS;
  if (writer->block_events > TRACE_MAX_ROWS)
    writer->block_events = TRACE_MAX_ROWS;
  set_block_limit(writer);
  writer->encoder = block_encoder_new(writer->block_events);
  writer->zstd = ZSTD_createCCtx();
  if (options && options->archive)
    writer->archive = archive_encoder_new(writer->block_events);
  if (!writer->encoder || !writer->zstd || (options && options->archive && !writer->archive))
    return writer_fail(writer, ENOMEM);
  int level = options && options->zstd_level ? options->zstd_level : DEFAULT_ZSTD_LEVEL;
  writer->zstd_level = level;
  ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_contentSizeFlag, 1);
  return 0;
}

void trace_writer_free(struct trace_writer *writer) {
  os_close(writer->fd);
  for (uint32_t i = 0; i < writer->threads.count; i++)
    free(writer->threads.at[i].events);
  free(writer->threads.at);
  block_encoder_free(writer->encoder);
  archive_encoder_free(writer->archive);
  access_encoder_free(writer->accesses);
  buffer_free(&writer->switch_column);
  ZSTD_freeCCtx(writer->zstd);
  buffer_free(&writer->compressed);
  buffer_free(&writer->index);
  buffer_free(&writer->touched[0]);
  buffer_free(&writer->touched[1]);
  buffer_free(&writer->touched[2]);
  annotations_free(writer);
  free(writer->path);
  free(writer);
}

int trace_writer_open(struct trace_writer **out, const char *path, const char *info_json,
                      const struct trace_writer_options *options, struct error *error) {
  *out = NULL;
  struct trace_writer *writer = calloc(1, sizeof *writer);
  if (!writer || !(writer->path = strdup(path))) {
    free(writer);
    return error_set(error, path, "out of memory");
  }
  writer->fd = -1;
  struct file_header header = {.version = TRACE_VERSION};
  memcpy(header.magic, TRACE_MAGIC, sizeof header.magic);
  header.crc32 = (uint32_t)crc32(0, (const Bytef *)&header, offsetof(struct file_header, crc32));
  struct block_header info = {.type = BLOCK_INFO, .flags = BLOCK_CRITICAL};
  if (open_output(writer, options) != 0 || writer_append(writer, &header, sizeof header) != 0 ||
      write_json_block(writer, info, info_json) != 0) {
    errno = writer->saved_errno;
    error_errno(error, path, "can't write");
    trace_writer_free(writer);
    return -1;
  }
  writer->totals.file_bytes = writer->offset;
  writer->totals.exit_status = -1;
  *out = writer;
  return 0;
}

static struct thread_state *thread_of(struct trace_writer *writer, uint32_t thread) {
  if (thread >= TRACE_MAX_THREADS || thread > writer->threads.count)
    return NULL;
  if (thread == writer->threads.count) {
    struct thread_state *added = vector_add(&writer->threads);
    if (!added)
      return NULL;
    *added = (struct thread_state){0};
    writer->totals.threads = (uint32_t)writer->threads.count;
  }
  return &writer->threads.at[thread];
}

static void lose(struct trace_writer *writer, const struct thread_state *state, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    writer->totals.calls[state->events[i].call & CALL_ID_MASK]--;
  writer->totals.events -= count;
  writer->totals.lost += count;
}

static int flush_thread(struct trace_writer *writer, uint32_t thread) {
  struct thread_state *state = &writer->threads.at[thread];
  if (state->count == 0)
    return 0;
  flush_annotations(writer); /* the stacks that these events name are written first */
  struct encoded_block *block = block_encode(writer->encoder, state->events, state->count, state->last_stamp);
  if (writer->archive)
    archive_encode(writer->archive, block, state->events, state->count);
  struct column columns[EVENT_COLUMNS];
  int count = 0;
  for (uint8_t id = 0; id < EVENT_COLUMNS; id++) {
    const struct buffer *bytes = &block->columns[id];
    if (bytes->failed)
      return writer_fail(writer, ENOMEM);
    columns[count] = column_of(id, bytes->bytes, bytes->used);
    if (id == COLUMN_RELEASE_ADDRESS || id == COLUMN_ACQUIRE_ADDRESS || id == COLUMN_PLACES)
      columns[count].entry.shift = block->address_shift;
    if ((id >= COLUMN_TOUCHED && id <= COLUMN_OTHER_STACK) || id == COLUMN_PARTS)
      columns[count].entry.flags = 0;
    count++;
  }
  struct block_header header = {.type = BLOCK_EVENTS,
                                .flags = BLOCK_CRITICAL,
                                .thread = thread,
                                .rows = state->count,
                                .steps = block->steps,
                                .first_stamp = state->last_stamp,
                                .last_stamp = block->last_stamp,
                                .sequence = state->sequence++};
  uint64_t index[3] = {writer->offset, header.first_stamp, (uint64_t)thread << 32 | header.rows};
  writer->totals.pending -= state->count;
  state->count = state->counted = 0;
  state->counted_bytes = 0;
  if (write_block(writer, &header, columns, count) != 0) {
    state->sequence--;
    lose(writer, state, header.rows);
    return -1;
  }
  writer->totals.clamped_stamps += block->clamped_stamps;
  state->last_stamp = block->last_stamp;
  state->written += header.rows;
  state->request_bytes += block->request_bytes;
  buffer_append(&writer->index, index, sizeof index);
  writer->totals.file_bytes = writer->offset;
  return 0;
}

static int grow_events(struct trace_writer *writer, struct thread_state *state) {
  uint32_t room = state->room ? 4 * state->room : 256;
  if (room > writer->block_events)
    room = writer->block_events;
  struct trace_event *events = realloc(state->events, (size_t)room * sizeof *events);
  if (!events)
    return writer_fail(writer, ENOMEM);
  writer->pending_threads += state->room == 0;
  set_block_limit(writer);
  state->events = events;
  state->room = room;
  return 0;
}

/* Precondition: the thread's memory has room for it. */
static inline void put(struct trace_writer *writer, struct thread_state *state, const struct trace_event *event) {
  state->events[state->count++] = *event;
  writer->totals.events++;
  writer->totals.pending++;
  writer->totals.calls[event->call & CALL_ID_MASK]++;
}

/* Takes an event that begins a block or needs memory for one, or rejects it. */
__attribute__((noinline)) static int put_with_room(struct trace_writer *writer, uint32_t thread,
                                                   const struct trace_event *event) {
  struct thread_state *state = thread < writer->threads.count ? &writer->threads.at[thread] : thread_of(writer, thread);
  if (!state || writer->saved_errno)
    return writer_fail(writer, ENOMEM);
  if (state->count >= writer->block_limit && flush_thread(writer, thread) != 0)
    return -1;
  if (state->count == state->room && grow_events(writer, state) != 0)
    return -1;
  if (state->count == 0 && state->last_stamp == 0)
    state->last_stamp = trace_event_first_stamp(event);
  put(writer, state, event);
  return 0;
}

/* Without put_with_room, so that most events need no register saved: 14 instructions of 53
   (1d332bbb^:capture/bench/drain_cost.c). */
int trace_writer_event(struct trace_writer *writer, uint32_t thread, const struct trace_event *event) {
  if (__builtin_expect(thread < writer->threads.count && !writer->saved_errno, 1)) {
    struct thread_state *state = &writer->threads.at[thread];
    if (__builtin_expect(state->count && state->count < writer->block_limit && state->count < state->room, 1)) {
      put(writer, state, event);
      return 0;
    }
  }
  return put_with_room(writer, thread, event);
}

struct trace_thread_counts trace_writer_thread_counts(struct trace_writer *writer, uint32_t thread) {
  if (thread >= writer->threads.count)
    return (struct trace_thread_counts){0, 0};
  struct thread_state *state = &writer->threads.at[thread];
  for (; state->counted < state->count; state->counted++)
    if (trace_event_acquires(&state->events[state->counted]))
      state->counted_bytes += trace_event_request_bytes(&state->events[state->counted]);
  return (struct trace_thread_counts){state->written + state->count, state->request_bytes + state->counted_bytes};
}

int trace_writer_flush_thread(struct trace_writer *writer, uint32_t thread) {
  if (thread >= writer->threads.count)
    return 0;
  int result = flush_thread(writer, thread);
  struct thread_state *state = &writer->threads.at[thread];
  writer->pending_threads -= state->room > 0;
  set_block_limit(writer);
  free(state->events);
  state->events = NULL;
  state->count = state->room = state->counted = 0;
  state->counted_bytes = 0;
  return result;
}

int trace_writer_gap(struct trace_writer *writer, uint32_t thread, uint64_t dropped, const char *why) {
  struct thread_state *state = thread_of(writer, thread);
  if (!state)
    return writer_fail(writer, ENOMEM);
  if (flush_thread(writer, thread) != 0)
    return -1;
  char *json = NULL;
  json_t *object = json_pack("{sIss}", "dropped", (json_int_t)dropped, "why", why);
  if (object)
    json = json_dumps(object, JSON_COMPACT);
  json_decref(object);
  if (!json)
    return writer_fail(writer, ENOMEM);
  struct block_header header = {.type = BLOCK_GAP,
                                .flags = BLOCK_CRITICAL,
                                .thread = thread,
                                .first_stamp = state->last_stamp,
                                .last_stamp = state->last_stamp,
                                .sequence = state->sequence++};
  int result = write_json_block(writer, header, json);
  free(json);
  writer->totals.dropped += dropped;
  writer->totals.file_bytes = writer->offset;
  return result;
}

struct trace_totals *trace_writer_totals(struct trace_writer *writer) {
  return &writer->totals;
}

static char *footer_json(const struct trace_writer *writer, const char *end, double clock_hz) {
  const struct trace_totals *totals = &writer->totals;
  json_t *footer =
      json_pack("{sI sI so sI sI sI sI ss}", "events", (json_int_t)totals->events, "dropped",
                (json_int_t)totals->dropped, "calls", call_counts_json(totals->calls), "threads",
                (json_int_t)totals->threads, "in_flight", (json_int_t)totals->in_flight, "nested",
                (json_int_t)totals->nested, "clamped_stamps", (json_int_t)totals->clamped_stamps, "end", end);
  if (footer && totals->final_known) {
    json_t *final = json_pack("{sI sI sI sI}", "minor_faults", (json_int_t)totals->final.minor_faults, "major_faults",
                              (json_int_t)totals->final.major_faults, "user_ns", (json_int_t)totals->final.user_ns,
                              "system_ns", (json_int_t)totals->final.system_ns);
    if (totals->final.peak_rss_bytes)
      json_set_count(final, "peak_rss_bytes", totals->final.peak_rss_bytes);
    if (totals->final.reading_ns)
      json_set_count(final, "reading_ns", totals->final.reading_ns);
    json_object_set_new(footer, "final", final);
  }
  if (footer && totals->exit_status >= 0)
    json_object_set_new(footer, WIFSIGNALED(totals->exit_status) ? "signal" : "exit_status",
                        json_integer(WIFSIGNALED(totals->exit_status) ? WTERMSIG(totals->exit_status)
                                                                      : WEXITSTATUS(totals->exit_status)));
  json_t *accesses = footer ? footer_accesses(writer) : NULL;
  if (accesses)
    json_object_set_new(footer, "accesses", accesses);
  if (footer && clock_hz > 0)
    json_object_set_new(footer, "clock_hz", json_real(clock_hz));
  if (footer && totals->note)
    json_object_set_new(footer, "note", json_string(totals->note));
  json_t *more = totals->more ? json_loads(totals->more, 0, NULL) : NULL;
  if (more)
    json_object_update_missing(footer, more);
  json_decref(more);
  char *text = footer ? json_dumps(footer, JSON_COMPACT) : NULL;
  json_decref(footer);
  return text;
}

static int write_footer(struct trace_writer *writer, const char *end, double clock_hz) {
  char *json = footer_json(writer, end, clock_hz);
  if (!json || writer->index.failed) {
    free(json);
    return writer_fail(writer, ENOMEM);
  }
  struct file_trailer trailer = {.footer_offset = writer->offset};
  memcpy(trailer.magic, TRACE_END_MAGIC, sizeof trailer.magic);
  struct block_header header = {.type = BLOCK_FOOTER, .flags = BLOCK_CRITICAL};
  struct column columns[2] = {column_of(1, json, strlen(json)), column_of(2, writer->index.bytes, writer->index.used)};
  columns[1].entry.flags = 0; /* a reader may ignore the index */
  /* An index that is larger than the format allows for one column is left out: readers then walk the headers, as ours
     always does. */
  int count = writer->index.used <= TRACE_MAX_OTHER_COLUMN_BYTES ? 2 : 1;
  int result = write_block(writer, &header, columns, count);
  free(json);
  return result != 0 ? -1 : writer_append(writer, &trailer, sizeof trailer);
}

int trace_writer_flush(struct trace_writer *writer) {
  for (uint32_t thread = 0; thread < writer->threads.count; thread++)
    if (trace_writer_flush_thread(writer, thread) != 0)
      return -1;
  flush_annotations(writer);
  if (flush_samples(writer) != 0 || flush_touched(writer) != 0)
    return -1;
  return flush_accesses(writer);
}

/* After a failed write: removes an incomplete block, and writes the file's end, which needs no more than the reserved
   room. The missing events may be of any thread; a separate gap for each thread might not fit. */
static void write_last_words(struct trace_writer *writer, double clock_hz) {
  int error = writer->saved_errno;
  for (uint32_t thread = 0; thread < writer->threads.count; thread++)
    lose(writer, &writer->threads.at[thread], writer->threads.at[thread].count);
  lose_accesses(writer);
  char why[128];
  snprintf(why, sizeof why, "events of all threads can't be written: %s", strerror(error));
  writer->saved_errno = 0;
  for (uint32_t thread = 0; thread < writer->threads.count; thread++)
    writer->threads.at[thread].count = writer->threads.at[thread].counted = 0;
  if (writer->index.used > RESERVE_BYTES / 2) /* readers do not need it */
    writer->index.used = 0;
  if (ftruncate(writer->fd, (off_t)writer->offset) == 0 && trace_writer_gap(writer, 0, writer->totals.lost, why) == 0)
    write_footer(writer, "stopped", clock_hz);
  writer->saved_errno = error;
}

int trace_writer_finish(struct trace_writer *writer, const char *end, double clock_hz, struct error *error) {
  for (uint32_t thread = 0; thread < writer->threads.count; thread++)
    flush_thread(writer, thread);
  flush_samples(writer);
  flush_touched(writer);
  flush_accesses(writer);
  flush_annotations(writer);
  writer->last_words = true;
  if (!writer->saved_errno)
    write_footer(writer, end, clock_hz);
  if (writer->saved_errno && writer->saved_errno != ENOMEM)
    write_last_words(writer, clock_hz);
  /* Gives back the reserved room; a device has none. */
  if (ftruncate(writer->fd, (off_t)writer->offset) != 0 && errno != EINVAL)
    writer_fail(writer, errno);
  if (close(writer->fd) != 0)
    writer_fail(writer, errno);
  writer->fd = -1;
  int result = 0;
  if (writer->saved_errno) {
    errno = writer->saved_errno;
    result = error_errno(error, writer->path, "can't write");
  }
  return result;
}

int trace_writer_close(struct trace_writer *writer, const char *end, double clock_hz, struct error *error) {
  int result = trace_writer_finish(writer, end, clock_hz, error);
  trace_writer_free(writer);
  return result;
}

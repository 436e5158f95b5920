/* SPDX-License-Identifier: MIT */
#include "core/workload/workload_write.h"

#include "core/base/files.h"
#include "core/base/os.h"
#include "core/base/vector.h"
#include "core/trace/event.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* An extent's bytes are reserved in the file when it begins: 512 at first, so that 100,000 short threads stay small,
   then twice the one before. The upper limit shrinks with the number of threads that hold a buffer, to keep all buffers
   together near 64 MiB. */
enum {
  FIRST_EXTENT_BYTES = 512,
  LAST_EXTENT_BYTES = 64 << 10,
  SMALLEST_CEILING_BYTES = 4 << 10,
  BUFFERS_BYTES = 64 << 20
};

struct stream {
  uint64_t *words;     /* the extent being filled; NULL: none */
  uint32_t used, room; /* words */
  uint64_t offset;     /* of the extent in the file */
  uint64_t ops;        /* completed */
  uint64_t marked;     /* position given by the last MARK */
  uint64_t time_ns;    /* given by the last TIME */
  uint32_t next_room;  /* words of the next extent */
  bool ended;          /* END is written */
};

struct workload_writer {
  char *path;
  int fd;
  int saved_errno;
  uint64_t offset; /* of the next extent */
  uint64_t words, position;
  VECTOR(struct stream) streams; /* of threads */
  uint32_t threads;              /* how many */
  uint32_t open_buffers;
  uint32_t last_thread; /* of the last op; its stream is not ended yet even if ending_last is set */
  uint64_t run;         /* ops in the schedule's present word, all of last_thread */
  uint32_t regions;     /* the highest number in an REGION word */
  bool ending_last;     /* end last_thread once the next op is known not to be a thread's first */
  struct stream schedule, time_line;
  struct buffer extents; /* struct workload_extent; streams numbered as below until the end */
};

/* In place of numbers that are known only at the end. */
#define STREAM_SCHEDULE (UINT32_MAX - 1)
#define STREAM_TIME_LINE UINT32_MAX

static int writer_fail(struct workload_writer *writer, int error) {
  if (!writer->saved_errno)
    writer->saved_errno = error ? error : EIO;
  return -1;
}

static int append(struct workload_writer *writer, const void *bytes, size_t count) {
  if (writer->saved_errno || os_pwrite_all(writer->fd, bytes, count, writer->offset) != 0)
    return writer_fail(writer, errno);
  writer->offset += (count + 7) & ~(uint64_t)7;
  return 0;
}

int workload_writer_open(struct workload_writer **out, const char *path, struct error *error) {
  *out = NULL;
  struct workload_writer *writer = calloc(1, sizeof *writer);
  if (!writer || !(writer->path = strdup(path))) {
    free(writer);
    return error_set(error, path, "out of memory");
  }
  struct stat status;
  writer->fd = output_open(path, O_RDWR);
  if (writer->fd < 0 || fstat(writer->fd, &status) != 0 || (S_ISREG(status.st_mode) && ftruncate(writer->fd, 0) != 0)) {
    error_errno(error, path, "can't create");
    workload_writer_abandon(writer);
    return -1;
  }
  writer->offset = WORKLOAD_HEADER_BYTES;
  *out = writer;
  return 0;
}

static void flush_stream(struct workload_writer *writer, struct stream *stream, uint32_t number) {
  if (stream->used == 0)
    return;
  struct workload_extent extent = {number, stream->used, stream->offset};
  if (!writer->saved_errno &&
      os_pwrite_all(writer->fd, stream->words, stream->used * sizeof *stream->words, stream->offset) != 0)
    writer_fail(writer, errno);
  buffer_append(&writer->extents, &extent, sizeof extent);
  if (writer->extents.failed)
    writer_fail(writer, ENOMEM);
  stream->used = 0;
}

static void drop_buffer(struct workload_writer *writer, struct stream *stream) {
  writer->open_buffers -= stream->words != NULL;
  free(stream->words);
  stream->words = NULL;
  stream->used = stream->room = 0;
}

static uint32_t extent_ceiling_bytes(const struct workload_writer *writer) {
  uint32_t share = BUFFERS_BYTES / (writer->open_buffers + 1);
  if (share > LAST_EXTENT_BYTES)
    return LAST_EXTENT_BYTES;
  return share < SMALLEST_CEILING_BYTES ? SMALLEST_CEILING_BYTES : share & ~(uint32_t)511;
}

static int begin_extent(struct workload_writer *writer, struct stream *stream, uint32_t number) {
  flush_stream(writer, stream, number);
  uint32_t ceiling = extent_ceiling_bytes(writer) / sizeof *stream->words;
  uint32_t room = stream->next_room ? stream->next_room : FIRST_EXTENT_BYTES / sizeof *stream->words;
  if (room > ceiling)
    room = ceiling;
  if (room != stream->room) {
    uint64_t *words = realloc(stream->words, room * sizeof *words);
    if (!words)
      return writer_fail(writer, ENOMEM);
    writer->open_buffers += stream->words == NULL;
    stream->words = words;
    stream->room = room;
  }
  stream->next_room = 2 * room;
  stream->offset = writer->offset;
  writer->offset += room * sizeof *stream->words;
  return 0;
}

/* Returns the word's offset in the file; 0 on failure. */
static inline uint64_t put(struct workload_writer *writer, struct stream *stream, uint32_t number, uint64_t word) {
  if (stream->used == stream->room && begin_extent(writer, stream, number) != 0)
    return 0;
  stream->words[stream->used] = word;
  return stream->offset + stream->used++ * sizeof word;
}

static inline uint64_t put_word(struct workload_writer *writer, uint32_t thread, uint64_t word) {
  writer->words++;
  return put(writer, &writer->streams.at[thread], thread, word);
}

static void put_end(struct workload_writer *writer, uint32_t thread) {
  struct stream *stream = &writer->streams.at[thread];
  if (stream->ended)
    return;
  put_word(writer, thread, WORD_END);
  flush_stream(writer, stream, thread);
  drop_buffer(writer, stream);
  stream->ended = true;
}

static void end_run(struct workload_writer *writer) {
  while (writer->run > 0) {
    uint32_t ops = writer->run > UINT32_MAX ? UINT32_MAX : (uint32_t)writer->run;
    put(writer, &writer->schedule, STREAM_SCHEDULE, writer->last_thread | (uint64_t)ops << 32);
    writer->run -= ops;
  }
}

static int add_thread(struct workload_writer *writer) {
  if (writer->threads == WORKLOAD_MAX_THREADS)
    return writer_fail(writer, EOVERFLOW);
  struct stream *added = vector_add(&writer->streams);
  if (!added)
    return writer_fail(writer, ENOMEM);
  *added = (struct stream){0};
  uint32_t thread = writer->threads++;
  if (thread > 0)
    put_word(writer, writer->last_thread, word_make(WORD_START, thread));
  return 0;
}

static int change_thread(struct workload_writer *writer, uint32_t thread) {
  if (thread > writer->threads)
    return writer_fail(writer, EINVAL);
  if (thread == writer->threads && add_thread(writer) != 0)
    return -1;
  end_run(writer);
  if (writer->ending_last && writer->last_thread != thread)
    put_end(writer, writer->last_thread);
  writer->ending_last = false;
  writer->last_thread = thread;
  return 0;
}

static __attribute__((noinline)) int begin_op_slowly(struct workload_writer *writer, uint32_t thread) {
  if (writer->saved_errno)
    return -1;
  if ((writer->last_thread != thread || writer->threads == 0) && change_thread(writer, thread) != 0)
    return -1;
  struct stream *stream = &writer->streams.at[thread];
  if (stream->ops == 0 || writer->position - stream->marked >= WORKLOAD_MARK_INTERVAL) {
    stream->marked = writer->position;
    put_word(writer, thread, word_make(WORD_MARK, writer->position));
  }
  return 0;
}

/* No word is due where the last op was the same thread's and no MARK's interval is over. */
static inline bool begins_plainly(const struct workload_writer *writer, uint32_t thread) {
  return writer->run && writer->last_thread == thread && !writer->saved_errno &&
         writer->position - writer->streams.at[thread].marked < WORKLOAD_MARK_INTERVAL;
}

int workload_begin_op(struct workload_writer *writer, uint32_t thread) {
  return begins_plainly(writer, thread) ? 0 : begin_op_slowly(writer, thread);
}

void workload_put_wait(struct workload_writer *writer, uint32_t thread, uint32_t awaited_thread, uint64_t ops) {
  put_word(writer, thread, word_wait(awaited_thread, ops));
}

uint64_t workload_put_time(struct workload_writer *writer, uint32_t thread, uint64_t time_ns) {
  const uint64_t most_ns = UINT64_MAX >> 8;
  struct stream *stream = &writer->streams.at[thread];
  if (time_ns > most_ns)
    time_ns = most_ns;
  if (time_ns >= stream->time_ns + WORKLOAD_TIME_INTERVAL_NS) {
    stream->time_ns = time_ns;
    put_word(writer, thread, word_make(WORD_TIME, time_ns));
  }
  return stream->time_ns + WORKLOAD_TIME_INTERVAL_NS;
}

uint64_t workload_put_touched(struct workload_writer *writer, uint32_t thread) {
  return put_word(writer, thread, word_make(WORD_TOUCHED, 0));
}

/* Writes the words before the op's own that most ops do not need. */
static __attribute__((noinline)) void put_op_prefix(struct workload_writer *writer, uint32_t thread,
                                                    const struct workload_op *op) {
  if (op->region) {
    put_word(writer, thread, word_make(WORD_REGION, op->region));
    writer->regions = op->region > writer->regions ? op->region : writer->regions;
  }
  if (op->size_bytes >> 24)
    put_word(writer, thread, word_make(WORD_SIZE_HIGH, op->size_bytes >> 24));
  if ((call_traits[op->call] & CALL_HAS_PARAM) && op->param != 1)
    put_word(writer, thread, word_make(WORD_PARAM, op->param));
}

static inline uint64_t count_op(struct workload_writer *writer, struct stream *stream) {
  writer->position++;
  writer->run++;
  return ++stream->ops;
}

uint64_t workload_put_plain_op(struct workload_writer *writer, uint32_t thread, uint64_t word) {
  if (!begins_plainly(writer, thread))
    return 0;
  struct stream *stream = &writer->streams.at[thread];
  if (stream->used == stream->room)
    return 0;
  stream->words[stream->used++] = word;
  writer->words++;
  return count_op(writer, stream);
}

uint64_t workload_put_op(struct workload_writer *writer, uint32_t thread, const struct workload_op *op) {
  if (op->region | op->size_bytes >> 24 | (call_traits[op->call] & CALL_HAS_PARAM))
    put_op_prefix(writer, thread, op);
  put_word(writer, thread, word_op(op->call, op->size_bytes, op->slot));
  return count_op(writer, &writer->streams.at[thread]);
}

void workload_patch_touched(struct workload_writer *writer, uint32_t thread, uint64_t offset, uint64_t payload) {
  const struct stream *stream = &writer->streams.at[thread];
  uint64_t word = word_make(WORD_TOUCHED, payload);
  if (offset == 0 || writer->saved_errno)
    return;
  if (stream->words && offset >= stream->offset && offset < stream->offset + stream->used * sizeof word)
    stream->words[(offset - stream->offset) / sizeof word] = word;
  else if (os_pwrite_all(writer->fd, &word, sizeof word, offset) != 0)
    writer_fail(writer, errno);
}

void workload_end_thread(struct workload_writer *writer, uint32_t thread) {
  if (thread >= writer->threads)
    return;
  /* The next op may be a new thread's first; its START would then belong in this stream. */
  if (thread == writer->last_thread)
    writer->ending_last = true;
  else
    put_end(writer, thread);
}

uint64_t workload_position(const struct workload_writer *writer) {
  return writer->position;
}

uint64_t workload_thread_ops(const struct workload_writer *writer, uint32_t thread) {
  return thread < writer->threads ? writer->streams.at[thread].ops : 0;
}

static void put_time_line(struct workload_writer *writer, const struct workload_time_point *points, size_t count) {
  for (size_t i = 0; i < count; i++) {
    put(writer, &writer->time_line, STREAM_TIME_LINE, points[i].position);
    put(writer, &writer->time_line, STREAM_TIME_LINE, points[i].time_ns);
    put(writer, &writer->time_line, STREAM_TIME_LINE, points[i].live_bytes);
    put(writer, &writer->time_line, STREAM_TIME_LINE, points[i].live_objects);
  }
  flush_stream(writer, &writer->time_line, STREAM_TIME_LINE);
}

static int compare_extents(const void *left, const void *right) {
  const struct workload_extent *a = left, *b = right;
  return COMPARE(a->stream, b->stream) ?: COMPARE(a->offset, b->offset);
}

static uint64_t append_extents(struct workload_writer *writer, uint64_t *count) {
  struct workload_extent *extents = (struct workload_extent *)writer->extents.bytes;
  *count = writer->extents.used / sizeof *extents;
  for (size_t i = 0; i < *count; i++)
    if (extents[i].stream >= STREAM_SCHEDULE)
      extents[i].stream = writer->threads + (extents[i].stream - STREAM_SCHEDULE);
  /* Extents of a stream were begun at rising offsets, so the offset is the order. */
  if (*count > 0)
    qsort(extents, *count, sizeof *extents, compare_extents);
  uint64_t offset = writer->offset;
  append(writer, extents, writer->extents.used);
  return offset;
}

static uint64_t append_op_counts(struct workload_writer *writer) {
  uint64_t offset = writer->offset;
  struct buffer counts = {0};
  for (uint32_t thread = 0; thread < writer->threads; thread++)
    buffer_append_u64(&counts, writer->streams.at[thread].ops);
  if (counts.failed)
    writer_fail(writer, ENOMEM);
  else
    append(writer, counts.bytes, counts.used);
  buffer_free(&counts);
  return offset;
}

static void write_tables(struct workload_writer *writer, const struct workload_totals *totals, const char *info_json) {
  struct workload_header header = {
      .magic = {0}, .version = WORKLOAD_VERSION, .header_bytes = WORKLOAD_HEADER_BYTES, .regions = writer->regions};
  memcpy(header.magic, WORKLOAD_MAGIC, sizeof header.magic);
  header.op_counts_offset = append_op_counts(writer);
  header.info_offset = writer->offset;
  header.info_bytes = strlen(info_json);
  append(writer, info_json, header.info_bytes);
  header.extents_offset = append_extents(writer, &header.extents);
  header.file_bytes = writer->offset;
  header.ops = writer->position;
  header.words = writer->words;
  header.threads = writer->threads;
  header.slots = totals->slots;
  header.peak_live_bytes = totals->peak_live_bytes;
  header.peak_live_os_page_bytes = totals->peak_live_os_page_bytes;
  header.peak_live_objects = totals->peak_live_objects;
  header.live_at_end = totals->live_at_end;
  header.peak_position = totals->peak_position;
  header.crc32 = (uint32_t)crc32(0, (const Bytef *)&header, offsetof(struct workload_header, crc32));
  if (writer->saved_errno)
    return;
  if (ftruncate(writer->fd, (off_t)header.file_bytes) != 0 || os_pwrite_all(writer->fd, &header, sizeof header, 0) != 0)
    writer_fail(writer, errno);
}

int workload_writer_close(struct workload_writer *writer, const struct workload_totals *totals,
                          struct workload_time_points line, const char *info_json, struct error *error) {
  for (uint32_t thread = 0; thread < writer->threads; thread++)
    put_end(writer, thread);
  end_run(writer);
  flush_stream(writer, &writer->schedule, STREAM_SCHEDULE);
  put_time_line(writer, line.at, line.count);
  write_tables(writer, totals, info_json);
  if (close(writer->fd) != 0)
    writer_fail(writer, errno);
  writer->fd = -1;
  workload_writer_fail_reason(writer, error);
  int result = writer->saved_errno ? -1 : 0;
  workload_writer_abandon(writer);
  return result;
}

void workload_writer_fail_reason(const struct workload_writer *writer, struct error *error) {
  if (writer->saved_errno) {
    errno = writer->saved_errno;
    error_errno(error, writer->path, "can't write");
  }
}

void workload_writer_abandon(struct workload_writer *writer) {
  if (!writer)
    return;
  os_close(writer->fd);
  for (uint32_t thread = 0; thread < writer->threads; thread++)
    free(writer->streams.at[thread].words);
  free(writer->streams.at);
  free(writer->schedule.words);
  free(writer->time_line.words);
  buffer_free(&writer->extents);
  free(writer->path);
  free(writer);
}

/* SPDX-License-Identifier: MIT */
/* workload_read returns what workload_write wrote, word for word, across extents of all sizes, with a patched TOUCHED
   word in a flushed extent and one in a pending extent. Also the example of how to generate a workload for a test. */
#include "core/test/check.h"
#include "core/trace/event.h"
#include "core/workload/workload_read.h"
#include "core/workload/workload_write.h"

enum { OPS = 100000, THREADS = 3 };

/* Thread of the op at a position: a thread has uneven numbers of ops in a row. */
static uint32_t thread_at(uint64_t position) {
  return (uint32_t)(position < 2 ? position : position / 7 % THREADS);
}

static int generate(const char *path, struct error *error) {
  struct workload_writer *writer;
  uint64_t early = 0, late = 0;
  if (workload_writer_open(&writer, path, error) != 0)
    return 1;
  for (uint64_t position = 0; position < OPS; position++) {
    uint32_t thread = thread_at(position);
    CHECK(workload_begin_op(writer, thread) == 0);
    if (position == 0)
      early = workload_put_touched(writer, thread);
    if (position == OPS - 1)
      late = workload_put_touched(writer, thread);
    workload_put_op(
        writer, thread,
        &(struct workload_op){.call = CALL_malloc, .slot = (uint32_t)position, .size_bytes = position << 20});
  }
  workload_patch_touched(writer, thread_at(0), early, 17);
  workload_patch_touched(writer, thread_at(OPS - 1), late, 18);
  struct workload_time_point points[2] = {{0, 0, 0, 0}, {OPS, 5, 6, OPS}};
  struct workload_totals totals = {.slots = OPS};
  return workload_writer_close(writer, &totals, (struct workload_time_points){points, 2}, "{\"name\": \"generated\"}",
                               error);
}

/* Checks that the ops of one thread are those that thread_at assigned to it, with their sizes; counts MARK, START and
   TOUCHED words. */
static int read_thread(const struct workload *workload, uint32_t thread, uint64_t *ops, uint64_t *touched) {
  struct workload_stream stream;
  uint64_t word, position = 0, size_high = 0, marked = 0;
  while (thread_at(position) != thread)
    position++;
  const uint64_t before = *ops;
  bool ended = false, started = false;
  workload_stream_open(&stream, workload, thread);
  while (workload_stream_next(&stream, &word)) {
    CHECK(!ended);
    switch (word_code(word)) {
    case WORD_MARK:
      CHECK(word_payload(word) == position); /* that of the op which follows */
      CHECK(*ops == before || position - marked >= WORKLOAD_MARK_INTERVAL);
      marked = position;
      break;
    case WORD_START:
      CHECK(word_wait_thread(word) == thread + 1 && !started);
      started = true;
      break;
    case WORD_TOUCHED:
      *touched += word_payload(word);
      break;
    case WORD_SIZE_HIGH:
      size_high = word_payload(word);
      break;
    case WORD_END:
      ended = true;
      break;
    default:
      CHECK(word_code(word) == CALL_malloc);
      CHECK(marked + WORKLOAD_MARK_INTERVAL > position);
      CHECK(word_slot(word) == position);
      CHECK((size_high << 24 | word_size_low(word)) == position << 20);
      size_high = 0;
      ++*ops;
      for (position++; position < OPS && thread_at(position) != thread;)
        position++;
    }
  }
  CHECK(ended && started == (thread + 1 < THREADS));
  CHECK(stream.at == stream.end);
  return 0;
}

int main(void) {
  char path[] = "generated-XXXXXX.work";
  struct error error = {0};
  struct workload workload;
  int fd = mkstemps(path, 5);
  CHECK(fd >= 0);
  close(fd);
  if (generate(path, &error) != 0 || workload_open(&workload, path, &error) != 0) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  unlink(path);
  CHECK(workload.header.ops == OPS && workload.header.threads == THREADS);
  static const char INFO[] = "{\"name\": \"generated\"}";
  size_t info_bytes;
  const char *info = workload_info(&workload, &info_bytes);
  CHECK(info_bytes == sizeof INFO - 1 && memcmp(info, INFO, info_bytes) == 0);
  uint64_t ops = 0, touched = 0, scheduled = 0, word;
  for (uint32_t thread = 0; thread < THREADS; thread++) {
    uint64_t before = ops;
    CHECK(read_thread(&workload, thread, &ops, &touched) == 0);
    CHECK(workload.op_counts[thread] == ops - before);
  }
  CHECK(ops == OPS && touched == 17 + 18);
  struct workload_stream schedule;
  workload_stream_open(&schedule, &workload, THREADS);
  while (workload_stream_next(&schedule, &word)) {
    for (uint64_t i = 0; i < word >> 32; i++)
      CHECK(thread_at(scheduled++) == (uint32_t)word);
  }
  CHECK(scheduled == OPS);
  workload_close(&workload);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* Buffers that grow by realloc, many at a time, until each has its final size; then it is freed and a new one begins.
   In between small objects come and go, so that the memory behind a buffer is not always free. Shows whether an
   allocator grows in place, how it copies, and how it uses the holes that remain.

   Our own shape, for vectors, output buffers and parsers that double (--growth=200) or grow by half (the default), or
   by a constant (--step). */
#include "workloads/synthetic/pattern.h"

static uint64_t rounds = 200, buffers = 16, first_bytes = 64, last_bytes = 256 << 10, growth_percent = 150,
                step_bytes = 0, small_objects = 100;

struct buffer {
  object_ref object;
  uint64_t size_bytes, end_bytes;
};

static uint64_t grown(uint64_t size_bytes) {
  uint64_t next = step_bytes ? size_bytes + step_bytes : size_bytes * growth_percent / 100;
  return next > size_bytes ? next : size_bytes + 1;
}

static void begin(struct actor *actor, struct rng *rng, struct buffer *buffer) {
  buffer->size_bytes = first_bytes;
  buffer->end_bytes = rng_log_between(rng, first_bytes, last_bytes);
  buffer->object = do_malloc(actor, first_bytes);
}

/* Grows a random buffer once; returns true where it was complete and begins again. */
static bool grow_one(struct actor *actor, struct rng *rng, struct buffer *buffer) {
  if (buffer->size_bytes < buffer->end_bytes) {
    buffer->size_bytes = grown(buffer->size_bytes);
    buffer->object = do_realloc(actor, buffer->object, buffer->size_bytes);
    return false;
  }
  do_free(actor, buffer->object);
  begin(actor, rng, buffer);
  return true;
}

static void run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  struct buffer *buffer = pattern_array(buffers, sizeof *buffer);
  object_ref *small = pattern_array(small_objects + 1, sizeof *small);
  for (uint64_t i = 0; i < buffers; i++)
    begin(actor, &rng, &buffer[i]);
  for (uint64_t done = 0; done < rounds * buffers;) {
    done += grow_one(actor, &rng, &buffer[rng_below(&rng, buffers)]);
    object_ref *place = &small[rng_below(&rng, small_objects + 1)];
    if (*place)
      do_free(actor, *place);
    *place = do_malloc(actor, rng_between(&rng, 16, 256));
  }
  for (uint64_t i = 0; i < buffers; i++)
    do_free(actor, buffer[i].object);
  for (uint64_t i = 0; i <= small_objects; i++)
    if (small[i])
      do_free(actor, small[i]);
}

static const char *wrong(void) {
  return first_bytes > last_bytes ? "first must not be above last" : NULL;
}

static const struct option_number options[] = {
    {"rounds", &rounds, 0, UINT32_MAX, "buffers of each place, one after the other"},
    {"buffers", &buffers, 1, 1 << 20, "that grow at a time"},
    {"first", &first_bytes, 1, 1ull << 38, "size of a new buffer in bytes"},
    {"last", &last_bytes, 1, 1ull << 38, "size at which the largest buffers end, in bytes"},
    {"growth", &growth_percent, 101, 10000, "percent of the previous size"},
    {"step", &step_bytes, 0, 1ull << 38, "grow by this many bytes instead; 0: by percent"},
    {"small", &small_objects, 0, 1 << 20, "small objects that live beside them"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "buffers that grow by realloc", .options = options, .wrong = wrong, .run = run};

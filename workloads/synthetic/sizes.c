/* SPDX-License-Identifier: MIT */
/* One thread: sizes and alignments that are hard on an allocator. */
#include "workloads/synthetic/pattern.h"

/* Options; each pattern sets those that it has. */
static uint64_t rounds, slots, alignment_bits, highest_bytes, plain_percent, lowest_bytes, resized_percent, fill,
    buffers, first_bytes, last_bytes, growth_percent, step_bytes, small_objects, phases, objects, keep_every,
    base_bytes;

/* Aligned requests of all kinds: posix_memalign, memalign and aligned_alloc with alignments from 16 bytes to several OS
   pages, valloc and pvalloc, among small plain objects that fill the gaps. Allocators that split off the bytes before
   an aligned object leave remainders; those that round up waste memory.

   Our own shape, for vector code, direct I/O and hardware buffers. */

static object_ref allocate(struct actor *actor, struct rng *rng) {
  size_t size_bytes = rng_log_between(rng, 16, highest_bytes);
  size_t alignment = (size_t)1 << rng_between(rng, 4, alignment_bits);
  if (rng_below(rng, 100) < plain_percent)
    return do_malloc(actor, rng_between(rng, 1, 256));
  switch (rng_below(rng, 8)) {
  case 0:
    return do_os_page_aligned(actor, CALL_valloc, size_bytes);
  case 1:
    return do_os_page_aligned(actor, CALL_pvalloc, size_bytes);
  case 2:
  case 3:
    return do_aligned(actor, CALL_aligned_alloc, alignment, (size_bytes + alignment - 1) & -alignment);
  case 4:
  case 5:
    return do_aligned(actor, CALL_memalign, alignment, size_bytes);
  default:
    return do_aligned(actor, CALL_posix_memalign, alignment, size_bytes);
  }
}

static void alignment_storm_run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  object_ref *table = pattern_array(slots, sizeof *table);
  for (uint64_t i = 0; i < rounds; i++) {
    object_ref *place = &table[rng_below(&rng, slots)];
    if (*place)
      do_free(actor, *place);
    *place = allocate(actor, &rng);
  }
  free_all(actor, table, slots);
}

static const struct option_number alignment_storm_options[] = {
    {"rounds", &rounds, 100000, 0, UINT64_MAX, "objects allocated"},
    {"slots", &slots, 1000, 1, 1ull << 32, "live objects"},
    {"alignment-bits", &alignment_bits, 15, 4, 30, "alignments up to 2^(this) bytes"},
    {"highest", &highest_bytes, 8192, 16, 1ull << 40, "largest aligned request in bytes"},
    {"plain", &plain_percent, 25, 0, 100, "percent of the objects that are small and not aligned"},
    {0},
};

const struct pattern pattern_alignment_storm = {"alignment_storm", "aligned requests of all kinds and sizes",
                                                alignment_storm_options, alignment_storm_run};

/* Huge objects: a few buffers from a megabyte to many, replaced one by one, resized now and then. Where an allocator
   maps each separately, system calls, page faults and how soon memory is given back matter. --fill=1 writes to every OS
   page of each, as programs that need such buffers do.

   Our own shape, for image and video work, numerical arrays, and parsers that read files whole. */

static void huge_objects_run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  object_ref *table = pattern_array(slots, sizeof *table);
  actor->fills = fill;
  for (uint64_t i = 0; i < rounds; i++) {
    object_ref *place = &table[rng_below(&rng, slots)];
    size_t size_bytes = rng_log_between(&rng, lowest_bytes, highest_bytes);
    if (*place && rng_below(&rng, 100) < resized_percent) {
      *place = do_realloc(actor, *place, size_bytes);
      continue;
    }
    if (*place)
      do_free(actor, *place);
    *place = do_malloc(actor, size_bytes);
  }
  free_all(actor, table, slots);
}

static const struct option_number huge_objects_options[] = {
    {"rounds", &rounds, 500, 0, UINT64_MAX, "objects replaced or resized"},
    {"slots", &slots, 8, 1, 1 << 20, "objects at a time"},
    {"lowest", &lowest_bytes, 1 << 20, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 16 << 20, 1, 1ull << 40, "largest request in bytes"},
    {"resized", &resized_percent, 20, 0, 100, "percent of the rounds that resize instead"},
    {"fill", &fill, 0, 0, 1, "1: write to every OS page, not to the ends only"},
    {0},
};

const struct pattern pattern_huge_objects = {"huge_objects", "a few huge objects, replaced and resized",
                                             huge_objects_options, huge_objects_run};

/* Buffers that grow by realloc, many at a time, until each has its final size; then it is freed and a new one begins.
   In between small objects come and go, so that the memory behind a buffer is not always free. Shows whether an
   allocator grows in place, how it copies, and how it uses the holes that remain.

   Our own shape, for vectors, output buffers and parsers that double (--growth=200) or grow by half (the default), or
   by a constant (--step). */

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

static void growing_reallocs_run(struct actor *actor) {
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
  free_all(actor, small, small_objects + 1);
}

static const struct option_number growing_reallocs_options[] = {
    {"rounds", &rounds, 200, 0, UINT32_MAX, "buffers of each place, one after the other"},
    {"buffers", &buffers, 16, 1, 1 << 20, "that grow at a time"},
    {"first", &first_bytes, 64, 1, 1ull << 38, "size of a new buffer in bytes"},
    {"last", &last_bytes, 256 << 10, 1, 1ull << 38, "size at which the largest buffers end, in bytes"},
    {"growth", &growth_percent, 150, 101, 10000, "percent of the previous size"},
    {"step", &step_bytes, 0, 0, 1ull << 38, "grow by this many bytes instead; 0: by percent"},
    {"small", &small_objects, 100, 0, 1 << 20, "small objects that live beside them"},
    {0},
};

const struct pattern pattern_growing_reallocs = {"growing_reallocs", "buffers that grow by realloc",
                                                 growing_reallocs_options, growing_reallocs_run};

/* A program in phases: each fills the heap with objects of its own size range, then frees all but every n-th, in random
   order; those stay and pin the memory around them. The next phase's sizes do not fit the holes well. Shows
   fragmentation, and how much memory an allocator gives back. One thread.

   Shape after the worst cases of Robson (1971, 1977), as measured in programs by Johnstone and Wilson ("The memory
   fragmentation problem: solved?", ISMM 1998): survivors of one phase are among the holes of the next. */

static void shuffle(struct rng *rng, object_ref *table) {
  for (uint64_t i = objects - 1; i > 0; i--) {
    uint64_t other = rng_below(rng, i + 1);
    object_ref swapped = table[i];
    table[i] = table[other];
    table[other] = swapped;
  }
}

static void phases_run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  uint64_t survivors = 0, size_bytes = base_bytes;
  object_ref *table = pattern_array(objects, sizeof *table);
  object_ref *survivor = pattern_array(phases * (objects / keep_every + 1), sizeof *survivor);
  for (uint64_t phase = 0; phase < phases; phase++, size_bytes += size_bytes / 2) {
    for (uint64_t i = 0; i < objects; i++)
      table[i] = do_malloc(actor, rng_between(&rng, size_bytes, 2 * size_bytes));
    shuffle(&rng, table);
    for (uint64_t i = 0; i < objects; i++) {
      if (i % keep_every == 0)
        survivor[survivors++] = table[i];
      else
        do_free(actor, table[i]);
    }
  }
  free_all(actor, survivor, survivors);
}

static const struct option_number phases_options[] = {
    {"phases", &phases, 8, 1, 64, "each with sizes half as large again as the previous one"},
    {"objects", &objects, 20000, 1, 1ull << 32, "of a phase"},
    {"keep-every", &keep_every, 50, 1, 1ull << 32, "one object in this many outlives its phase"},
    {"base", &base_bytes, 24, 1, 1ull << 20, "sizes of the first phase, in bytes"},
    {0},
};

const struct pattern pattern_phases = {"phases", "phases of different sizes that leave survivors behind",
                                       phases_options, phases_run};

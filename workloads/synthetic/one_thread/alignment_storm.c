/* SPDX-License-Identifier: MIT */
/* Aligned requests of all kinds: posix_memalign, memalign and aligned_alloc with alignments from 16 bytes to several OS
   pages, valloc and pvalloc, among small plain objects that fill the gaps. Allocators that split off the bytes before
   an aligned object leave remainders; those that round up waste memory.

   Our own shape, for vector code, direct I/O and hardware buffers. */
#include "workloads/synthetic/pattern.h"

static uint64_t rounds = 100000, slots = 1000, alignment_bits = 15, highest_bytes = 8192, plain_percent = 25;

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

static void run(struct actor *actor) {
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

static const struct option_number options[] = {
    {"rounds", &rounds, 0, UINT64_MAX, "objects allocated"},
    {"slots", &slots, 1, 1ull << 32, "live objects"},
    {"alignment-bits", &alignment_bits, 4, 30, "alignments up to 2^(this) bytes"},
    {"highest", &highest_bytes, 16, 1ull << 40, "largest aligned request in bytes"},
    {"plain", &plain_percent, 0, 100, "percent of the objects that are small and not aligned"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {.summary = "aligned requests of all kinds and sizes", .options = options, .run = run};

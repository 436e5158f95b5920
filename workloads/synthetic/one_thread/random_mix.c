/* SPDX-License-Identifier: MIT */
/* Every C entry point of the malloc API in random order on a table of objects, sizes with a uniform logarithm: the
   first of two worst-case mixes, in which neither sizes nor order help an allocator. With --odd=1 it also makes calls
   that are rare in programs: size 0, free(NULL), requests that fail, realloc to 0 (a workload leaves out the calls that
   fail). One thread.

   Shape after the random test programs among the tcache benchmarks (the second is random_mix_live). */
#include "workloads/synthetic/pattern.h"

static uint64_t rounds = 100000, slots = 1000, size_bits = 16, odd = 0;

static object_ref allocate(struct actor *actor, struct rng *rng) {
  size_t size_bytes = rng_log_size(rng, (unsigned)size_bits);
  size_t alignment = (size_t)16 << rng_below(rng, 9);
  switch (rng_below(rng, 16)) {
  case 0:
  case 1: {
    uint64_t count = 1 + rng_below(rng, 100);
    return do_calloc(actor, count, size_bytes / count + 1);
  }
  case 2:
    return do_aligned(actor, CALL_memalign, alignment, size_bytes);
  case 3:
    return do_aligned(actor, CALL_posix_memalign, alignment, size_bytes);
  case 4:
    return do_aligned(actor, CALL_aligned_alloc, alignment, (size_bytes + alignment - 1) & -alignment);
  case 5:
    return do_os_page_aligned(actor, CALL_valloc, size_bytes);
  case 6:
    return do_os_page_aligned(actor, CALL_pvalloc, size_bytes);
  case 7:
    return do_realloc(actor, 0, size_bytes);
  default:
    return do_malloc(actor, size_bytes);
  }
}

static object_ref replace(struct actor *actor, struct rng *rng, object_ref old) {
  size_t size_bytes = rng_log_size(rng, (unsigned)size_bits);
  switch (rng_below(rng, 8)) {
  case 0:
  case 1:
    return do_realloc(actor, old, size_bytes);
  case 2: {
    uint64_t count = 1 + rng_below(rng, 100);
    return do_reallocarray(actor, old, count, size_bytes / count + 1);
  }
  case 3:
    do_measure(actor, old);
    return old;
  default:
    do_free(actor, old);
    return allocate(actor, rng);
  }
}

/* Hides from the compiler that a request is absurd. */
static size_t opaque(size_t value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}

/* Calls that must fail and change nothing. */
static void fail_call(struct actor *actor, unsigned which, object_ref old) {
  void *result = NULL;
  actor->calls++;
  if (actor->script)
    return;
  switch (which) {
  case 0:
    result = malloc(opaque(SIZE_MAX / 2));
    break;
  case 1:
    result = calloc(opaque(SIZE_MAX / 2), opaque(3));
    break;
  case 2:
    if (posix_memalign(&result, opaque(3), 100) == 0)
      abort();
    return;
  default:
    result = realloc((void *)old, opaque(SIZE_MAX / 2));
    break;
  }
  if (result)
    abort();
}

static object_ref odd_call(struct actor *actor, struct rng *rng, object_ref old) {
  unsigned which = (unsigned)rng_below(rng, 7);
  if (which == 0) {
    do_free(actor, opaque(0)); /* the compiler would leave out a plain free(NULL) */
  } else if (which == 1) {
    do_free(actor, old);
    return do_malloc(actor, opaque(0));
  } else if (which == 2) {
    object_ref result = do_realloc(actor, old, opaque(0));
    return result ? result : allocate(actor, rng); /* 0: freed, as in the C library */
  } else {
    fail_call(actor, which - 3, old);
  }
  return old;
}

static void run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  object_ref *table = pattern_array(slots, sizeof *table);
  for (uint64_t i = 0; i < slots; i++)
    table[i] = allocate(actor, &rng);
  for (uint64_t i = 0; i < rounds; i++) {
    object_ref *victim = &table[rng_below(&rng, slots)];
    *victim = odd && rng_below(&rng, 16) == 0 ? odd_call(actor, &rng, *victim) : replace(actor, &rng, *victim);
  }
  for (uint64_t i = 0; i < slots; i++)
    do_free(actor, table[i]);
}

static const struct option_number options[] = {
    {"rounds", &rounds, 0, UINT64_MAX, "steps of the mix"},
    {"slots", &slots, 1, 1ull << 32, "live objects"},
    {"size-bits", &size_bits, 1, 40, "requests below 2^(this) bytes"},
    {"odd", &odd, 0, 1, "1: failing, empty and NULL calls too"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "all entry points in random order, one thread", .options = options, .run = run};

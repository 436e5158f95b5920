/* Every C entry point of the malloc API in random order on a table of blocks, sizes with a uniform logarithm. With
   --odd=1 also what programs seldom do: size 0, free(NULL), requests that fail, realloc to 0. One thread. */
#include "workloads/synthetic/synthetic.h"

#include <malloc.h>
#include <unistd.h>

static uint64_t rounds = 100000, slots = 1000, size_bits = 16, odd = 0, seed = 1, quiet = 0;

static uint64_t calls;

static void *allocate(struct rng *rng) {
  size_t size_bytes = rng_log_size(rng, (unsigned)size_bits);
  size_t alignment = (size_t)16 << rng_below(rng, 9);
  void *block = NULL;
  calls++;
  switch (rng_below(rng, 16)) {
  case 0:
  case 1: {
    uint64_t count = 1 + rng_below(rng, 100);
    return used(calloc(count, size_bytes / count + 1), size_bytes);
  }
  case 2:
    return used(memalign(alignment, size_bytes), size_bytes);
  case 3:
    return used(posix_memalign(&block, alignment, size_bytes) == 0 ? block : NULL, size_bytes);
  case 4:
    size_bytes = (size_bytes + alignment - 1) & -alignment;
    return used(aligned_alloc(alignment, size_bytes), size_bytes);
  case 5:
    return used(valloc(size_bytes), size_bytes);
  case 6:
    return used(pvalloc(size_bytes), size_bytes);
  case 7:
    return used(realloc(NULL, size_bytes), size_bytes);
  default:
    return used(malloc(size_bytes), size_bytes);
  }
}

static void *replace(struct rng *rng, void *block) {
  size_t size_bytes = rng_log_size(rng, (unsigned)size_bits);
  calls++;
  switch (rng_below(rng, 8)) {
  case 0:
  case 1:
    return used(realloc(block, size_bytes), size_bytes);
  case 2: {
    uint64_t count = 1 + rng_below(rng, 100);
    return used(reallocarray(block, count, size_bytes / count + 1), size_bytes);
  }
  case 3:
    if (malloc_usable_size(block) == 0)
      abort();
    return block;
  default:
    free(block);
    return allocate(rng);
  }
}

/* The compiler must not know that a request is absurd. */
static size_t opaque(size_t value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}

static void *odd_call(struct rng *rng, void *block) {
  void *result = NULL;
  calls++;
  switch (rng_below(rng, 7)) {
  case 0:
    free((void *)opaque(0));
    return block;
  case 1:
    free(block);
    calls++;
    return used(malloc(opaque(0)), 0);
  case 2:
    result = malloc(opaque(SIZE_MAX / 2));
    break;
  case 3:
    result = calloc(opaque(SIZE_MAX / 2), opaque(3));
    break;
  case 4:
    if (posix_memalign(&result, opaque(3), 100) == 0)
      abort();
    return block;
  case 5:
    result = realloc(block, opaque(SIZE_MAX / 2));
    break;
  default:
    result = realloc(block, opaque(0));
    if (result)
      return result;
    return allocate(rng); /* NULL: freed, as in the C library */
  }
  if (result)
    abort();
  return block;
}

int main(int argc, char **argv) {
  const struct option_number options[] = {{"rounds", &rounds, "steps of the mix"},
                                          {"slots", &slots, "live blocks"},
                                          {"size-bits", &size_bits, "requests below 2^(this) bytes"},
                                          {"odd", &odd, "1: failing, empty and NULL calls too"},
                                          SYNTHETIC_COMMON_OPTIONS(seed, quiet)};
  synthetic_options(argc, argv, "all entry points in random order, one thread", options);
  struct rng rng = rng_seed(seed, 0);
  uint64_t start_ns = synthetic_now_ns();
  void **block = used(calloc(slots, sizeof *block), 0);
  for (uint64_t i = 0; i < slots; i++)
    block[i] = allocate(&rng);
  for (uint64_t i = 0; i < rounds; i++) {
    void **victim = &block[rng_below(&rng, slots)];
    *victim = odd && rng_below(&rng, 16) == 0 ? odd_call(&rng, *victim) : replace(&rng, *victim);
  }
  for (uint64_t i = 0; i < slots; i++)
    free(block[i]);
  free(block);
  synthetic_report(calls + slots + 2, start_ns, quiet);
  return 0;
}

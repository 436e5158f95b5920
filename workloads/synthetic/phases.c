/* A program that changes its mind: each phase fills the heap with blocks of its own size range, then frees all but a
   few, which stay and pin the memory around them. The next phase's sizes do not fit the holes well. Shows
   fragmentation, and how much memory an allocator gives back. One thread. */
#include "workloads/synthetic/synthetic.h"

static uint64_t phases = 8, blocks = 20000, keep_every = 50, base_bytes = 24, seed = 1, quiet = 0;

static void shuffle(struct rng *rng, void **block) {
  for (uint64_t i = blocks - 1; i > 0; i--) {
    uint64_t other = rng_below(rng, i + 1);
    void *swapped = block[i];
    block[i] = block[other];
    block[other] = swapped;
  }
}

int main(int argc, char **argv) {
  const struct option_number options[] = {{"phases", &phases, "each with sizes half as large again as the one before"},
                                          {"blocks", &blocks, "of a phase"},
                                          {"keep-every", &keep_every, "one block in this many outlives its phase"},
                                          {"base", &base_bytes, "sizes of the first phase, in bytes"},
                                          SYNTHETIC_COMMON_OPTIONS(seed, quiet)};
  synthetic_options(argc, argv, "phases of different sizes that leave survivors behind", options);
  if (blocks == 0 || keep_every == 0 || base_bytes == 0)
    synthetic_usage(argv[0], "blocks, keep-every and base must be above 0", options, 2);
  struct rng rng = rng_seed(seed, 0);
  uint64_t start_ns = synthetic_now_ns(), survivors = 0, calls = 0;
  void **block = used(calloc(blocks, sizeof *block), 0);
  void **survivor = used(calloc(phases * (blocks / keep_every + 1), sizeof *survivor), 0);
  uint64_t size_bytes = base_bytes;
  for (uint64_t phase = 0; phase < phases; phase++, size_bytes += size_bytes / 2) {
    for (uint64_t i = 0; i < blocks; i++) {
      size_t request_bytes = rng_between(&rng, size_bytes, 2 * size_bytes);
      block[i] = used(malloc(request_bytes), request_bytes);
    }
    shuffle(&rng, block);
    for (uint64_t i = 0; i < blocks; i++) {
      if (i % keep_every == 0)
        survivor[survivors++] = block[i];
      else
        free(block[i]);
    }
    calls += 2 * blocks;
  }
  for (uint64_t i = 0; i < survivors; i++)
    free(survivor[i]);
  free(survivor);
  free(block);
  synthetic_report(calls, start_ns, quiet);
  return 0;
}

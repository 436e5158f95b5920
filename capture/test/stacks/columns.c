/* SPDX-License-Identifier: MIT */
/* "slow": makes 200 pairs of malloc and free; prints for each the request, and the counter's advance around malloc,
   within slow.c's malloc, and around free. Else: acquires objects of many sizes by all acquiring calls, and prints for
   each: request, usable size. */
#include "core/base/os.h"
#include "core/test/usual.h"

/* slow.c has it. */
__attribute__((weak)) extern uint64_t slow_inner_cycles;

enum { PAIRS = 200 };

static void time_pairs(void) {
  static struct { uint64_t request, malloc_cycles, inner_cycles, free_cycles; } pairs[PAIRS];
  for (int i = 0; i < PAIRS; i++) {
    pairs[i].request = i == 100 ? 4242 : 100;
    uint64_t begin = os_stamp();
    void *volatile object = malloc(pairs[i].request);
    pairs[i].malloc_cycles = os_stamp() - begin;
    pairs[i].inner_cycles = &slow_inner_cycles ? slow_inner_cycles : 0;
    begin = os_stamp();
    free(object);
    pairs[i].free_cycles = os_stamp() - begin;
  }
  for (int i = 0; i < PAIRS; i++)
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", pairs[i].request, pairs[i].malloc_cycles,
           pairs[i].inner_cycles, pairs[i].free_cycles);
}

static void report(size_t request, void *object) {
  printf("%zu %zu\n", request, malloc_usable_size(object));
  free(object);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "slow") == 0) {
    time_pairs();
    return 0;
  }
  for (size_t i = 0; i < 300; i++) {
    void *object;
    report(1000 + i * 7, malloc(1000 + i * 7));
    report(10000 + i * 3, calloc(1, 10000 + i * 3));
    report(200000 + i * 1001, realloc(malloc(10), 200000 + i * 1001));
    if (posix_memalign(&object, 64, 50000 + i) == 0)
      report(50000 + i, object);
    report(70000 + i, aligned_alloc(4096, 70000 + i));
  }
  free(malloc((size_t)-4096 * 16)); /* fails */
  return 0;
}

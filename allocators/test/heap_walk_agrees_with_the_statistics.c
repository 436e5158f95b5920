/* SPDX-License-Identifier: MIT */
/* At any moment of a busy heap, the walk's bytes of each state equal malloc_info's, and their sum mallinfo2's; its
   blocks do not overlap, and no byte of a live object is in a free block. */
#include "allocators/common/allocator.h"
#include "allocators/common/entry.h"
#include "core/test/usual.h"

enum { OBJECTS = 3000, ROUNDS = 16, CALLS = 2000, TEXT_BYTES = 1 << 16, BLOCKS_MAX = 1 << 18, STATES_MAX = 12 };

static struct {
  char *address;
  size_t bytes;
} objects[OBJECTS];

struct block {
  const char *address;
  size_t bytes;
};

static struct {
  uint64_t bytes[STATES_MAX], all_bytes, live_objects_in_free_blocks;
  size_t blocks;
  struct block block[BLOCKS_MAX];
} walked;

static void visit(const void *address, size_t bytes, unsigned state, void *context) {
  const char *first = address;
  (void)context;
  if (!heaptape_heap_walk_state(state) || state >= STATES_MAX || walked.blocks == BLOCKS_MAX)
    abort();
  walked.bytes[state] += bytes;
  walked.all_bytes += bytes;
  walked.block[walked.blocks++] = (struct block){first, bytes};
  for (int index = 0; state != 0 && index < OBJECTS; index++) {
    const char *object = objects[index].address;
    if (object && object < first + bytes && object + objects[index].bytes > first)
      walked.live_objects_in_free_blocks++;
  }
}

static int by_address(const void *left, const void *right) {
  const struct block *a = left, *b = right;
  return a->address < b->address ? -1 : a->address > b->address;
}

static unsigned overlaps(void) {
  unsigned count = 0;
  qsort(walked.block, walked.blocks, sizeof *walked.block, by_address);
  for (size_t index = 1; index < walked.blocks; index++)
    count += walked.block[index - 1].address + walked.block[index - 1].bytes > walked.block[index].address;
  return count;
}

static uint64_t total(const char *text, const char *state) {
  char wanted[64];
  snprintf(wanted, sizeof wanted, "<total type=\"%s\"", state);
  const char *at = strstr(text, wanted);
  at = at ? strstr(at, "size=\"") : NULL;
  return at ? strtoull(at + 6, NULL, 10) : UINT64_MAX;
}

/* Nothing between the three may change the heap, so the one that allocates is last. */
static int check(char *text, FILE *stream) {
  rewind(stream);
  allocator_malloc_info(0, stream);
  fflush(stream);
  struct mallinfo2 info = allocator_mallinfo2();
  memset(&walked, 0, offsetof(typeof(walked), block));
  heaptape_heap_walk(visit, NULL);
  const char *name;
  for (unsigned state = 0; (name = heaptape_heap_walk_state(state)); state++)
    if (walked.bytes[state] != total(text, name)) {
      fprintf(stderr, "%s: %lu walked, %lu by malloc_info\n", name, walked.bytes[state], total(text, name));
      return 1;
    }
  bool sums = walked.bytes[0] <= info.uordblks && walked.all_bytes == info.uordblks + info.fordblks;
  if (walked.live_objects_in_free_blocks || walked.blocks == 0 || !sums || overlaps()) {
    fprintf(stderr, "%u overlaps, %lu objects in free blocks, or mallinfo2 disagrees: %d\n", overlaps(),
            walked.live_objects_in_free_blocks, !sums);
    return 1;
  }
  return 0;
}

int main(void) {
  static char text[TEXT_BYTES];
  FILE *stream = fmemopen(text, sizeof text, "w");
  unsigned seed = 7, seen = 0;
  if (!stream || heaptape_heap_walk_state(STATES_MAX))
    return 1;
  for (int round = 0; round < ROUNDS; round++) {
    for (int call = 0; call < CALLS; call++) {
      int index = rand_r(&seed) % OBJECTS;
      allocator_free(objects[index].address);
      objects[index].bytes = (size_t)(rand_r(&seed) % (call % 50 == 0 ? 100000 : 900));
      objects[index].address = rand_r(&seed) % 3 == 0 ? NULL : allocator_malloc(objects[index].bytes);
    }
    if (check(text, stream) != 0)
      return 1;
    for (unsigned state = 0; state < STATES_MAX; state++)
      seen |= (walked.bytes[state] > 0) << state;
  }
  /* A test in which states never occur shows nothing: requires used, cached, and one kind of free blocks. */
  return __builtin_popcount(seen) >= 3 && seen & 1 ? 0 : 1;
}

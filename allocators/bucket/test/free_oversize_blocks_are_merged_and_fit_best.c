/* SPDX-License-Identifier: MIT */
/* For random oversize objects: no two free blocks are neighbours; once all objects are freed, each segment is one
   block; and a request is served from the smallest free block that is large enough. */
#include "allocators/bucket/block.h"
#include "allocators/common/allocator.h"
#include "allocators/common/entry.h"
#include "allocators/test/model.h"

#include <string.h>

enum { OBJECTS = 200, CALLS = 8000, CHECK_EVERY = 200, LOWEST_BYTES = 70000, HIGHEST_BYTES = 3000000 };
enum { FITS = 6, STEP_BYTES = 3000 };

struct seen {
  const char *end_of_free; /* of the last block, if it was free */
  unsigned neighbours, free_blocks, used_blocks;
};

static void see(const void *address, size_t bytes, unsigned state, void *context) {
  struct seen *seen = context;
  bool is_free = state == STATE_OVERSIZE;
  seen->free_blocks += is_free;
  seen->used_blocks += state == STATE_USED && bytes >= LOWEST_BYTES;
  seen->neighbours += is_free && seen->end_of_free == address;
  seen->end_of_free = is_free ? (const char *)address + bytes : NULL;
}

static struct seen look(void) {
  struct seen seen = {0};
  heaptape_heap_walk(see, &seen);
  if (seen.neighbours)
    model_fail("%u free blocks have a free one behind them", seen.neighbours);
  return seen;
}

static size_t random_bytes(struct model *model) {
  return LOWEST_BYTES + model_random(model) % (HIGHEST_BYTES - LOWEST_BYTES);
}

static void check_merging(void) {
  static void *objects[OBJECTS];
  struct model model = {.random = 4711};
  unsigned live = 0;
  for (int call = 0; call < CALLS; call++) {
    void **object = &objects[model_random(&model) % OBJECTS];
    if (*object && model_random(&model) % 3 == 0) {
      *object = allocator_realloc(*object, random_bytes(&model));
    } else if (*object) {
      allocator_free(*object);
      *object = NULL;
      live--;
    } else {
      *object = allocator_malloc(random_bytes(&model));
      live++;
    }
    if (call % CHECK_EVERY == 0 && look().used_blocks != live)
      model_fail("%u blocks are used, not %u", look().used_blocks, live);
  }
  for (int index = 0; index < OBJECTS; index++)
    allocator_free(objects[index]);
  struct seen seen = look();
  if (seen.used_blocks != 0 || seen.free_blocks == 0)
    model_fail("%u blocks are used at the end", seen.used_blocks);
}

/* Free blocks of several sizes, separated by used ones, all in one segment, whose free end is larger. */
static void check_best_fit(void) {
  static const size_t steps[FITS] = {3, 0, 5, 1, 4, 2};
  void *objects[FITS], *separators[FITS];
  for (int index = 0; index < FITS; index++) {
    objects[index] = allocator_malloc(LOWEST_BYTES + steps[index] * STEP_BYTES);
    separators[index] = allocator_malloc(LOWEST_BYTES);
  }
  for (int index = 0; index < FITS; index++)
    allocator_free(objects[index]);
  for (int index = 0; index < FITS; index++)
    if (allocator_malloc(LOWEST_BYTES + steps[index] * STEP_BYTES - STEP_BYTES / 2) != objects[index])
      model_fail("not the smallest block that is large enough, in step %d", index);
  for (int index = 0; index < FITS; index++) {
    allocator_free(objects[index]);
    allocator_free(separators[index]);
  }
}

int main(void) {
  check_best_fit(); /* first, while the heap is empty */
  check_merging();
  return 0;
}

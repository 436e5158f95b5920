/* SPDX-License-Identifier: MIT */
/* Random calls of the whole API by one thread, checked by the model, and the heap walk, compared with what is live.
   Tunables come from the environment: test_variants.py runs this under each variant. Usage: [CALLS [SEED]] */
#include "allocators/common/allocator.h"
#include "allocators/common/entry.h"
#include "allocators/test/model.h"
#include "core/test/usual.h"

enum { OBJECTS = 3000, PHASE = 1250, LARGE = 125, OVERHEAD_BYTES_MAX = 128 };

static struct model_object objects[OBJECTS], sorted[OBJECTS];
static size_t live; /* objects in `sorted` */

struct seen {
  size_t used_bytes, objects;
};

static int by_address(const void *left, const void *right) {
  const struct model_object *a = left, *b = right;
  return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* Returns the first object at or behind this address. */
static const struct model_object *from(const unsigned char *address) {
  size_t low = 0, high = live;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (sorted[middle].bytes < address)
      low = middle + 1;
    else
      high = middle;
  }
  return sorted + low;
}

static void see(const void *address, size_t bytes, unsigned state, void *context) {
  struct seen *seen = context;
  const unsigned char *first = address, *end = first + bytes;
  seen->used_bytes += state == 0 ? bytes : 0;
  for (const struct model_object *object = from(first); object < sorted + live && object->bytes < end; object++) {
    seen->objects++;
    if (state != 0 || object->bytes + object->size_bytes > end)
      model_fail("walk: object %p of %zu bytes is in a block of %zu, state %u", (void *)object->bytes,
                 object->size_bytes, bytes, state);
  }
}

/* Each live object is in a used block, or has its own mapping; and little else is used (the allocator's own data on its
   heap, stdio). */
static void check_walk(void) {
  struct seen seen = {0};
  size_t live_bytes = 0;
  live = 0;
  for (int index = 0; index < OBJECTS; index++)
    if (objects[index].bytes)
      sorted[live++] = objects[index];
  qsort(sorted, live, sizeof *sorted, by_address);
  for (size_t index = 0; index < live; index++)
    live_bytes += sorted[index].size_bytes;
  heaptape_heap_walk(see, &seen);
  size_t mapped = allocator_mallinfo2().hblks;
  if (seen.objects + mapped < live || seen.objects > live)
    model_fail("walk: %zu of %zu objects, %zu are mapped", seen.objects, live, mapped);
  if (seen.used_bytes > live_bytes + live * OVERHEAD_BYTES_MAX + (1 << 16))
    model_fail("walk: %zu bytes used, but %zu are live", seen.used_bytes, live_bytes);
}

int main(int argument_count, char **arguments) {
  long calls = argument_count > 1 ? atol(arguments[1]) : 100000;
  struct model model = {.random = argument_count > 2 ? strtoull(arguments[2], NULL, 0) : 88172645463325252u};
  for (long call = 0; call < calls; call++) {
    /* In phases, so that the heap grows, is trimmed and fragments: large objects, whose bytes take most of the time, at
       the ends of phases, medium ones in every second phase, and many objects in every third and fourth. */
    long phase = call / PHASE, left = PHASE - call % PHASE;
    model.size_limit_bytes = left <= LARGE ? 400000 : phase % 2 ? 6000 : 1200;
    size_t used = phase / 2 % 2 ? OBJECTS : OBJECTS / 10;
    struct model_object *object = &objects[model_random(&model) % used];
    if (!object->bytes)
      *object = model_acquire(&model);
    else if (model_random(&model) % 4 == 0 && object->size_bytes < 50000)
      model_resize(&model, object);
    else
      model_release(&model, object);
    if (left == 1)
      check_walk();
    if (left == 1 && phase % 3 == 2)
      allocator_malloc_trim(0);
    if (left == 1 && phase % 4 == 3) /* a phase of few objects begins: free the excess */
      for (int index = 0; index < OBJECTS; index++)
        if (objects[index].bytes)
          model_release(&model, &objects[index]);
  }
  for (int index = 0; index < OBJECTS; index++)
    if (objects[index].bytes)
      model_release(&model, &objects[index]);
  check_walk();
  return 0;
}

/* Random calls of the whole API by one thread, against the model, and the heap walk against what is live. Tunables come
   from the environment: test_variants.py runs this under each variant. Usage: [CALLS [SEED]] */
#include "allocators/reference/base/chunk.h"
#include "allocators/reference/entry.h"
#include "allocators/reference/reference.h"
#include "allocators/reference/test/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 3000, WALK_EVERY = 20000 };

static struct model_object objects[OBJECTS];

struct seen {
  const char *expected; /* where the next chunk must be, within a heap */
  unsigned arena;
  size_t used_bytes;
};

static void see(const struct reference_chunk *chunk, void *context) {
  struct seen *seen = context;
  const char *address = chunk->address;
  bool new_heap = seen->arena != chunk->arena || !seen->expected || address < seen->expected ||
                  address >= seen->expected + (1 << 20);
  if (!new_heap && address != seen->expected)
    model_fail("walk: a gap of %td bytes before %p", address - seen->expected, chunk->address);
  seen->expected = address + chunk->size_bytes;
  seen->arena = chunk->arena;
  if (chunk->state == REFERENCE_USED)
    seen->used_bytes += chunk->size_bytes;
}

/* What the walk calls used is what is live in arenas, and little else (a tcache itself, stdio). */
static void check_walk(void) {
  struct seen seen = {0};
  reference_walk(see, &seen);
  size_t live_bytes = 0;
  for (int index = 0; index < OBJECTS; index++) {
    const struct model_object *object = &objects[index];
    if (object->bytes && !(chunk_head(chunk_of(object->bytes)) & CHUNK_MAPPED))
      live_bytes += object->size_bytes + CHUNK_OVERHEAD;
  }
  if (seen.used_bytes < live_bytes || seen.used_bytes > live_bytes + (1 << 16))
    model_fail("walk: %zu bytes used, but %zu are live", seen.used_bytes, live_bytes);
}

int main(int argument_count, char **arguments) {
  long calls = argument_count > 1 ? atol(arguments[1]) : 300000;
  struct model model = {.random = argument_count > 2 ? strtoull(arguments[2], NULL, 0) : 88172645463325252u};
  for (long call = 0; call < calls; call++) {
    /* In phases, so that the heap grows, is trimmed and fragments: large objects every now and then. */
    model.size_limit_bytes = call / 5000 % 4 == 3 ? 400000 : call / 5000 % 4 == 2 ? 6000 : 1200;
    size_t live = call / 20000 % 2 ? OBJECTS : OBJECTS / 10;
    struct model_object *object = &objects[model_random(&model) % live];
    if (!object->bytes)
      *object = model_acquire(&model);
    else if (model_random(&model) % 4 == 0 && object->size_bytes < 50000)
      model_resize(&model, object);
    else
      model_release(&model, object);
    if (call % 50000 == 49999)
      reference_malloc_trim(0);
    if (call % WALK_EVERY == WALK_EVERY - 1)
      check_walk();
    if (call % 40000 == 20000 - 1) /* the phase of few objects begins: free all others */
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

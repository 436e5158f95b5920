/* SPDX-License-Identifier: MIT */
/* Memory of calloc is zero, from any heap: in a thread with heaps of 64 MiB, the newest below the others, and in the
   main arena when the break can't be moved. */
#include "allocators/common/entry.h"
#include "core/test/usual.h"

enum { OBJECTS = 15000, OBJECT_BYTES = 11000 }; /* 165 MB: three heaps and more */

static char *objects[OBJECTS];

/* Used by all code of this program, as the linker finds it first. */
void *sbrk(intptr_t bytes) {
  (void)bytes;
  errno = ENOMEM;
  return (void *)-1;
}

static void *fill_release_and_fill(void *unused) {
  static const char zeros[OBJECT_BYTES];
  (void)unused;
  for (int index = 0; index < OBJECTS; index++)
    memset(objects[index] = allocator_malloc(OBJECT_BYTES), 'x', OBJECT_BYTES);
  for (int index = 0; index < OBJECTS; index += 2)
    allocator_free(objects[index]);
  for (int index = 0; index < OBJECTS; index += 2)
    if (memcmp(allocator_calloc(1, OBJECT_BYTES), zeros, OBJECT_BYTES) != 0) {
      fprintf(stderr, "object %d is not zero\n", index);
      return objects;
    }
  return NULL;
}

int main(void) {
  if (fill_release_and_fill(NULL) != NULL)
    return 1;
  pthread_t thread;
  void *wrong;
  if (pthread_create(&thread, NULL, fill_release_and_fill, NULL) != 0 || pthread_join(thread, &wrong) != 0)
    return 2;
  return wrong != NULL;
}

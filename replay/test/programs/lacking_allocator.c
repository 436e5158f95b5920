/* SPDX-License-Identifier: MIT */
/* A malloc library that lacks what -D does not name: FREE, CALLOC, REALLOC, MEMALIGN, ALIGNED_ALLOC, POSIX_MEMALIGN. It
   never uses memory again. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

static _Alignas(4096) char heap[64 << 20];
static size_t used;

/* The request's size is stored before the object. */
static void *aligned(size_t alignment, size_t size_bytes) {
  size_t least = alignment < 16 ? 16 : alignment;
  size_t place = (used + sizeof size_bytes + least - 1) & ~(least - 1);
  if (place > sizeof heap || size_bytes > sizeof heap - place)
    return NULL;
  used = place + size_bytes;
  memcpy(heap + place - sizeof size_bytes, &size_bytes, sizeof size_bytes);
  return heap + place;
}

PUBLIC void *malloc(size_t size_bytes) {
  return aligned(16, size_bytes);
}

#ifdef FREE
PUBLIC void free(void *object) {
  (void)object;
}
#endif

#ifdef CALLOC
PUBLIC void *calloc(size_t count, size_t size_bytes) {
  size_t bytes;
  return __builtin_mul_overflow(count, size_bytes, &bytes) ? NULL : malloc(bytes);
}
#endif

#ifdef REALLOC
PUBLIC void *realloc(void *object, size_t size_bytes) {
  size_t old_bytes = 0;
  if (object)
    memcpy(&old_bytes, (char *)object - sizeof old_bytes, sizeof old_bytes);
  void *made = malloc(size_bytes);
  return made && object ? memcpy(made, object, old_bytes < size_bytes ? old_bytes : size_bytes) : made;
}
#endif

#ifdef MEMALIGN
PUBLIC void *memalign(size_t alignment, size_t size_bytes) {
  return aligned(alignment, size_bytes);
}
#endif

#ifdef ALIGNED_ALLOC
PUBLIC void *aligned_alloc(size_t alignment, size_t size_bytes) {
  return aligned(alignment, size_bytes);
}
#endif

#ifdef POSIX_MEMALIGN
PUBLIC int posix_memalign(void **out, size_t alignment, size_t size_bytes) {
  *out = aligned(alignment, size_bytes);
  return *out ? 0 : ENOMEM;
}
#endif

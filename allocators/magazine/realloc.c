/* SPDX-License-Identifier: MIT */
/* realloc: in place while the size class, or the run of zones, has room and is not much too large; by moving OS pages
   if there are many, else by copying. Also objects at multiples of more than 16. */
#include "allocators/common/calls/arguments.h"
#include "allocators/common/hooks.h"
#include "allocators/magazine/cache.h"
#include "allocators/magazine/check.h"
#include "allocators/magazine/zone/large.h"

static size_t usable_bytes(const struct zone *zone) {
  return zone->number == CLASS_LARGE ? zone->object_bytes : zone->size_bytes;
}

size_t allocator_malloc_usable_size(void *object) {
  return object ? usable_bytes(check_object("malloc_usable_size", object)) : 0;
}

void *allocator_realloc(void *object, size_t object_bytes) {
  void *result;
  if (UNLIKELY(realloc_is_special(object, object_bytes, &result)))
    return result;
  struct zone *zone = check_object("realloc", object);
  size_t usable = usable_bytes(zone);
  if (zone->number != CLASS_LARGE) {
    /* An object that shrinks by less than half stays: most grow again, and copying costs more than the unused part is
       worth. */
    if (object_bytes <= usable && object_bytes >= usable / 2)
      return object;
  } else if (object_bytes > SMALL_MAX_BYTES && (result = large_resize(zone, object_bytes))) {
    return result;
  }
  return realloc_by_copy(object, usable, object_bytes);
}

/* Returns the smallest class with objects of that alignment; CLASSES: none. */
static unsigned aligned_class(size_t alignment, size_t object_bytes) {
  size_t bytes = round_up(object_bytes ? object_bytes : 1, alignment);
  unsigned number = bytes <= SMALL_MAX_BYTES ? class_for(bytes) : CLASSES;
  while (number < CLASSES && class_alignment(number) < alignment)
    number++;
  return number;
}

void *allocator_take_aligned(size_t alignment, size_t object_bytes) {
  bool zeroed;
  if (object_bytes > PTRDIFF_MAX)
    return NULL;
  unsigned number = alignment <= CLASS_ALIGNMENT_MAX ? aligned_class(alignment, object_bytes) : CLASSES;
  return number < CLASSES ? allocator_malloc(class_bytes[number]) : large_take(object_bytes, alignment, &zeroed);
}

PUBLIC_NAME(void *, realloc, (void *object, size_t object_bytes), allocator_realloc);
PUBLIC_NAME(size_t, malloc_usable_size, (void *object), allocator_malloc_usable_size);

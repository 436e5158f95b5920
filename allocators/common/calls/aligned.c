/* SPDX-License-Identifier: MIT */
/* The aligned forms: which arguments each refuses, and how it reports that. */
#include "allocators/common/calls/arguments.h"
#include "allocators/common/entry.h"
#include "allocators/common/hooks.h"
#include "allocators/common/startup.h"

/* alignment: a power of two. NULL: no memory, errno undefined. */
static void *take(size_t alignment, size_t object_bytes) {
  if (alignment <= OBJECT_ALIGNMENT)
    return allocator_malloc(object_bytes);
  startup();
  return allocator_take_aligned(alignment, object_bytes);
}

static void *take_or_fail(size_t alignment, size_t object_bytes) {
  void *object = take(alignment, object_bytes);
  if (UNLIKELY(!object))
    errno = ENOMEM;
  return object;
}

static bool is_power_of_two(size_t value) {
  return value != 0 && (value & (value - 1)) == 0;
}

int allocator_posix_memalign(void **object, size_t alignment, size_t object_bytes) {
  if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
    return EINVAL;
  int error = errno; /* this function returns its error */
  void *taken = take(alignment, object_bytes);
  errno = error;
  if (!taken)
    return ENOMEM;
  *object = taken;
  return 0;
}

void *allocator_aligned_alloc(size_t alignment, size_t object_bytes) {
  if (!is_power_of_two(alignment)) {
    errno = EINVAL;
    return NULL;
  }
  return take_or_fail(alignment, object_bytes);
}

/* As in glibc: alignments that are not a power of two are rounded up to one. */
void *allocator_memalign(size_t alignment, size_t object_bytes) {
  if (alignment > PTRDIFF_MAX / 2) {
    errno = EINVAL;
    return NULL;
  }
  size_t power = OBJECT_ALIGNMENT;
  while (power < alignment)
    power *= 2;
  return take_or_fail(power, object_bytes);
}

void *allocator_valloc(size_t object_bytes) {
  startup();
  return take_or_fail(os_page_bytes, object_bytes);
}

void *allocator_pvalloc(size_t object_bytes) {
  startup();
  if (size_is_too_large(object_bytes))
    return NULL;
  return allocator_valloc(round_up(object_bytes, os_page_bytes));
}

PUBLIC_NAME(int, posix_memalign, (void **object, size_t alignment, size_t object_bytes), allocator_posix_memalign);
PUBLIC_NAME(void *, aligned_alloc, (size_t alignment, size_t object_bytes), allocator_aligned_alloc);
PUBLIC_NAME(void *, memalign, (size_t alignment, size_t object_bytes), allocator_memalign);
PUBLIC_NAME(void *, valloc, (size_t object_bytes), allocator_valloc);
PUBLIC_NAME(void *, pvalloc, (size_t object_bytes), allocator_pvalloc);

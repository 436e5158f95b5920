/* Objects at multiples of more than 16: a larger chunk is taken, and what lies before and behind is given back. */
#include "allocators/reference/arena/arena.h"
#include "allocators/reference/arena/arenas.h"
#include "allocators/reference/arena/heap.h"
#include "allocators/reference/arena/mapped.h"
#include "allocators/reference/arena/release.h"
#include "allocators/reference/arena/take.h"
#include "allocators/reference/base/counters.h"
#include "allocators/reference/base/tunables.h"
#include "allocators/reference/entry.h"
#include "allocators/reference/startup.h"

#include <errno.h>
#include <string.h>

/* From a chunk with room for it, an aligned chunk of that many bytes; the rest is freed. Needs the lock. */
static void *cut_aligned(struct arena *arena, struct chunk *chunk, size_t alignment, size_t bytes) {
  uintptr_t object = (uintptr_t)chunk_object(chunk);
  if (object & (alignment - 1)) {
    /* What lies before must be a chunk of its own. */
    uintptr_t aligned = round_up(object + CHUNK_MIN_BYTES, alignment);
    size_t lead = aligned - object, head = chunk_head(chunk);
    struct chunk *after = chunk_of((void *)aligned);
    chunk_set_head(after, (head_bytes(head) - lead) | CHUNK_PREV_USED | arena->chunk_flag);
    chunk_set_head(chunk, lead | (head & CHUNK_FLAGS));
    COUNT(splits);
    arena_release(arena, chunk);
    chunk = after;
  }
  size_t head = chunk_head(chunk), have = head_bytes(head);
  if (have - bytes >= CHUNK_MIN_BYTES) {
    struct chunk *rest = chunk_at(chunk, (ptrdiff_t)bytes);
    chunk_set_head(rest, (have - bytes) | CHUNK_PREV_USED | arena->chunk_flag);
    chunk_set_head(chunk, bytes | (head & CHUNK_FLAGS));
    COUNT(splits);
    arena_release(arena, rest);
  }
  return chunk_object(chunk);
}

/* alignment: a power of two. NULL: no memory. */
static void *take_aligned(size_t alignment, size_t object_bytes) {
  if (alignment <= CHUNK_ALIGNMENT)
    return reference_malloc(object_bytes);
  if (object_bytes > PTRDIFF_MAX || alignment > PTRDIFF_MAX / 4)
    return NULL;
  startup();
  size_t bytes = chunk_bytes_for(object_bytes), padded;
  if (__builtin_add_overflow(bytes, alignment + CHUNK_MIN_BYTES, &padded) || padded > PTRDIFF_MAX)
    return NULL;
  if (padded >= tunable_now(&tunables.mmap_threshold))
    return mapped_take(object_bytes, alignment);
  struct arena *arena = arena_lock_mine();
  void *object = arena_take(arena, padded, NULL);
  if (object && !(chunk_head(chunk_of(object)) & CHUNK_MAPPED)) {
    object = cut_aligned(arena, chunk_of(object), alignment, bytes);
    arena_unlock(arena);
    return object;
  }
  arena_unlock(arena);
  if (object) /* another thread changed the threshold */
    mapped_release(chunk_of(object));
  return mapped_take(object_bytes, alignment);
}

static void *fill(void *object, size_t object_bytes) {
  if (UNLIKELY(!object))
    errno = ENOMEM;
  else if (UNLIKELY(tunables.perturb))
    memset(object, (int)tunables.perturb ^ 0xff, object_bytes);
  return object;
}

static bool is_power_of_two(size_t value) {
  return value != 0 && (value & (value - 1)) == 0;
}

int reference_posix_memalign(void **object, size_t alignment, size_t object_bytes) {
  if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
    return EINVAL;
  int error = errno; /* this function reports by its result */
  void *taken = fill(take_aligned(alignment, object_bytes), object_bytes);
  errno = error;
  if (!taken)
    return ENOMEM;
  *object = taken;
  return 0;
}

void *reference_aligned_alloc(size_t alignment, size_t object_bytes) {
  if (!is_power_of_two(alignment)) {
    errno = EINVAL;
    return NULL;
  }
  return fill(take_aligned(alignment, object_bytes), object_bytes);
}

/* As glibc's: alignments that are no power of two are rounded up to one. */
void *reference_memalign(size_t alignment, size_t object_bytes) {
  if (alignment > PTRDIFF_MAX / 2) {
    errno = EINVAL;
    return NULL;
  }
  size_t power = CHUNK_ALIGNMENT;
  while (power < alignment)
    power *= 2;
  return fill(take_aligned(power, object_bytes), object_bytes);
}

void *reference_valloc(size_t object_bytes) {
  startup();
  return fill(take_aligned(heap_os_page_bytes, object_bytes), object_bytes);
}

void *reference_pvalloc(size_t object_bytes) {
  startup();
  if (object_bytes > PTRDIFF_MAX) {
    errno = ENOMEM;
    return NULL;
  }
  return reference_valloc(round_up(object_bytes, heap_os_page_bytes));
}

PUBLIC_NAME(int, posix_memalign, (void **object, size_t alignment, size_t object_bytes), reference_posix_memalign);
PUBLIC_NAME(void *, aligned_alloc, (size_t alignment, size_t object_bytes), reference_aligned_alloc);
PUBLIC_NAME(void *, memalign, (size_t alignment, size_t object_bytes), reference_memalign);
PUBLIC_NAME(void *, valloc, (size_t object_bytes), reference_valloc);
PUBLIC_NAME(void *, pvalloc, (size_t object_bytes), reference_pvalloc);

/* SPDX-License-Identifier: MIT */
#include "allocators/reference/heap.h"

#include "allocators/common/base.h"
#include "allocators/common/counters.h"
#include "allocators/reference/chunk.h"
#include "core/base/assert.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

size_t fast_max_bytes = FAST_MAX_BYTES, quick_max_bytes = FAST_MAX_BYTES;
bool dynamic_thresholds = true, requests_do_more;

void settings_setup(void) {
  if (!tunables.fastbins)
    fast_max_bytes = 0;
  if (tunables.tcache_count == 0)
    tunables.tcache = 0;
  size_t cached_max_bytes = chunk_bytes_for(tunables.tcache_max);
  if (tunables.tcache && cached_max_bytes > quick_max_bytes)
    quick_max_bytes = cached_max_bytes;
  requests_do_more = tunables.perturb || tunables.tcache_on_request;
  dynamic_thresholds = !tunables_set.mmap_threshold && !tunables_set.trim_threshold;
}

enum { MMAP_THRESHOLD_MAX = 32 << 20 };

static _Atomic size_t mapped_chunks, mapped_bytes;

static void note(ptrdiff_t chunks, size_t bytes) {
  sum_add(&mapped_chunks, (size_t)chunks);
  sum_add(&mapped_bytes, bytes);
}

void *mapped_take(size_t object_bytes, size_t alignment) {
  size_t lead = alignment > CHUNK_ALIGNMENT ? alignment : 0;
  size_t total;
  if (__builtin_add_overflow(object_bytes, lead + CHUNK_OBJECT_OFFSET + os_page_bytes - 1, &total) ||
      total > PTRDIFF_MAX)
    return NULL;
  total &= ~(os_page_bytes - 1);
  COUNT(mmaps);
  char *memory = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return NULL;
  if (tunables.thp) {
    COUNT(madvises);
    madvise(memory, total, MADV_HUGEPAGE);
  }
  COUNT(mapped_hits);
  note(1, total);
  char *object = (char *)round_up((uintptr_t)memory + CHUNK_OBJECT_OFFSET, alignment);
  struct chunk *chunk = chunk_of(object);
  chunk->prev_bytes = (size_t)((char *)chunk - memory);
  chunk_set_head(chunk, (total - chunk->prev_bytes) | CHUNK_MAPPED);
  return object;
}

static char *mapping_of(struct chunk *chunk, size_t *total) {
  char *memory = (char *)chunk - chunk->prev_bytes;
  *total = chunk_bytes(chunk) + chunk->prev_bytes;
  if (UNLIKELY(((uintptr_t)memory | *total) & (os_page_bytes - 1)))
    fault("free", "invalid pointer or overwritten size of a mapped object", chunk_object(chunk));
  return memory;
}

static void raise_thresholds(size_t bytes) {
  if (!dynamic_thresholds || bytes > MMAP_THRESHOLD_MAX ||
      bytes <= __atomic_load_n(&tunables.mmap_threshold, __ATOMIC_RELAXED))
    return;
  __atomic_store_n(&tunables.mmap_threshold, bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&tunables.trim_threshold, 2 * bytes, __ATOMIC_RELAXED);
}

void mapped_release(struct chunk *chunk) {
  size_t total;
  char *memory = mapping_of(chunk, &total);
  raise_thresholds(chunk_bytes(chunk));
  note(-1, -total);
  COUNT(munmaps);
  munmap(memory, total);
}

void *mapped_resize(struct chunk *chunk, size_t object_bytes) {
  size_t total, wanted, lead = chunk->prev_bytes;
  char *memory = mapping_of(chunk, &total);
  if (__builtin_add_overflow(object_bytes, lead + CHUNK_OBJECT_OFFSET + os_page_bytes - 1, &wanted))
    return NULL;
  wanted &= ~(os_page_bytes - 1);
  if (wanted != total) {
    COUNT(mremaps);
    memory = mremap(memory, total, wanted, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED)
      return NULL;
    note(0, wanted - total);
    chunk = chunk_at(memory, (ptrdiff_t)lead);
    chunk_set_head(chunk, (wanted - lead) | CHUNK_MAPPED);
  }
  return chunk_object(chunk);
}

void mapped_count(size_t *count, size_t *bytes) {
  *count = atomic_load_explicit(&mapped_chunks, memory_order_relaxed);
  *bytes = atomic_load_explicit(&mapped_bytes, memory_order_relaxed);
}

enum {
  FENCE_BYTES = 32,              /* at the end of a heap that is no longer the newest */
  FALLBACK_HEAP_BYTES = 1 << 20, /* of the main arena, where the break can't move */
  HUGE_PAGE_BYTES = 2 << 20,
  GROWTH_SHARE = 16,
  GROWTH_BYTES_MAX = 4 << 20,
  ARENA_OFFSET = 64, /* of an arena in its first heap */
};

/* Where the next heap of 64 MiB is tried: next to the last one, as reserving twice as much to find an aligned place
   costs three calls. */
static _Atomic uintptr_t heap_hint;

static size_t growth_unit(void) {
  return tunables.thp ? HUGE_PAGE_BYTES : os_page_bytes;
}

static void advise_huge(void *memory, size_t bytes) {
  if (!tunables.thp)
    return;
  COUNT(madvises);
  uintptr_t start = round_up((uintptr_t)memory, os_page_bytes), end = (uintptr_t)memory + bytes;
  if (end > start)
    madvise((void *)start, end - start, MADV_HUGEPAGE);
}

struct chunk *heap_first_chunk(struct heap *heap) {
  size_t header = sizeof *heap;
  if ((char *)heap->arena == (char *)heap + ARENA_OFFSET)
    header = ARENA_OFFSET + sizeof *heap->arena;
  return chunk_at(heap, (ptrdiff_t)round_up(header, CHUNK_ALIGNMENT));
}

static void account(struct arena *arena, size_t bytes) {
  size_t sum = arena_system_bytes(arena) + bytes;
  atomic_store_explicit(&arena->system_bytes, sum, memory_order_relaxed);
  if (sum > arena->system_bytes_max)
    arena->system_bytes_max = sum;
}

/* The top spans from here to the end of the newest heap. */
static void set_top(struct arena *arena, struct chunk *top) {
  HT_ASSERT(is_aligned(top) && (uintptr_t)top < (uintptr_t)arena->heap + arena->heap->bytes);
  arena->top = top;
  chunk_set_head(top, ((uintptr_t)arena->heap + arena->heap->bytes - (uintptr_t)top) | CHUNK_PREV_USED);
  uintptr_t written = (uintptr_t)top + CHUNK_OBJECT_OFFSET;
  if (arena->fresh < written)
    arena->fresh = written;
}

/* The top becomes a free chunk with a fence behind it: two heads marked used, so that nothing coalesces or reads beyond
   the end. */
static void retire_top(struct arena *arena) {
  struct chunk *top = arena->top;
  if (!top)
    return;
  size_t bytes = chunk_bytes(top);
  size_t rest = bytes - FENCE_BYTES < CHUNK_MIN_BYTES ? 0 : bytes - FENCE_BYTES;
  struct chunk *end = chunk_at(top, (ptrdiff_t)(bytes - CHUNK_ALIGNMENT)), *fence = chunk_at(top, (ptrdiff_t)rest);
  chunk_set_head(chunk_at(end, -CHUNK_ALIGNMENT), 0); /* marks a fence that starts before */
  chunk_set_head(end, CHUNK_ALIGNMENT | CHUNK_PREV_USED);
  chunk_set_head(fence, (bytes - CHUNK_ALIGNMENT - rest) | CHUNK_PREV_USED);
  arena->top = NULL;
  if (rest == 0)
    return;
  chunk_set_free(top, rest, CHUNK_PREV_USED | arena->chunk_flag);
  bins_add(&arena->bins, top, rest);
}

static void start_heap(struct arena *arena, struct heap *heap, size_t bytes, size_t reserved_bytes) {
  heap->arena = arena;
  heap->prev = arena->heap;
  heap->bytes = bytes;
  heap->reserved_bytes = reserved_bytes;
  arena->heap = heap;
  arena->fresh = 0;
  set_top(arena, heap_first_chunk(heap));
}

static void extend(struct arena *arena, size_t bytes) {
  arena->heap->bytes += bytes;
  account(arena, bytes);
  set_top(arena, arena->top);
}

static char *move_break(size_t bytes) {
  void *before = sbrk((intptr_t)bytes);
  if (before == (void *)-1)
    return NULL;
  COUNT(brks);
  return before;
}

/* The break is not where it was left (or this is the first time): begins a new heap there. */
static bool start_at_break(struct arena *arena, char *at, size_t got, size_t need) {
  char *start = (char *)round_up((uintptr_t)at, 64);
  char *end = start + sizeof(struct heap) + need;
  end = (char *)round_up((uintptr_t)(end > at + got ? end : at + got), growth_unit());
  if (end > at + got && move_break((size_t)(end - at) - got) != at + got)
    return false;
  retire_top(arena);
  account(arena, (size_t)(end - start));
  advise_huge(start, (size_t)(end - start));
  start_heap(arena, (struct heap *)start, (size_t)(end - start), 0);
  arena->by_break = true;
  return true;
}

static bool grow_by_break(struct arena *arena, size_t need) {
  size_t have = arena->top && arena->by_break ? chunk_bytes(arena->top) : 0;
  char *end = have ? (char *)arena->heap + arena->heap->bytes : NULL;
  if (need > PTRDIFF_MAX - growth_unit())
    return false;
  /* Up to a boundary of the unit, wherever the break is now. */
  size_t bytes = need > have ? need - have : 0;
  bytes = end ? round_up((uintptr_t)end + bytes, growth_unit()) - (uintptr_t)end : round_up(bytes, growth_unit());
  char *at = move_break(bytes);
  if (!at)
    return false;
  if (at != end)
    return start_at_break(arena, at, bytes, need);
  advise_huge(at, bytes);
  extend(arena, bytes);
  return true;
}

static void *map(size_t bytes, int protection) {
  COUNT(mmaps);
  void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *memory, size_t bytes) {
  if (bytes == 0)
    return;
  COUNT(munmaps);
  munmap(memory, bytes);
}

/* Returns the bytes to request beyond the need: top_pad, but a sixteenth of a large heap, which would otherwise request
   memory very often while it grows. Address space only: it is not touched. Not if the tunables were set. */
static size_t growth_pad(const struct arena *arena) {
  size_t share = dynamic_thresholds ? arena_system_bytes(arena) / GROWTH_SHARE : 0;
  if (share > GROWTH_BYTES_MAX)
    share = GROWTH_BYTES_MAX;
  return share > tunables.top_pad ? share : tunables.top_pad;
}

static bool grow_main(struct arena *arena, size_t bytes) {
  size_t need = bytes + growth_pad(arena) + CHUNK_MIN_BYTES + FENCE_BYTES;
  if (grow_by_break(arena, need))
    return true;
  size_t total = round_up(sizeof(struct heap) + need, growth_unit());
  if (total < FALLBACK_HEAP_BYTES)
    total = FALLBACK_HEAP_BYTES;
  struct heap *heap = map(total, PROT_READ | PROT_WRITE);
  if (!heap)
    return false;
  retire_top(arena);
  account(arena, total);
  advise_huge(heap, total);
  start_heap(arena, heap, total, 0);
  arena->by_break = false;
  return true;
}

/* Reserves HEAP_BYTES of address space at a multiple of HEAP_BYTES, not accessible. */
static struct heap *reserve_heap(void) {
  uintptr_t hint = atomic_load_explicit(&heap_hint, memory_order_relaxed);
  char *memory = NULL;
  if (hint) {
    COUNT(mmaps);
    memory = mmap((void *)hint, HEAP_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return NULL;
    if ((uintptr_t)memory % HEAP_BYTES != 0) {
      unmap(memory, HEAP_BYTES);
      memory = NULL;
    }
  }
  if (!memory) {
    char *twice = map((size_t)2 * HEAP_BYTES, PROT_NONE);
    if (!twice)
      return NULL;
    memory = (char *)round_up((uintptr_t)twice, HEAP_BYTES);
    unmap(twice, (size_t)(memory - twice));
    unmap(memory + HEAP_BYTES, HEAP_BYTES - (size_t)(memory - twice));
  }
  /* Mappings are placed downwards on Linux. */
  atomic_store_explicit(&heap_hint, (uintptr_t)memory - HEAP_BYTES, memory_order_relaxed);
  return (struct heap *)memory;
}

static bool make_accessible(struct heap *heap, size_t from, size_t to) {
  COUNT(mprotects);
  if (mprotect((char *)heap + from, to - from, PROT_READ | PROT_WRITE) != 0)
    return false;
  advise_huge((char *)heap + from, to - from);
  return true;
}

/* Returns the bytes of a heap to make accessible: need and pad, or only need if pad doesn't fit. 0: too much. */
static size_t heap_extent(size_t need, size_t pad) {
  if (need > HEAP_BYTES)
    return 0;
  size_t padded = round_up(need + pad, growth_unit());
  return padded <= HEAP_BYTES ? padded : round_up(need, os_page_bytes);
}

static bool grow_other(struct arena *arena, size_t bytes) {
  struct heap *heap = arena->heap;
  size_t need = bytes + CHUNK_MIN_BYTES + FENCE_BYTES;
  size_t extent = heap_extent((uintptr_t)arena->top - (uintptr_t)heap + need, growth_pad(arena));
  if (extent > heap->bytes) {
    if (!make_accessible(heap, heap->bytes, extent))
      return false;
    extend(arena, extent - heap->bytes);
    return true;
  }
  extent = heap_extent(sizeof *heap + CHUNK_ALIGNMENT + need, tunables.top_pad);
  if (extent == 0)
    return false;
  heap = reserve_heap();
  if (!heap)
    return false;
  if (!make_accessible(heap, 0, extent)) {
    unmap(heap, HEAP_BYTES);
    return false;
  }
  retire_top(arena);
  account(arena, extent);
  start_heap(arena, heap, extent, HEAP_BYTES);
  return true;
}

bool heap_grow(struct arena *arena, size_t bytes) {
  if (bytes > PTRDIFF_MAX / 2)
    return false;
  return arena == &main_arena ? grow_main(arena, bytes) : grow_other(arena, bytes);
}

struct arena *heap_new_arena(unsigned number) {
  struct heap *heap = reserve_heap();
  if (!heap)
    return NULL;
  size_t extent = heap_extent(ARENA_OFFSET + sizeof(struct arena) + CHUNK_MIN_BYTES + FENCE_BYTES, tunables.top_pad);
  if (!make_accessible(heap, 0, extent)) {
    unmap(heap, HEAP_BYTES);
    return NULL;
  }
  struct arena *arena = (struct arena *)((char *)heap + ARENA_OFFSET);
  bins_setup(&arena->bins);
  arena->chunk_flag = CHUNK_OTHER_ARENA;
  arena->number = number;
  account(arena, extent);
  start_heap(arena, heap, extent, HEAP_BYTES);
  return arena;
}

static bool trim_main(struct arena *arena, uintptr_t from) {
  struct heap *heap = arena->heap;
  char *end = (char *)heap + heap->bytes;
  if (!arena->by_break || sbrk(0) != end)
    return false;
  size_t extra = (size_t)(end - (char *)from) & ~(growth_unit() - 1);
  if (extra == 0 || !move_break(-extra))
    return false;
  heap->bytes -= extra;
  account(arena, -extra);
  if (arena->fresh > from)
    arena->fresh = (uintptr_t)heap + heap->bytes;
  set_top(arena, arena->top);
  return true;
}

/* Keeps the address space, gives back its OS pages. Memory that was never written has none. */
static bool trim_other(struct arena *arena, uintptr_t from) {
  uintptr_t dirty_end = round_up(arena->fresh, os_page_bytes);
  if (dirty_end <= from)
    return false;
  COUNT(madvises);
  if (madvise((void *)from, dirty_end - from, MADV_DONTNEED) != 0)
    return false;
  arena->fresh = from;
  return true;
}

bool heap_trim(struct arena *arena, size_t keep_bytes) {
  if (!arena->top || keep_bytes > PTRDIFF_MAX)
    return false;
  size_t keep = keep_bytes + CHUNK_MIN_BYTES + FENCE_BYTES;
  if (chunk_bytes(arena->top) <= keep)
    return false;
  uintptr_t from = round_up((uintptr_t)arena->top + keep, os_page_bytes);
  return arena == &main_arena ? trim_main(arena, from) : trim_other(arena, from);
}

bool heap_purge(struct chunk *chunk) {
  uintptr_t from = round_up((uintptr_t)(chunk + 1), os_page_bytes);
  uintptr_t to = (uintptr_t)chunk_next(chunk) & ~(os_page_bytes - 1);
  if (to <= from)
    return false;
  COUNT(madvises);
  return madvise((void *)from, to - from, MADV_DONTNEED) == 0;
}

void heap_drop_empty(struct arena *arena) {
  for (;;) {
    struct heap *heap = arena->heap;
    if (!heap || heap->reserved_bytes == 0 || !heap->prev || arena->top != heap_first_chunk(heap))
      return;
    /* The previous heap's end becomes the top again: its fence, and the free chunk before it if there is one. */
    struct heap *prev = heap->prev;
    struct chunk *end = chunk_at(prev, (ptrdiff_t)(prev->bytes - CHUNK_ALIGNMENT));
    struct chunk *fence = chunk_at(end, -CHUNK_ALIGNMENT);
    if (chunk_bytes(fence) != CHUNK_ALIGNMENT)
      fence = chunk_at(end, -2 * CHUNK_ALIGNMENT);
    size_t room = (uintptr_t)prev + prev->bytes - (uintptr_t)fence;
    if (!chunk_prev_used(fence))
      room += fence->prev_bytes;
    if (room + prev->reserved_bytes - prev->bytes < tunables.top_pad + os_page_bytes)
      return; /* it would be needed again at once */
    struct chunk *top = fence;
    if (!chunk_prev_used(fence)) {
      top = chunk_at(fence, -(ptrdiff_t)fence->prev_bytes);
      bins_unlink(&arena->bins, top);
    }
    arena->heap = prev;
    account(arena, -heap->bytes);
    arena->fresh = (uintptr_t)prev + prev->bytes;
    set_top(arena, top);
    int error = errno;
    unmap(heap, heap->reserved_bytes);
    errno = error;
  }
}

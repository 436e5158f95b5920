/* SPDX-License-Identifier: MIT */
#include "core/isolated/isolated_heap.h"

#include "core/base/assert.h"
#include "core/base/os.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
  BLOCK_BITS = ISOLATED_BLOCK_BITS,
  BLOCK_BYTES = 1 << BLOCK_BITS,
  RUN_BITS = 16,
  RUN_BYTES = 1 << RUN_BITS,
  RUNS = BLOCK_BYTES / RUN_BYTES,
  CLASS_MAX_BYTES = ISOLATED_CLASS_MAX_BYTES,
  LONG_CLASS_BYTES = 1 << 10, /* from this size on, runs of a class are long, so that the unused end weighs less */
  LONG_RUNS = 4,
  SPAN_MAX_BYTES = 2 << 20,
  CLASS_STEP_BYTES = ISOLATED_CLASS_STEP_BYTES,
  CLASSES = CLASS_MAX_BYTES / CLASS_STEP_BYTES,
  MOST_BLOCKS = 1 << 18, /* of one region: 1 TiB */
};

/* A run, or a span of several, as described in its block's first OS page. */
struct run {
  struct run *next, *previous; /* runs of the class with room */
  void *freed;                 /* objects, each with the address of the next */
  uint8_t *carve;              /* where the next object begins that was never handed out */
  uint32_t class_bytes;        /* 0: a span */
  uint32_t used, room;         /* objects: live; that fit */
  uint32_t spans;              /* how many runs belong together: a span, or the long run of a class */
  uint32_t back;               /* in a long run: how many before this one belong to it */
  uint32_t unused[3];
};
_Static_assert(sizeof(struct run) * RUNS == 4096, "one OS page describes a block");

struct block {
  uint8_t *first;
  uint64_t free_runs; /* a bit each; never run 0, which holds the descriptions */
};

/* Small, and aside from its classes: the regions that serve nothing share one OS page. */
struct region {
  uint32_t lock; /* LOCK_… */
  uint32_t block_count;
  struct run **with_room; /* by class */
  struct run *empty;      /* the run that is kept although nothing lives in it; NULL: none */
  struct block *blocks;
  uint32_t first_with_room; /* no block below has a free run */
} __attribute__((aligned(64)));

enum { LOCK_FREE, LOCK_HELD, LOCK_AWAITED };

struct isolated_owner *isolated_owners;
uintptr_t isolated_owner_limit;
static struct region *regions; /* by number */
static unsigned region_count;

static struct isolated_owner *owner_of(const void *object) {
  return &isolated_owners[(uintptr_t)object >> BLOCK_BITS];
}

/* Half the instructions of a pthread mutex, and a fork child can free it. */
static ALWAYS_INLINE bool try_lock(struct region *region) {
  uint32_t found = LOCK_FREE;
  return __atomic_compare_exchange_n(&region->lock, &found, LOCK_HELD, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void lock(struct region *region) {
  if (try_lock(region))
    return;
  int saved_errno = errno;
  while (__atomic_exchange_n(&region->lock, LOCK_AWAITED, __ATOMIC_ACQUIRE) != LOCK_FREE)
    os_futex_wait(&region->lock, LOCK_AWAITED, 0, false);
  errno = saved_errno;
}

static __attribute__((noinline)) void *wake(struct region *region, void *object) {
  os_futex_wake(&region->lock, 1, false);
  return object;
}

/* Returns the object: a function that ends in this saves no registers. */
static ALWAYS_INLINE void *unlock(struct region *region, void *object) {
  bool awaited = __atomic_exchange_n(&region->lock, LOCK_FREE, __ATOMIC_RELEASE) == LOCK_AWAITED;
  return unlikely(awaited) ? wake(region, object) : object;
}

/* Of a huge OS page, one byte that is touched would make all resident. */
static void *map_sparse(size_t bytes, bool shared) {
  void *memory = os_map(bytes, shared);
  if (memory)
    madvise(memory, bytes, MADV_NOHUGEPAGE);
  return memory;
}

int isolated_setup(unsigned count, bool shared) {
  size_t of_owners = sizeof *isolated_owners << (ISOLATED_ADDRESS_BITS - BLOCK_BITS);
  struct isolated_owner *map = map_sparse(of_owners, shared);
  regions = map_sparse((count + 1) * sizeof *regions, shared);
  struct run **classes = map_sparse(count * CLASSES * sizeof *classes, shared);
  struct block *blocks = map_sparse(count * MOST_BLOCKS * sizeof *blocks, shared);
  if (!map || !regions || !classes || !blocks)
    return -1;
  for (unsigned i = 1; i <= count; i++)
    regions[i] = (struct region){.with_room = classes + (size_t)(i - 1) * CLASSES,
                                 .blocks = blocks + (size_t)(i - 1) * MOST_BLOCKS};
  region_count = count;
  isolated_owners = map;
  isolated_owner_limit = (uintptr_t)1 << (ISOLATED_ADDRESS_BITS - BLOCK_BITS);
  return 0;
}

void isolated_before_fork(void) {
  for (unsigned i = 1; i <= region_count; i++)
    lock(&regions[i]);
}

void isolated_after_fork(void) {
  for (unsigned i = region_count; i > 0; i--)
    unlock(&regions[i], NULL);
}

/* Maps whole blocks of address space, aligned to align_bytes or a block. Not with huge OS pages, which would make a
   block resident at once. */
static void *map_aligned(size_t bytes, size_t align_bytes) {
  size_t align = align_bytes > BLOCK_BYTES ? align_bytes : BLOCK_BYTES;
  if (bytes > SIZE_MAX / 4 || align > SIZE_MAX / 4)
    return NULL;
  uint8_t *memory = os_map(bytes + align, false);
  if (!memory)
    return NULL;
  uint8_t *first = (uint8_t *)(((uintptr_t)memory + align - 1) & ~(uintptr_t)(align - 1));
  os_unmap(first > memory ? memory : NULL, (size_t)(first - memory));
  os_unmap(first + bytes, (size_t)(memory + align - first));
  madvise(first, bytes, MADV_NOHUGEPAGE);
  return first;
}

static struct run *run_of(const void *object) {
  uintptr_t block = (uintptr_t)object & ~(uintptr_t)(BLOCK_BYTES - 1);
  struct run *run = (struct run *)block + (((uintptr_t)object - block) >> RUN_BITS);
  return run - run->back;
}

static uint8_t *memory_of(const struct run *run) {
  uintptr_t block = (uintptr_t)run & ~(uintptr_t)(BLOCK_BYTES - 1);
  return (uint8_t *)(block + (((uintptr_t)run - block) / sizeof *run << RUN_BITS));
}

static struct block *block_of(struct region *region, const struct run *run) {
  /* Run 0 holds no objects, and so has room for the block's number. */
  const struct run *first = (const struct run *)((uintptr_t)run & ~(uintptr_t)(BLOCK_BYTES - 1));
  return &region->blocks[first->used];
}

static struct block *add_block(struct region *region) {
  if (region->block_count == MOST_BLOCKS)
    return NULL;
  int saved_errno = errno;
  uint8_t *memory = map_aligned(BLOCK_BYTES, BLOCK_BYTES);
  errno = saved_errno;
  if (!memory)
    return NULL;
  *owner_of(memory) = (struct isolated_owner){.region = (uint32_t)(region - regions)};
  struct block *block = &region->blocks[region->block_count];
  ((struct run *)memory)->used = region->block_count++;
  *block = (struct block){memory, ~(uint64_t)1};
  return block;
}

/* Returns the first of `count` adjacent free runs; -1: none. */
static int find_runs(uint64_t free_runs, unsigned count) {
  for (unsigned i = 1; i < count && free_runs; i++)
    free_runs &= free_runs >> 1;
  return free_runs ? __builtin_ctzll(free_runs) : -1;
}

static uint64_t run_bits(unsigned first, unsigned count) {
  return (((uint64_t)1 << count) - 1) << first; /* count is at most 32 */
}

/* count: 1 .. 32. */
static struct run *take_runs(struct region *region, unsigned count) {
  while (region->first_with_room < region->block_count && !region->blocks[region->first_with_room].free_runs)
    region->first_with_room++;
  struct block *block = NULL;
  int first = -1;
  for (uint32_t i = region->first_with_room; first < 0 && i < region->block_count; i++) {
    block = &region->blocks[i];
    first = find_runs(block->free_runs, count);
  }
  if (first < 0) {
    block = add_block(region);
    if (!block)
      return NULL;
    first = 1;
  }
  block->free_runs &= ~run_bits((unsigned)first, count);
  return (struct run *)block->first + first;
}

static void give_runs(struct region *region, struct run *run) {
  unsigned count = run->spans;
  struct block *block = block_of(region, run);
  unsigned first = (unsigned)(run - (struct run *)block->first);
  int saved_errno = errno;
  madvise(memory_of(run), (size_t)count << RUN_BITS, MADV_DONTNEED);
  errno = saved_errno;
  block->free_runs |= run_bits(first, count);
  if (block - region->blocks < region->first_with_room)
    region->first_with_room = (uint32_t)(block - region->blocks);
}

static size_t class_of(size_t bytes) {
  return (bytes + (bytes == 0) + CLASS_STEP_BYTES - 1) & ~(size_t)(CLASS_STEP_BYTES - 1);
}

static unsigned class_number(size_t class_bytes) {
  return (unsigned)(class_bytes / CLASS_STEP_BYTES - 1);
}

static void put_with_room(struct region *region, unsigned class, struct run *run) {
  struct run *next = region->with_room[class];
  run->next = next;
  run->previous = NULL;
  if (next)
    next->previous = run;
  region->with_room[class] = run;
}

static void remove_with_room(struct region *region, unsigned class, struct run *run) {
  if (run->next)
    run->next->previous = run->previous;
  if (run->previous)
    run->previous->next = run->next;
  else
    region->with_room[class] = run->next;
}

static struct run *add_run(struct region *region, size_t class_bytes) {
  unsigned spans = class_bytes > LONG_CLASS_BYTES ? LONG_RUNS : 1;
  struct run *run = take_runs(region, spans);
  if (!run)
    return NULL;
  *run = (struct run){.carve = memory_of(run),
                      .class_bytes = (uint32_t)class_bytes,
                      .room = spans * RUN_BYTES / (uint32_t)class_bytes,
                      .spans = spans};
  for (unsigned i = 1; i < spans; i++)
    run[i].back = i;
  put_with_room(region, class_number(class_bytes), run);
  return run;
}

/* Of a run with room. */
static ALWAYS_INLINE void *take_of_run(struct region *region, struct run *run) {
  void *object = run->freed;
  if (object) {
    memcpy(&run->freed, object, sizeof run->freed);
  } else {
    object = run->carve;
    run->carve += run->class_bytes;
  }
  if (run == region->empty)
    region->empty = NULL;
  if (unlikely(++run->used == run->room))
    remove_with_room(region, class_number(run->class_bytes), run);
  return object;
}

static void *acquire_of_class(struct region *region, size_t class_bytes) {
  struct run *run = region->with_room[class_number(class_bytes)];
  if (!run)
    run = add_run(region, class_bytes);
  return run ? take_of_run(region, run) : NULL;
}

/* One empty run is kept: a lone object that comes and goes would cost two system calls each time. */
static void keep_empty(struct region *region, struct run *run) {
  struct run *before = region->empty;
  region->empty = run;
  if (!before)
    return;
  remove_with_room(region, class_number(before->class_bytes), before);
  give_runs(region, before);
}

static void *acquire_span(struct region *region, size_t bytes) {
  unsigned count = (unsigned)((bytes + RUN_BYTES - 1) >> RUN_BITS);
  struct run *run = take_runs(region, count);
  if (!run)
    return NULL;
  *run = (struct run){.spans = count};
  return memory_of(run);
}

static size_t whole_os_pages(size_t bytes) {
  return (bytes + os_page_bytes() - 1) & ~(os_page_bytes() - 1);
}

static void *acquire_mapping(unsigned region, size_t bytes, size_t align_bytes) {
  if (bytes >= (size_t)1 << 38)
    return NULL;
  int saved_errno = errno;
  bytes = whole_os_pages(bytes);
  void *memory = map_aligned(bytes, align_bytes);
  errno = saved_errno;
  if (memory)
    *owner_of(memory) = (struct isolated_owner){.region = region, .os_pages = (uint32_t)(bytes / os_page_bytes())};
  return memory;
}

void *isolated_acquire_large(unsigned number, size_t bytes, size_t align) {
  if (bytes > SPAN_MAX_BYTES || align > RUN_BYTES)
    return acquire_mapping(number, bytes, align);
  struct region *region = &regions[number];
  lock(region);
  return unlock(region, acquire_span(region, bytes));
}

static __attribute__((noinline)) void *malloc_slowly(unsigned number, size_t bytes) {
  if (bytes > CLASS_MAX_BYTES)
    return isolated_acquire_large(number, bytes, 0);
  struct region *region = &regions[number];
  lock(region);
  return unlock(region, acquire_of_class(region, class_of(bytes)));
}

static __attribute__((noinline)) void *malloc_locked(struct region *region, size_t bytes) {
  return unlock(region, acquire_of_class(region, class_of(bytes)));
}

/* Calls nothing but at its ends, so that it saves no registers. */
void *isolated_malloc(unsigned number, size_t bytes) {
  struct region *region = &regions[number];
  if (unlikely(bytes > CLASS_MAX_BYTES || !try_lock(region)))
    return malloc_slowly(number, bytes);
  struct run *run = region->with_room[class_number(class_of(bytes))];
  if (unlikely(!run))
    return malloc_locked(region, bytes);
  return unlock(region, take_of_run(region, run));
}

static __attribute__((noinline)) void unmap_object(void *object, struct isolated_owner *owner) {
  int saved_errno = errno;
  size_t bytes = owner->os_pages * os_page_bytes();
  *owner = (struct isolated_owner){0};
  os_unmap(object, bytes);
  errno = saved_errno;
}

static ALWAYS_INLINE void link_freed(struct run *run, void *object) {
  memcpy(object, &run->freed, sizeof run->freed);
  run->freed = object;
  run->used--;
}

/* Of a span, or where the run gets room or becomes empty. */
static __attribute__((noinline)) void release_locked(struct region *region, struct run *run, void *object) {
  if (run->class_bytes) {
    if (run->used == run->room)
      put_with_room(region, class_number(run->class_bytes), run);
    link_freed(run, object);
    if (run->used == 0)
      keep_empty(region, run);
  } else {
    give_runs(region, run);
  }
  unlock(region, NULL);
}

static __attribute__((noinline)) void release_slowly(struct region *region, struct run *run, void *object) {
  lock(region);
  release_locked(region, run, object);
}

/* Like isolated_malloc, calls nothing but at its ends. */
void isolated_release(void *object) {
  if (!object)
    return;
  struct isolated_owner *owner = owner_of(object);
  HT_ASSERT(owner->region != 0);
  if (unlikely(owner->os_pages)) {
    unmap_object(object, owner);
    return;
  }
  struct region *region = &regions[owner->region];
  struct run *run = run_of(object);
  if (unlikely(!try_lock(region))) {
    release_slowly(region, run, object);
  } else if (unlikely(run->class_bytes == 0 || run->used == run->room || run->used == 1)) {
    release_locked(region, run, object);
  } else {
    link_freed(run, object);
    unlock(region, NULL);
  }
}

size_t isolated_usable_bytes(const void *object) {
  const struct isolated_owner *owner = owner_of(object);
  if (owner->os_pages)
    return owner->os_pages * os_page_bytes();
  const struct run *run = run_of(object);
  return run->class_bytes ? run->class_bytes : (size_t)run->spans << RUN_BITS;
}

/* In place only if a new object would be as large: else a region of objects that shrank would keep their old memory. */
void *isolated_resize(void *object, size_t size_bytes) {
  size_t old_bytes = isolated_usable_bytes(object);
  size_t new_bytes = size_bytes <= CLASS_MAX_BYTES  ? class_of(size_bytes)
                     : size_bytes <= SPAN_MAX_BYTES ? (size_bytes + RUN_BYTES - 1) & ~(size_t)(RUN_BYTES - 1)
                                                    : whole_os_pages(size_bytes);
  if (new_bytes == old_bytes)
    return object;
  void *moved = isolated_malloc(owner_of(object)->region, size_bytes);
  if (!moved)
    return NULL;
  memcpy(moved, object, old_bytes < size_bytes ? old_bytes : size_bytes);
  isolated_release(object);
  return moved;
}

/* SPDX-License-Identifier: MIT */
/* A malloc library that breaks one rule of malloc, once, for the tests of the verify pass. Without a fault it keeps all
   rules.

   Environment: FAULT names the rule (the table below), FAULT_AT the call that breaks it, counted from 1 among calls of
   the kind that the fault is about. Blocks are bumped from fresh memory; the last freed one is reused if it is large
   enough. One lock. */
#include "core/test/usual.h"

#define PUBLIC __attribute__((visibility("default")))
#define ARENA_BYTES ((uint64_t)1 << 30)

enum fault {
  NO_FAULT,
  OVERLAP,          /* malloc returns a part of the block that it returned last */
  MISALIGNED,       /* malloc returns an address that is only a multiple of 8 */
  UNALIGNED,        /* posix_memalign and its like return an address aligned to 16 only */
  DIRTY_CALLOC,     /* calloc leaves a byte that is not zero */
  FREE_NEIGHBOUR,   /* free writes to the end of the block returned last */
  WRITE_AFTER_FREE, /* the allocator writes to a freed block after having handed it out again */
  REALLOC_LOSES,    /* realloc copies a byte too few */
  REALLOC_SHRINKS,  /* realloc treats the block as smaller than it was */
  REALLOC_OVERLAP,  /* realloc returns a part of the block that was returned last */
  USABLE_SIZE,      /* malloc_usable_size is one less than the request */
};

static const char *const names[] = {"",
                                    "overlap",
                                    "misaligned",
                                    "unaligned",
                                    "dirty_calloc",
                                    "free_neighbour",
                                    "write_after_free",
                                    "realloc_loses",
                                    "realloc_shrinks",
                                    "realloc_overlap",
                                    "usable_size"};

/* Directly before each object. */
struct header {
  uint64_t bytes, room;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *arena;
static uint64_t used, fault_at, calls_of_kind;
static enum fault fault;
static uint8_t *last_given, *last_freed, *given_again;

/* Before main, so that reading the environment is not part of a call's instructions; earlier where a constructor that
   runs before this one calls malloc. */
__attribute__((constructor)) static void begin(void) {
  if (arena)
    return;
  arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED)
    abort();
  const char *name = getenv("FAULT"), *at = getenv("FAULT_AT");
  for (unsigned index = 1; name && index < sizeof names / sizeof *names; index++) {
    if (strcmp(name, names[index]) == 0)
      fault = (enum fault)index;
  }
  if (name && fault == NO_FAULT)
    abort();
  fault_at = at ? strtoull(at, NULL, 10) : 1;
}

static struct header *header_of(void *object) {
  return (struct header *)object - 1;
}

/* Returns whether this is the call that breaks that rule. */
static int breaks(enum fault which) {
  return fault == which && ++calls_of_kind == fault_at;
}

static uint8_t *take(uint64_t alignment, uint64_t bytes) {
  uint8_t *object;
  if (!arena)
    begin();
  if (alignment <= 16 && last_freed && header_of(last_freed)->room >= bytes) {
    object = given_again = last_freed;
    last_freed = NULL;
  } else {
    if (used + bytes + alignment + 64 > ARENA_BYTES)
      abort();
    uint64_t address = ((uint64_t)(uintptr_t)arena + used + sizeof(struct header) + alignment - 1) & ~(alignment - 1);
    object = (uint8_t *)(uintptr_t)address;
    header_of(object)->room = (bytes + 15) & ~(uint64_t)15;
    used = address + header_of(object)->room + 16 - (uint64_t)(uintptr_t)arena;
  }
  header_of(object)->bytes = bytes;
  return last_given = object;
}

static uint8_t *locked_take(uint64_t alignment, uint64_t bytes) {
  pthread_mutex_lock(&lock);
  uint8_t *object = take(alignment < 16 ? 16 : alignment, bytes);
  pthread_mutex_unlock(&lock);
  return object;
}

PUBLIC void *malloc(size_t bytes) {
  pthread_mutex_lock(&lock);
  uint8_t *before = last_given, *again = given_again;
  uint8_t *object = NULL;
  if (before && header_of(before)->bytes >= 64 && bytes >= 16 && breaks(OVERLAP))
    object = before + 48;
  if (bytes >= 16 && breaks(MISALIGNED))
    object = take(16, bytes + 16) + 8;
  if (again && header_of(again)->bytes > 0 && again != last_freed && breaks(WRITE_AFTER_FREE))
    again[0] ^= 1;
  if (!object)
    object = take(16, bytes);
  pthread_mutex_unlock(&lock);
  return object;
}

PUBLIC void free(void *object) {
  if (!object)
    return;
  pthread_mutex_lock(&lock);
  if (last_given && last_given != object && header_of(last_given)->bytes > 0 && breaks(FREE_NEIGHBOUR))
    last_given[header_of(last_given)->bytes - 1] ^= 1;
  if (last_given == object)
    last_given = NULL;
  if (given_again == object)
    given_again = NULL;
  last_freed = object;
  pthread_mutex_unlock(&lock);
}

PUBLIC void *calloc(size_t count, size_t bytes) {
  uint8_t *object = locked_take(16, count * bytes);
  memset(object, 0, count * bytes);
  if (count * bytes > 0 && breaks(DIRTY_CALLOC))
    object[count * bytes - 1] = 1;
  return object;
}

PUBLIC void *realloc(void *object, size_t bytes) {
  if (!object)
    return locked_take(16, bytes);
  uint64_t old_bytes = header_of(object)->bytes;
  uint8_t *last = last_given;
  if (last && last != object && header_of(last)->bytes >= 64 && bytes > 0 && breaks(REALLOC_OVERLAP))
    return last + 48;
  uint8_t *moved = locked_take(16, bytes);
  uint64_t kept = old_bytes < bytes ? old_bytes : bytes;
  if (kept > 0 && bytes > 0 && breaks(REALLOC_LOSES)) {
    memcpy(moved, object, kept - 1);
    moved[kept - 1] = (uint8_t) ~((uint8_t *)object)[kept - 1];
  } else if (kept > 1 && breaks(REALLOC_SHRINKS)) {
    memcpy(moved, object, kept / 2);
    memset(moved + kept / 2, 0, kept - kept / 2);
  } else {
    memcpy(moved, object, kept);
  }
  free(object);
  return moved;
}

PUBLIC void *memalign(size_t alignment, size_t bytes) {
  if (alignment > 16 && breaks(UNALIGNED))
    return locked_take(alignment, bytes + 16) + 16;
  return locked_take(alignment, bytes);
}

PUBLIC void *aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}

PUBLIC int posix_memalign(void **out, size_t alignment, size_t bytes) {
  *out = memalign(alignment, bytes);
  return 0;
}

PUBLIC size_t malloc_usable_size(void *object) {
  uint64_t bytes = object ? header_of(object)->bytes : 0;
  return bytes - (bytes > 0 && breaks(USABLE_SIZE));
}

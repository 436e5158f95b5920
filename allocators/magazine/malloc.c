/* SPDX-License-Identifier: MIT */
#include "allocators/common/allocator.h"
#include "allocators/common/base.h"
#include "allocators/common/counters.h"
#include "allocators/common/entry.h"
#include "allocators/magazine/magazines.h"
#include "allocators/magazine/slab.h"
#include "allocators/magazine/zones.h"

#include <errno.h>

/* malloc and calloc, from entry to return, in the order of a request's steps:

     malloc             the thread's loaded magazine has an object of that size class: done
     malloc_slow        it has none, or the request is large
     cache_take (magazines.c)
                        previous magazine and loaded change places; or
       depot_take_full    the depot of the class has a full magazine for an empty one; or
       slab_take          the slabs of the class: an object that was given back, a fresh one, or
       zones_take         a zone from the zone magazine, which maps some more when it is empty
     large_take (slab.c)
                        more than SMALL_MAX_BYTES: its own run of zones

   Freeing is below. */

static void *malloc_slow(size_t object_bytes, bool *zeroed);

/* Takes an object of the loaded magazine, or returns NULL. A write to it while it was free has changed its key. */
static inline void *take_loaded(size_t object_bytes) {
  struct magazine *magazine = cache.slots[class_for(object_bytes)].inlined;
  uint32_t rounds = magazine->rounds;
  if (UNLIKELY(rounds == 0))
    return NULL;
  struct freed *object = magazine->objects[rounds - 1];
  if (UNLIKELY(object->key != key_of(object, magazine_secret)))
    fault("malloc", "an object was written after it was freed", object);
  magazine->rounds = rounds - 1;
  object->key = 0;
  return object;
}

void *allocator_malloc(size_t object_bytes) {
  if (LIKELY(object_bytes <= SMALL_MAX_BYTES)) {
    void *object = take_loaded(object_bytes);
    if (LIKELY(object != NULL))
      return object;
  }
  bool zeroed;
  return malloc_slow(object_bytes, &zeroed);
}

/* *zeroed: whether the object is zero already. */
static __attribute__((noinline)) void *malloc_slow(size_t object_bytes, bool *zeroed) {
  startup();
  if (size_is_too_large(object_bytes))
    return NULL;
  struct freed *object;
  if (object_bytes <= SMALL_MAX_BYTES) {
    *zeroed = false;
    object = cache_take(class_for(object_bytes));
    if (LIKELY(object != NULL))
      object->key = 0;
  } else {
    object = large_take(object_bytes, OBJECT_ALIGNMENT, zeroed);
  }
  if (UNLIKELY(!object))
    errno = ENOMEM;
  return object;
}

void *allocator_calloc(size_t count, size_t element_bytes) {
  size_t object_bytes;
  if (!array_bytes(count, element_bytes, &object_bytes))
    return NULL;
  void *object = NULL;
  bool zeroed = false;
  if (LIKELY(object_bytes <= SMALL_MAX_BYTES))
    object = take_loaded(object_bytes);
  if (UNLIKELY(!object))
    object = malloc_slow(object_bytes, &zeroed);
  return !object || zeroed ? object : memset(object, 0, object_bytes);
}

PUBLIC_NAME(void *, malloc, (size_t object_bytes), allocator_malloc);
PUBLIC_NAME(void *, calloc, (size_t count, size_t element_bytes), allocator_calloc);

/* free, from entry to return, in the order of an object's steps:

     free               the thread's loaded magazine of its size class has room: done
     free_slow          any inconsistency ends the process
     cache_give (magazines.c)
                        loaded and previous magazine change places; or
       depot_take_empty   the depot of the class gives an empty magazine for a full one, or drains the full one
       slab_give          into its zone; a zone in which nothing is used goes to the zone magazine
     large_release (slab.c)
                        a large one: its run of zones is kept, or unmapped */

static void free_slow(void *object);

void allocator_free(void *object) {
  if (UNLIKELY(!object))
    return;
  struct freed *freed = object;
  const struct zone *zone = zone_of(object);
  uintptr_t key = key_of(object, magazine_secret);
  if (LIKELY(zone_is_in_use(zone) && zone_has_object_at(zone, object) && freed->key != key)) {
    struct magazine *magazine = cache.slots[zone->number].inlined;
    uint32_t rounds = magazine->rounds;
    if (LIKELY(rounds < magazine->capacity)) {
      freed->key = key;
      magazine->objects[rounds] = freed;
      magazine->rounds = rounds + 1;
      return;
    }
  }
  free_slow(object);
}

static __attribute__((noinline)) void free_slow(void *object) {
  struct zone *zone = check_object("free", object);
  if (zone->number == CLASS_LARGE)
    large_release(zone);
  else
    cache_give(zone->number, object);
}

PUBLIC_NAME(void, free, (void *object), allocator_free);
PUBLIC_NAME(void, cfree, (void *object), allocator_free);

/* realloc: in place while the size class, or the run of zones, has room and is not much too large; by moving OS pages
   if there are many, else by copying. Also objects at multiples of more than 16. */

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

/* Hooks with which the common code starts this allocator, and handles a fork.

   Order of locks: a class's slabs, the zone magazine, the runs. A depot's is taken alone. */

void allocator_start(void) {
  class_setup();
  depot_setup();
  cache_setup();
}

void allocator_before_fork(void) {
  for (unsigned number = 0; number < CLASSES; number++) {
    depot_lock(number);
    slab_lock(number);
  }
  lock_take(&zones_lock);
  lock_take(&runs_lock);
}

void allocator_after_fork(bool in_child) {
  (void)in_child;
  lock_drop(&runs_lock);
  lock_drop(&zones_lock);
  for (unsigned number = 0; number < CLASSES; number++) {
    slab_unlock(number);
    depot_unlock(number);
  }
}

/* The states of a block in the heap walk (common/allocator.h). Large objects are not visited: each has its own run of
   zones. */
enum walk_state {
  WALK_USED,     /* by the program, or as a magazine */
  WALK_MAGAZINE, /* free, in a magazine of some thread or of a depot */
  WALK_SLAB,     /* free, in a zone of its class */
  WALK_FRESH,    /* the end of a zone, of which nothing was handed out yet */
  WALK_ZONE,     /* a whole zone, in the zone magazine */
  WALK_RUN,      /* a run of zones that is kept for large objects */
  WALK_STATES
};

struct visitor {
  void (*visit)(const void *address, size_t bytes, unsigned state, void *context);
  void *context;
};

_Static_assert((int)SLAB_USED == WALK_USED && (int)SLAB_MAGAZINE == WALK_MAGAZINE && (int)SLAB_FREE == WALK_SLAB &&
                   (int)SLAB_FRESH == WALK_FRESH,
               "a slab's states are the first");

static void visit_object(const void *address, size_t bytes, enum slab_state state, void *context) {
  const struct visitor *visitor = context;
  visitor->visit(address, bytes, state, visitor->context);
}

static void visit_zone(const struct zone *zone, void *context) {
  const struct visitor *visitor = context;
  visitor->visit(zone, ZONE_BYTES, WALK_ZONE, visitor->context);
}

static void visit_run(const struct zone *zone, void *context) {
  const struct visitor *visitor = context;
  visitor->visit(zone, zone->run_bytes, WALK_RUN, visitor->context);
}

void heaptape_heap_walk(void (*visit)(const void *address, size_t bytes, unsigned state, void *context),
                        void *context) {
  struct visitor visitor = {visit, context};
  startup();
  for (unsigned number = 0; number < CLASSES; number++)
    slab_walk(number, visit_object, &visitor);
  zones_walk(visit_zone, &visitor);
  runs_walk(visit_run, &visitor);
}

const char *heaptape_heap_walk_state(unsigned state) {
  static const char *const names[] = {"used", "magazine", "slab", "fresh", "zone", "run"};
  _Static_assert(sizeof names / sizeof *names == WALK_STATES, "a name for each");
  return state < WALK_STATES ? names[state] : NULL;
}

/* The rest of the malloc API: figures of the heap, giving memory back, settings (and common/entry.c). */

enum { MMAP_THRESHOLD_MAX = 32 << 20 /* glibc's */ };

void allocator_summarize(const struct heap_sums *sums, struct mallinfo2 *info) {
  size_t most;
  info->uordblks = sums->bytes[WALK_USED];
  for (int state = WALK_USED + 1; state < WALK_STATES; state++) {
    info->ordblks += sums->count[state];
    info->fordblks += sums->bytes[state];
  }
  info->smblks = sums->count[WALK_MAGAZINE];
  info->fsmblks = sums->bytes[WALK_MAGAZINE];
  info->arena = zones_mapped_bytes(&most) + sums->bytes[WALK_RUN];
  info->usmblks = most;
  info->keepcost = sums->bytes[WALK_ZONE] + sums->bytes[WALK_RUN];
  large_count(&info->hblks, &info->hblkhd);
}

void allocator_print_parts(FILE *stream) {
  size_t most, bytes = zones_mapped_bytes(&most);
  fprintf(stream, "<system type=\"current\" size=\"%zu\"/>\n<system type=\"max\" size=\"%zu\"/>\n", bytes, most);
}

/* Empties this thread's magazines and the depots, but not the magazines of other threads. */
int allocator_malloc_trim(size_t keep_bytes) {
  (void)keep_bytes; /* zones are anywhere: there is no end of the heap at which to keep room */
  startup();
  int error = errno;
  cache_empty();
  for (unsigned number = 0; number < CLASSES; number++)
    depot_trim(number);
  bool any = zones_trim();
  any |= runs_trim();
  errno = error;
  return any;
}

/* Accepts glibc's options without effect: what they set does not exist here. */
int allocator_mallopt(int option, int value) {
  startup();
  if (value < 0)
    return 0;
  switch (option) {
  case M_MMAP_THRESHOLD:
    return value <= MMAP_THRESHOLD_MAX;
  case M_MXFAST:
  case M_TRIM_THRESHOLD:
  case M_TOP_PAD:
  case M_MMAP_MAX:
  case M_ARENA_MAX:
  case M_ARENA_TEST:
  case M_CHECK_ACTION:
  case M_PERTURB:
    return 1;
  default:
    return 0;
  }
}

PUBLIC_NAME(int, malloc_trim, (size_t keep_bytes), allocator_malloc_trim);
PUBLIC_NAME(int, mallopt, (int option, int value), allocator_mallopt);

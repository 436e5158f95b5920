/* The rest of the malloc API: queries of the heap, and settings. */
#include "allocators/reference/arena/arena.h"
#include "allocators/reference/arena/heap.h"
#include "allocators/reference/arena/mapped.h"
#include "allocators/reference/arena/release.h"
#include "allocators/reference/base/tunables.h"
#include "allocators/reference/entry.h"
#include "allocators/reference/reference.h"
#include "allocators/reference/startup.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>

size_t reference_malloc_usable_size(void *object) {
  return object ? chunk_usable_bytes(chunk_of(object)) : 0;
}

/* Purges the free chunks of a list. */
static bool purge_list(struct links *list) {
  bool any = false;
  for (struct links *links = list->next; links != list; links = links->next)
    any |= heap_purge(chunk_of_links(links));
  return any;
}

int reference_malloc_trim(size_t keep_bytes) {
  startup();
  int error = errno;
  bool any = false;
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena)) {
    lock_take(&arena->lock);
    arena_consolidate(arena);
    any |= purge_list(&arena->bins.unsorted);
    for (unsigned number = SMALL_BINS; number < BINS; number++) /* a small chunk holds no whole OS page */
      any |= purge_list(&arena->bins.lists[number]);
    any |= heap_trim(arena, arena == &main_arena ? keep_bytes : 0);
    arena_unlock(arena);
  }
  errno = error;
  return any;
}

struct sums {
  size_t count[REFERENCE_STATES], bytes[REFERENCE_STATES];
};

static void add_chunk(const struct reference_chunk *chunk, void *context) {
  struct sums *sums = context;
  sums->count[chunk->state]++;
  sums->bytes[chunk->state] += chunk->size_bytes;
}

static struct mallinfo2 summarize(void) {
  struct sums sums = {.count = {0}};
  struct mallinfo2 info = {0};
  reference_walk(add_chunk, &sums);
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena)) {
    info.arena += arena_system_bytes(arena);
    info.usmblks += arena->system_bytes_max;
  }
  info.smblks = sums.count[REFERENCE_FAST];
  info.fsmblks = sums.bytes[REFERENCE_FAST];
  for (int state = REFERENCE_UNSORTED; state < REFERENCE_STATES; state++) {
    info.ordblks += sums.count[state];
    info.fordblks += sums.bytes[state];
  }
  info.fordblks += info.fsmblks;
  info.uordblks = sums.bytes[REFERENCE_USED] + sums.bytes[REFERENCE_TCACHE];
  info.keepcost = sums.bytes[REFERENCE_TOP];
  mapped_count(&info.hblks, &info.hblkhd);
  return info;
}

struct mallinfo2 reference_mallinfo2(void);
struct mallinfo2 reference_mallinfo2(void) {
  return summarize();
}

/* The old form: sums modulo 2^32, as everywhere. */
struct mallinfo reference_mallinfo(void);
struct mallinfo reference_mallinfo(void) {
  struct mallinfo2 info = summarize();
  return (struct mallinfo){
      .arena = (int)info.arena,
      .ordblks = (int)info.ordblks,
      .smblks = (int)info.smblks,
      .hblks = (int)info.hblks,
      .hblkhd = (int)info.hblkhd,
      .usmblks = (int)info.usmblks,
      .fsmblks = (int)info.fsmblks,
      .uordblks = (int)info.uordblks,
      .fordblks = (int)info.fordblks,
      .keepcost = (int)info.keepcost,
  };
}

/* Sums first, then prints: stdio allocates. */
int reference_malloc_info(int options, FILE *stream);
int reference_malloc_info(int options, FILE *stream) {
  if (options != 0) {
    errno = EINVAL;
    return -1;
  }
  struct sums sums = {.count = {0}};
  size_t mapped, mapped_bytes;
  reference_walk(add_chunk, &sums);
  mapped_count(&mapped, &mapped_bytes);
  fprintf(stream, "<malloc version=\"reference-1\">\n");
  for (int state = 0; state < REFERENCE_STATES; state++)
    fprintf(stream, "<total type=\"%s\" count=\"%zu\" size=\"%zu\"/>\n",
            reference_state_name((enum reference_state)state), sums.count[state], sums.bytes[state]);
  fprintf(stream, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", mapped, mapped_bytes);
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena))
    fprintf(stream,
            "<heap nr=\"%u\"><system type=\"current\" size=\"%zu\"/><system type=\"max\" size=\"%zu\"/></heap>\n",
            arena->number, arena_system_bytes(arena), arena->system_bytes_max);
  fprintf(stream, "</malloc>\n");
  return 0;
}

void reference_malloc_stats(void);
void reference_malloc_stats(void) {
  struct mallinfo2 info = summarize();
  fprintf(stderr, "system bytes = %zu\nin use bytes = %zu\nmapped objects = %zu\nmapped bytes = %zu\n", info.arena,
          info.uordblks, info.hblks, info.hblkhd);
}

int reference_mallopt(int option, int value) {
  startup();
  if (value < 0)
    return 0;
  size_t number = (size_t)value;
  switch (option) {
  case M_MXFAST:
    if (number > FAST_MAX_BYTES - CHUNK_OVERHEAD)
      return 0;
    tunables.fast_max_bytes = number == 0 ? 0 : chunk_bytes_for(number);
    return 1;
  case M_TRIM_THRESHOLD:
    tunables.dynamic_thresholds = false;
    tunables.trim_threshold = number;
    return 1;
  case M_TOP_PAD:
    tunables.dynamic_thresholds = false;
    tunables.top_pad = number;
    return 1;
  case M_MMAP_THRESHOLD:
    if (number > HEAP_BYTES / 2)
      return 0;
    tunables.dynamic_thresholds = false;
    tunables.mmap_threshold = number;
    return 1;
  case M_MMAP_MAX:
    tunables.dynamic_thresholds = false;
    if (number == 0)
      tunables.mmap_threshold = SIZE_MAX;
    return 1;
  case M_ARENA_MAX:
    tunables.arenas = number;
    return 1;
  case M_PERTURB: /* the inlined paths of caches that exist would miss it: only the tunable fills */
  case M_ARENA_TEST:
  case M_CHECK_ACTION:
    return 1;
  default:
    return 0;
  }
}

PUBLIC_NAME(size_t, malloc_usable_size, (void *object), reference_malloc_usable_size);
PUBLIC_NAME(int, malloc_trim, (size_t keep_bytes), reference_malloc_trim);
PUBLIC_NAME(struct mallinfo2, mallinfo2, (void), reference_mallinfo2);
PUBLIC_NAME(struct mallinfo, mallinfo, (void), reference_mallinfo);
PUBLIC_NAME(int, malloc_info, (int options, FILE *stream), reference_malloc_info);
PUBLIC_NAME(void, malloc_stats, (void), reference_malloc_stats);
PUBLIC_NAME(int, mallopt, (int option, int value), reference_mallopt);

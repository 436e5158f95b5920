/* SPDX-License-Identifier: MIT */
#include "allocators/common/entry.h"
#include "allocators/common/allocator.h"
#include "allocators/common/base.h"
#include "allocators/common/counters.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/auxv.h>

/* The aligned forms: which arguments each refuses, and how it reports that. */

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

/* Calls that add a check to another one: frees with the object's size, and realloc of an array. */

void allocator_free_sized(void *object, size_t object_bytes) {
  if (object && UNLIKELY(is_aligned(object) && object_bytes > allocator_malloc_usable_size(object)))
    fault("free_sized", "the object is smaller than the given size", object);
  allocator_free(object);
}

void allocator_free_aligned_sized(void *object, size_t alignment, size_t object_bytes) {
  if (object && UNLIKELY((uintptr_t)object & (alignment - 1)))
    fault("free_aligned_sized", "the object does not have the given alignment", object);
  allocator_free_sized(object, object_bytes);
}

void *allocator_reallocarray(void *object, size_t count, size_t element_bytes) {
  size_t object_bytes;
  if (UNLIKELY(__builtin_mul_overflow(count, element_bytes, &object_bytes))) {
    errno = ENOMEM;
    return NULL;
  }
  return allocator_realloc(object, object_bytes);
}

PUBLIC_NAME(void, free_sized, (void *object, size_t object_bytes), allocator_free_sized);
PUBLIC_NAME(void, free_aligned_sized, (void *object, size_t alignment, size_t object_bytes),
            allocator_free_aligned_sized);
PUBLIC_NAME(void *, reallocarray, (void *object, size_t count, size_t element_bytes), allocator_reallocarray);

/* The malloc API's figures of the heap: all from the heap walk and the allocator's additions to it. */

static void add_block(const void *address, size_t bytes, unsigned state, void *context) {
  struct heap_sums *sums = context;
  (void)address;
  sums->count[state]++;
  sums->bytes[state] += bytes;
}

static struct mallinfo2 summarize(struct heap_sums *sums) {
  struct mallinfo2 info = {0};
  startup();
  heaptape_heap_walk(add_block, sums);
  allocator_summarize(sums, &info);
  return info;
}

struct mallinfo2 allocator_mallinfo2(void) {
  struct heap_sums sums = {.count = {0}};
  return summarize(&sums);
}

/* The old form: sums modulo 2^32, as everywhere. */
struct mallinfo allocator_mallinfo(void);
struct mallinfo allocator_mallinfo(void) {
  struct mallinfo2 info = allocator_mallinfo2();
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

/* Computes all sums before printing, as stdio allocates. */
int allocator_malloc_info(int options, FILE *stream) {
  if (options != 0) {
    errno = EINVAL;
    return -1;
  }
  struct heap_sums sums = {.count = {0}};
  struct mallinfo2 info = summarize(&sums);
  const char *name;
  fprintf(stream, "<malloc version=\"" ALLOCATOR_NAME "-1\">\n");
  for (unsigned state = 0; (name = heaptape_heap_walk_state(state)); state++)
    fprintf(stream, "<total type=\"%s\" count=\"%zu\" size=\"%zu\"/>\n", name, sums.count[state], sums.bytes[state]);
  fprintf(stream, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", info.hblks, info.hblkhd);
  allocator_print_parts(stream);
  fprintf(stream, "</malloc>\n");
  return 0;
}

void allocator_malloc_stats(void);
void allocator_malloc_stats(void) {
  struct mallinfo2 info = allocator_mallinfo2();
  fprintf(stderr, "system bytes = %zu\nin use bytes = %zu\nmapped objects = %zu\nmapped bytes = %zu\n", info.arena,
          info.uordblks, info.hblks, info.hblkhd);
}

PUBLIC_NAME(struct mallinfo2, mallinfo2, (void), allocator_mallinfo2);
PUBLIC_NAME(struct mallinfo, mallinfo, (void), allocator_mallinfo);
PUBLIC_NAME(int, malloc_info, (int options, FILE *stream), allocator_malloc_info);
PUBLIC_NAME(void, malloc_stats, (void), allocator_malloc_stats);

const char allocator_name[] = ALLOCATOR_NAME, allocator_variable[] = ALLOCATOR_VARIABLE;
bool started;
size_t os_page_bytes = 4096;

static void after_fork_in_parent(void) {
  allocator_after_fork(false);
}

/* The counters first: dropping a lock counts. */
static void after_fork_in_child(void) {
  counters_after_fork();
  allocator_after_fork(true);
}

/* POSIX runs prepare handlers in reverse order of registration. Ours are registered by the first malloc of the process,
   so they run last before the fork, when other handlers no longer allocate, and first afterwards, before these allocate
   again. */
void startup_first(void) {
  int error = errno;
  started = true;
  tunables_read();
  unsigned long bytes = getauxval(AT_PAGESZ);
  if (bytes)
    os_page_bytes = bytes;
  allocator_start();
  pthread_atfork(allocator_before_fork, after_fork_in_parent, after_fork_in_child);
  errno = error;
}

/* Most programs have called malloc before this; those that never do get warnings about wrong settings, too. */
__attribute__((constructor)) static void at_load(void) {
  startup();
}

static pthread_key_t key;
static bool key_exists;

void thread_end_setup(void (*on_end)(void *unused)) {
  key_exists = pthread_key_create(&key, on_end) == 0;
}

void thread_end_watch(void) {
  if (key_exists)
    pthread_setspecific(key, &key);
}

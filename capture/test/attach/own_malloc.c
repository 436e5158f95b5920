/* SPDX-License-Identifier: MIT */
/* An allocator to be linked into a program. With PREFIX, its names have that prefix, and it has jemalloc's mark.

   The functions that are called most begin with slow instructions, so that a thread that calls them is often stopped
   between these: where a jump to a hook is written over them. */
#include "core/test/usual.h"

#ifdef PREFIX
#undef malloc /* in code that is compiled with this, these are the prefixed ones */
#undef free
#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)
#define OWN(name) NAME(PREFIX, name)
#else
#define OWN(name) name
#endif
/* Three instructions that are overwritten, of two bytes each: a stopped thread is behind one of them more often than
   behind fences. */
#define SLOW_ENTRY __attribute__((naked, noipa))
#define SLOWLY(own) __asm__("pause\n  pause\n  pause\n  jmp " #own)

enum { CLASS_BYTES = 64, CLASSES = 1024, HEADER_BYTES = 16, CHUNK_BYTES = 1 << 22 };

void *OWN(malloc)(size_t bytes);
void OWN(free)(void *object);
void *OWN(calloc)(size_t count, size_t bytes);
void *OWN(realloc)(void *object, size_t bytes);
int OWN(posix_memalign)(void **result, size_t alignment, size_t bytes);
void *OWN(aligned_alloc)(size_t alignment, size_t bytes);
int OWN(mallctl)(void);
void *own_acquire(size_t bytes);
void own_release(void *object);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *chunk;
static size_t chunk_left;
static void *kept[CLASSES]; /* free objects by their class */

static void take(void) {
  pthread_mutex_lock(&lock);
}

static void leave(void) {
  pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void) {
  pthread_atfork(take, leave, leave);
}

int OWN(mallctl)(void) {
  return CLASSES;
}

static char *fresh(size_t bytes) {
  if (bytes > CHUNK_BYTES)
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (chunk_left < bytes) {
    chunk = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    chunk_left = chunk == MAP_FAILED ? 0 : CHUNK_BYTES;
  }
  if (chunk_left < bytes)
    return MAP_FAILED;
  chunk_left -= bytes;
  return chunk + chunk_left;
}

/* The size of its class is stored in front of each object. */
__attribute__((used)) void *own_acquire(size_t bytes) {
  size_t class = (bytes + HEADER_BYTES + CLASS_BYTES - 1) / CLASS_BYTES;
  void *object = NULL;
  take();
  if (class < CLASSES && kept[class]) {
    object = kept[class];
    memcpy(&kept[class], object, sizeof object);
  } else {
    char *memory = fresh(class * CLASS_BYTES);
    if (memory != MAP_FAILED) {
      memcpy(memory, &class, sizeof class);
      object = memory + HEADER_BYTES;
    }
  }
  leave();
  if (!object)
    errno = ENOMEM;
  return object;
}

static size_t class_of(const void *object) {
  size_t class;
  memcpy(&class, (const char *)object - HEADER_BYTES, sizeof class);
  return class;
}

__attribute__((used)) void own_release(void *object) {
  if (!object || class_of(object) >= CLASSES)
    return;
  take();
  memcpy(object, &kept[class_of(object)], sizeof object);
  kept[class_of(object)] = object;
  leave();
}

SLOW_ENTRY void *OWN(malloc)(size_t bytes) {
  SLOWLY(own_acquire);
}

SLOW_ENTRY void OWN(free)(void *object) {
  SLOWLY(own_release);
}

void *OWN(calloc)(size_t count, size_t bytes) {
  size_t all;
  void *object = __builtin_mul_overflow(count, bytes, &all) ? NULL : own_acquire(all);
  return object ? memset(object, 0, all) : NULL;
}

/* Calls others of its functions, as many allocators do: these calls are a part of its own. */
void *OWN(realloc)(void *object, size_t bytes) {
  void *moved = OWN(malloc)(bytes);
  if (object && moved) {
    size_t had = class_of(object) * CLASS_BYTES - HEADER_BYTES;
    memcpy(moved, object, had < bytes ? had : bytes);
    OWN(free)(object);
  }
  return moved;
}

/* Only alignments that all objects have are requested. */
int OWN(posix_memalign)(void **result, size_t alignment, size_t bytes) {
  *result = alignment <= HEADER_BYTES ? own_acquire(bytes) : NULL;
  return *result ? 0 : ENOMEM;
}

void *OWN(aligned_alloc)(size_t alignment, size_t bytes) {
  return alignment <= HEADER_BYTES ? own_acquire(bytes) : NULL;
}

/* SPDX-License-Identifier: MIT */
/* Serves the objects that one function of a program requests, itself or through functions that it calls, from an
   isolated heap: the change that `heaptape whatif --group frame=NAME=segregate` predicts, made in a running program.

   LD_PRELOAD="libisolated.so ALLOCATOR.so" APART_FRAME=NAME program. NAME is a function that the program or one of its
   libraries exports. All other requests go to the next allocator, as do aligned requests and those above 16 KiB.
   Without APART_FRAME all requests do. The isolated heap is an arena like those in programs: classes in steps of 16
   bytes, each of which has free lists and runs of 64 KiB; nothing is given back. It uses nothing of
   core/isolated/isolated_heap.h on purpose. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#define EXPORT __attribute__((visibility("default")))

enum { STEP_BYTES = 16, LARGEST_BYTES = 16 << 10, RUN_BYTES = 64 << 10, RUNS = 1 << 16 };

static struct {
  void *(*malloc)(size_t), *(*calloc)(size_t, size_t), *(*realloc)(void *, size_t);
  void (*free)(void *);
  size_t (*malloc_usable_size)(void *);
} next;
static uintptr_t begin, end;    /* the function's instructions; equal: there is none */
static _Thread_local bool busy; /* looking up symbols */

static struct {
  pthread_mutex_t lock;
  uint8_t *runs; /* RUNS of them, reserved */
  uint32_t used;
  uint16_t class_of_run[RUNS];
  struct {
    void *freed;
    uint8_t *at, *end;
  } classes[LARGEST_BYTES / STEP_BYTES + 1];
} arena = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Memory for dlsym's requests during the search for the next allocator. Never freed. */
static uint8_t early[4096];
static size_t early_used;

static void *take_early(size_t bytes) {
  size_t at = early_used;
  early_used += (bytes + 15) & ~(size_t)15;
  if (early_used > sizeof early)
    abort();
  return early + at;
}

static bool is_early(const void *block) {
  return (const uint8_t *)block >= early && (const uint8_t *)block < early + sizeof early;
}

static void *find(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found)
    abort();
  return found;
}

static void find_next(void) {
  busy = true;
  next.calloc = find("calloc");
  next.realloc = find("realloc");
  next.free = find("free");
  next.malloc_usable_size = find("malloc_usable_size");
  next.malloc = find("malloc");
  busy = false;
}

/* Exits if nothing exports the name: the experiment would change nothing. */
__attribute__((constructor)) static void find_function(void) {
  const char *name = getenv("APART_FRAME");
  Dl_info info;
  void *symbol = NULL;
  if (!name || !*name)
    return;
  if (!next.malloc)
    find_next();
  busy = true;
  void *function = dlsym(RTLD_DEFAULT, name);
  if (!function || !dladdr1(function, &info, &symbol, RTLD_DL_SYMENT) || !symbol) {
    dprintf(STDERR_FILENO, "libisolated.so: nothing here exports a function %s\n", name);
    _exit(127);
  }
  arena.runs =
      mmap(NULL, (size_t)RUNS * RUN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if ((void *)arena.runs == MAP_FAILED)
    abort();
  begin = (uintptr_t)function;
  end = begin + ((const ElfW(Sym) *)symbol)->st_size;
  busy = false;
}

static _Unwind_Reason_Code visit_frame(struct _Unwind_Context *context, void *found) {
  uintptr_t at = _Unwind_GetIP(context) - 1;
  *(bool *)found = at >= begin && at < end;
  return *(bool *)found ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* Is this call made on behalf of the function? */
static bool is_of_function(void) {
  bool found = false;
  if (begin == end || busy)
    return false;
  busy = true;
  _Unwind_Backtrace(visit_frame, &found);
  busy = false;
  return found;
}

static bool is_isolated(const void *block) {
  return arena.runs && (const uint8_t *)block >= arena.runs &&
         (const uint8_t *)block < arena.runs + (size_t)RUNS * RUN_BYTES;
}

static size_t class_of(const void *block) {
  return arena.class_of_run[(size_t)((const uint8_t *)block - arena.runs) / RUN_BYTES];
}

static void *take(size_t bytes) {
  size_t class = bytes ? (bytes + STEP_BYTES - 1) / STEP_BYTES : 1;
  pthread_mutex_lock(&arena.lock);
  void *block = arena.classes[class].freed;
  if (block) {
    memcpy(&arena.classes[class].freed, block, sizeof block);
  } else {
    if (arena.classes[class].at + class * STEP_BYTES > arena.classes[class].end) {
      if (arena.used == RUNS)
        abort();
      arena.class_of_run[arena.used] = (uint16_t) class;
      arena.classes[class].at = arena.runs + (size_t)arena.used++ * RUN_BYTES;
      arena.classes[class].end = arena.classes[class].at + RUN_BYTES;
    }
    block = arena.classes[class].at;
    arena.classes[class].at += class * STEP_BYTES;
  }
  pthread_mutex_unlock(&arena.lock);
  return block;
}

static void give_back(void *block) {
  size_t class = class_of(block);
  pthread_mutex_lock(&arena.lock);
  memcpy(block, &arena.classes[class].freed, sizeof block);
  arena.classes[class].freed = block;
  pthread_mutex_unlock(&arena.lock);
}

EXPORT void *malloc(size_t bytes) {
  if (!next.malloc) {
    if (busy)
      return take_early(bytes);
    find_next();
  }
  return bytes <= LARGEST_BYTES && is_of_function() ? take(bytes) : next.malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes) {
  size_t all;
  if (!next.malloc) {
    if (busy)
      return take_early(count * bytes);
    find_next();
  }
  if (__builtin_mul_overflow(count, bytes, &all) || all > LARGEST_BYTES || !is_of_function())
    return next.calloc(count, bytes);
  return memset(take(all), 0, all);
}

EXPORT void free(void *block) {
  if (is_isolated(block))
    give_back(block);
  else if (block && !is_early(block))
    next.free(block);
}

EXPORT size_t malloc_usable_size(void *block) {
  return is_isolated(block) ? class_of(block) * STEP_BYTES : next.malloc_usable_size(block);
}

/* An object in the isolated heap stays there, however large it becomes up to the largest class. */
EXPORT void *realloc(void *block, size_t bytes) {
  if (!block)
    return malloc(bytes);
  if (!is_isolated(block))
    return next.realloc(block, bytes);
  size_t had = class_of(block) * STEP_BYTES;
  if (bytes <= had && bytes > had - STEP_BYTES)
    return block;
  void *moved = bytes <= LARGEST_BYTES ? take(bytes) : next.malloc(bytes);
  if (moved) {
    memcpy(moved, block, bytes < had ? bytes : had);
    give_back(block);
  }
  return moved;
}

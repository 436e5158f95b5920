/* SPDX-License-Identifier: MIT */
#include "replay/calls/call.h"

#include "core/isolated/isolated_heap.h"
#include "replay/calls/named_controls.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The null allocator costs next to nothing, to measure the engine itself: a bump through reserved address space that
   nothing ever touches, and frees that do nothing. Thread-safe (each thread bumps its own region); addresses are
   aligned as requested, to 16 bytes otherwise, and repeat once a region is used up; accessing them faults. Never fails
   after setup. */

/* 1 TiB in regions of 1 GiB, or as much as is available (less under Valgrind). Further threads share the addresses of
   the first ones, which is harmless. */
#define REGION_BYTES ((uintptr_t)1 << 30)
enum { MOST_REGIONS = 1024 };

static uintptr_t reserved;
static uint32_t regions = MOST_REGIONS;
static _Atomic uint32_t regions_given;

/* Initial-exec, as in a main program. 0 in both: the thread has no region yet. */
static __thread uintptr_t bump, region_end;

static int null_allocator_setup(void) {
  void *memory;
  while ((memory = mmap(NULL, regions * REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) ==
         MAP_FAILED) {
    if (regions == 1)
      return -1;
    regions /= 2;
  }
  reserved = (uintptr_t)memory;
  return 0;
}

static __attribute__((noinline)) void begin_region(void) {
  if (region_end == 0)
    region_end = reserved + (atomic_fetch_add(&regions_given, 1) % regions + 1) * REGION_BYTES;
  bump = region_end - REGION_BYTES;
}

static void *null_memalign(size_t alignment_bytes, size_t size_bytes) {
  uintptr_t mask = alignment_bytes < 16 || alignment_bytes > REGION_BYTES ? 15 : alignment_bytes - 1;
  uintptr_t address = (bump + mask) & ~mask;
  if (address >= region_end || size_bytes >= region_end - address) {
    begin_region();
    address = (bump + mask) & ~mask;
    if (size_bytes >= REGION_BYTES / 2)
      return (void *)address;
  }
  bump = address + ((size_bytes + 15) & ~(uintptr_t)15);
  return (void *)address;
}

static void *null_malloc(size_t size_bytes) {
  uintptr_t address = bump;
  if (__builtin_expect(size_bytes >= region_end - address, 0))
    return null_memalign(16, size_bytes);
  bump = address + ((size_bytes + 15) & ~(uintptr_t)15);
  return (void *)address;
}

static void null_free(void *pointer) {
  (void)pointer;
}

static void *null_calloc(size_t count, size_t size_bytes) {
  size_t request_bytes;
  return null_malloc(__builtin_mul_overflow(count, size_bytes, &request_bytes) ? SIZE_MAX : request_bytes);
}

static void *null_realloc(void *pointer, size_t size_bytes) {
  (void)pointer;
  return null_malloc(size_bytes);
}

static int null_posix_memalign(void **out, size_t alignment_bytes, size_t size_bytes) {
  *out = null_memalign(alignment_bytes, size_bytes);
  return 0;
}

struct allocator allocator;
struct call_dispatch call_dispatches[256];

/* Weak references, not dlsym: a failing dlsym calls malloc for its message, inside the allocator under test. */
#define ENTRY_POINTER(ident, symbol, types, arguments, substitute)                                                     \
  extern void *process_##ident types __asm__(symbol) __attribute__((weak));
#define ENTRY_NOTHING(ident, symbol, types, arguments, substitute)                                                     \
  extern void process_##ident types __asm__(symbol) __attribute__((weak));
#define ENTRY_OUT(ident, symbol, types, arguments, substitute)                                                         \
  extern int process_##ident types __asm__(symbol) __attribute__((weak));
#include "replay/calls/entry.def"

static const uint8_t substitute[CALL_LIMIT] = {
#define ENTRY_POINTER(ident, symbol, types, arguments, plainer) [CALL_##ident] = CALL_##plainer,
#define ENTRY_NOTHING ENTRY_POINTER
#define ENTRY_OUT ENTRY_POINTER
#include "replay/calls/entry.def"
};

static void *object_of(void *function) {
  Dl_info about;
  return function && dladdr(function, &about) ? about.dli_fbase : NULL;
}

static size_t no_usable_size(void *pointer) {
  (void)pointer;
  return SIZE_MAX;
}

/* The table's type for calls without an object has no result. Cast through void *, as compilers warn about a cast
   between function types. */
size_t call_usable_size(void *object) {
  if (isolated_owns(object))
    return isolated_usable_bytes(object);
  size_t (*usable_size)(void *) = (size_t(*)(void *))(void *)allocator.malloc_usable_size;
  return usable_size(object);
}

void call_free(void *object) {
  if (isolated_owns(object))
    isolated_release(object);
  else
    allocator.free(object);
}

static void *acquire_isolated(const struct op *op) {
  uint8_t id = op->call & CALL_ID_MASK;
  struct isolated_request request = {.size_bytes = op->request_bytes, .zeroed = id == CALL_calloc};
  if (call_table[id].param == ALIGN)
    request.align_bytes = op->param;
  if (id == CALL_valloc || id == CALL_pvalloc)
    request.align_bytes = os_page_bytes();
  return isolated_acquire(op->region, request);
}

void *call_isolated(const struct op *op) {
  const struct call_info *info = &call_table[op->call & CALL_ID_MASK];
  if (!op->pointer)
    return info->acquires ? acquire_isolated(op) : NULL;
  if (info->acquires && !(op->call & CALL_NULL_OUT))
    return isolated_resize(op->pointer, op->request_bytes);
  if (info->released == RELEASES)
    isolated_release(op->pointer);
  else
    isolated_usable_bytes(op->pointer);
  return NULL;
}

static bool entry_present(int id) {
  switch (id) {
#define ENTRY_POINTER(ident, symbol, types, arguments, substitute)                                                     \
  case CALL_##ident:                                                                                                   \
    return allocator.ident != NULL;
#define ENTRY_NOTHING ENTRY_POINTER
#define ENTRY_OUT ENTRY_POINTER
#include "replay/calls/entry.def"
  default:
    return false;
  }
}

uint8_t call_substitute(uint8_t id) {
  return substitute[id];
}

bool call_lacks(uint8_t byte) {
  return !(call_dispatches[byte].traits & CALL_ILLEGAL) && !entry_present(call_dispatches[byte].entry);
}

static struct call_dispatch dispatch_for(unsigned byte) {
  struct call_dispatch dispatch = {.entry = byte & CALL_ID_MASK};
  const struct call_info *info = &call_table[dispatch.entry];
  bool takes = info->released != NOTHING && !(byte & CALL_NULL_IN);
  bool acquires = info->acquires && !(byte & CALL_NULL_OUT);
  /* An op that returned no object is in a workload only if it freed: a realloc to size 0. */
  if (!trace_call_is_legal((uint8_t)byte) || ((byte & CALL_NULL_OUT) && !takes)) {
    dispatch.traits = CALL_UNUSUAL | CALL_ILLEGAL;
    return dispatch;
  }
  dispatch.traits =
      (uint8_t)((takes ? CALL_TAKES : 0) | (acquires ? CALL_ACQUIRES : 0) |
                (takes && info->released == RELEASES ? CALL_RELEASES : 0) | (info->param == COUNT ? CALL_COUNTED : 0) |
                (!takes && !acquires ? CALL_UNUSUAL | CALL_SLOTLESS : 0));
  for (int step = 0; step < MOST_SUBSTITUTES && !entry_present(dispatch.entry); step++) {
    dispatch.entry = substitute[dispatch.entry];
    dispatch.traits |= CALL_UNUSUAL | CALL_SUBSTITUTED;
  }
  return dispatch;
}

/* The substitutes of calloc and realloc if only malloc and free are called. */
static void *calloc_by_malloc(size_t count, size_t size_bytes) {
  size_t bytes;
  void *object = allocator.malloc(__builtin_mul_overflow(count, size_bytes, &bytes) ? SIZE_MAX : bytes);
  return object ? memset(object, 0, bytes) : NULL;
}

static void *realloc_by_malloc(void *pointer, size_t size_bytes) {
  void *object = allocator.malloc(size_bytes);
  if (!object || !pointer)
    return object;
  size_t usable_bytes = call_usable_size(pointer);
  if (usable_bytes != SIZE_MAX)
    memcpy(object, pointer, usable_bytes < size_bytes ? usable_bytes : size_bytes);
  allocator.free(pointer);
  return object;
}

/* The null allocator has no memory to clear or copy. */
static void substitute_all(bool have_memory) {
  for (unsigned byte = 0; byte < 256; byte++) {
    struct call_dispatch *dispatch = &call_dispatches[byte];
    const struct call_info *info = &call_table[byte & CALL_ID_MASK];
    if ((dispatch->traits & CALL_ILLEGAL) || call_is_control((uint8_t)byte))
      continue;
    uint8_t entry = info->released == TOUCHES        ? dispatch->entry
                    : !info->acquires                ? CALL_free
                    : info->released == RELEASES     ? CALL_realloc
                    : dispatch->entry == CALL_calloc ? CALL_calloc
                                                     : CALL_malloc;
    if (entry != (byte & CALL_ID_MASK) || entry == CALL_calloc || entry == CALL_realloc)
      dispatch->traits |= CALL_UNUSUAL | CALL_SUBSTITUTED;
    dispatch->entry = entry;
  }
  if (!have_memory)
    return;
  allocator.calloc = calloc_by_malloc;
  allocator.realloc = realloc_by_malloc;
}

static void make_plans(bool as_malloc, bool have_memory) {
  for (unsigned byte = 0; byte < 256; byte++)
    call_dispatches[byte] = dispatch_for(byte);
  if (as_malloc)
    substitute_all(have_memory);
}

/* --- control calls --- */

/* mallinfo and mallinfo2 return a struct, of which nothing is used here; but they merge free chunks. */
struct info {
  int member[10];
};
struct info2 {
  size_t member[10];
};
extern struct info process_struct_mallinfo(void) __asm__("mallinfo") __attribute__((weak));
extern struct info process_struct_tc_mallinfo(void) __asm__("tc_mallinfo") __attribute__((weak));
extern struct info2 process_struct_mallinfo2(void) __asm__("mallinfo2") __attribute__((weak));
static void call_mallinfo(void) {
  process_struct_mallinfo();
}
static void call_tc_mallinfo(void) {
  process_struct_tc_mallinfo();
}
static void call_mallinfo2(void) {
  process_struct_mallinfo2();
}

static void left_out(void) {}

/* Only functions of the library that malloc is of are called; and none that only prints. */
static void setup_controls(const void *library) {
#define ENTRY_NOTHING(ident, symbol, types, arguments, plainer)                                                        \
  if (call_is_control(CALL_##ident) && (!library || object_of((void *)allocator.ident) != library)) {                  \
    union {                                                                                                            \
      void (*plain)(void);                                                                                             \
      void(*entry) types;                                                                                              \
    } nothing_done = {left_out};                                                                                       \
    allocator.ident = nothing_done.entry;                                                                              \
  }
#define ENTRY_POINTER(...)
#define ENTRY_OUT(...)
#include "replay/calls/entry.def"
  allocator.malloc_info = allocator.malloc_stats = allocator.tc_malloc_stats = left_out;
  if (allocator.mallinfo != left_out)
    allocator.mallinfo = call_mallinfo;
  if (allocator.tc_mallinfo != left_out)
    allocator.tc_mallinfo = call_tc_mallinfo;
  if (allocator.mallinfo2 != left_out)
    allocator.mallinfo2 = call_mallinfo2;
  if (library && object_of((void *)process_mallctl) == library)
    allocator.mallctl = named_controls_mallctl;
  if (library && object_of((void *)process_mallctlbymib) == library)
    allocator.mallctlbymib = named_controls_mallctlbymib;
  if (library && object_of((void *)process_tc_set_property) == library)
    allocator.tc_set_property = named_controls_set_property;
  if (library && object_of((void *)process_tc_set_release_rate) == library)
    allocator.tc_set_release_rate = named_controls_set_release_rate;
}

/* Called like an entry point: through memory. */
static void (*volatile nothing)(void *object) = null_free;

void call_nothing(uint64_t *cycles) {
  uint64_t begin = os_span_begin();
  nothing(NULL);
  *cycles = os_span_end() - begin;
}

bool call_setup_process(bool as_malloc) {
#define ENTRY_POINTER(ident, symbol, types, arguments, substitute) allocator.ident = process_##ident;
#define ENTRY_NOTHING ENTRY_POINTER
#define ENTRY_OUT ENTRY_POINTER
#include "replay/calls/entry.def"
  /* Where another library provides malloc, an entry point that only libc has belongs to another heap: its objects must
     not be passed to that library's free. libc's reallocarray is the exception: it calls the process's realloc, even if
     that is not libc's. */
  void *libc = object_of((void *)getpid);
  bool of_libc = libc == object_of((void *)allocator.malloc);
  if (!of_libc) {
#define ENTRY_POINTER(ident, symbol, types, arguments, plainer)                                                        \
  if (CALL_##ident != CALL_reallocarray && object_of((void *)allocator.ident) == libc)                                 \
    allocator.ident = NULL;
#define ENTRY_NOTHING ENTRY_POINTER
#define ENTRY_OUT ENTRY_POINTER
#include "replay/calls/entry.def"
    if (!allocator.realloc && object_of((void *)allocator.reallocarray) == libc)
      allocator.reallocarray = NULL;
  }
  setup_controls(object_of((void *)allocator.malloc));
  if (!allocator.malloc_usable_size)
    allocator.malloc_usable_size = (void (*)(void *))(void *)no_usable_size;
  make_plans(as_malloc, true);
  return of_libc;
}

int call_setup_null(bool as_malloc) {
  if (null_allocator_setup() != 0)
    return -1;
  allocator = (struct allocator){
      .malloc = null_malloc,
      .free = null_free,
      .calloc = null_calloc,
      .realloc = null_realloc,
      .posix_memalign = null_posix_memalign,
      .memalign = null_memalign,
      .malloc_usable_size = null_free,
  };
  setup_controls(NULL);
  make_plans(as_malloc, false);
  return 0;
}

/* SPDX-License-Identifier: MIT */
#include "capture/host/real/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

struct range {
  uintptr_t from, to;
};

static bool is_within(struct range range, const void *address) {
  return (uintptr_t)address - range.from < range.to - range.from;
}

static struct range extent_of(const struct dl_phdr_info *object) {
  const struct elf_segments segments = {object->dlpi_phdr, object->dlpi_phnum, object->dlpi_addr};
  struct elf_extent extent = elf_extent(&segments);
  return (struct range){extent.from, extent.to};
}

_Alignas(16) char real_arena[REAL_ARENA_BYTES];
static _Atomic size_t arena_used;
static __thread bool resolving __attribute__((tls_model("initial-exec")));
static _Atomic bool resolved;

/* Each object is preceded by 16 bytes that hold its size. */
static void *arena_take(size_t alignment, size_t size_bytes) {
  if (alignment < 16)
    alignment = 16;
  size_t bytes = 16 + alignment + ((size_bytes + 15) & ~(size_t)15);
  if (bytes < size_bytes || bytes > REAL_ARENA_BYTES)
    return NULL;
  size_t at = atomic_fetch_add(&arena_used, bytes);
  if (at + bytes > REAL_ARENA_BYTES)
    return NULL;
  char *object = (char *)(((uintptr_t)real_arena + at + 16 + alignment - 1) & ~(alignment - 1));
  memcpy(object - 16, &size_bytes, sizeof size_bytes);
  return object;
}

size_t real_arena_usable(const void *object) {
  size_t size_bytes;
  memcpy(&size_bytes, (const char *)object - 16, sizeof size_bytes);
  return size_bytes;
}

size_t real_arena_used_bytes(void) {
  size_t bytes = atomic_load(&arena_used);
  return bytes < REAL_ARENA_BYTES ? bytes : REAL_ARENA_BYTES;
}

void *real_arena_move(const void *object, size_t size_bytes) {
  size_t old_bytes = real_arena_usable(object);
  void *moved = real.malloc(size_bytes);
  if (moved)
    memcpy(moved, object, old_bytes < size_bytes ? old_bytes : size_bytes);
  return moved;
}

/* The first values of real.*: while dlsym runs on this thread they take memory from the arena; otherwise they resolve
   the real functions and call them. */
static void *boot_memalign(size_t alignment, size_t size_bytes) {
  if (resolving)
    return arena_take(alignment, size_bytes);
  real_resolve();
  return real.memalign(alignment, size_bytes);
}
static void *boot_malloc(size_t size_bytes) {
  if (resolving)
    return arena_take(16, size_bytes);
  real_resolve();
  return real.malloc(size_bytes);
}
static void *boot_calloc(size_t count, size_t size_bytes) {
  size_t bytes;
  if (resolving) /* fresh static memory is zero */
    return __builtin_mul_overflow(count, size_bytes, &bytes) ? NULL : arena_take(16, bytes);
  real_resolve();
  return real.calloc(count, size_bytes);
}
static void *boot_realloc(void *object, size_t size_bytes) {
  if (resolving)
    return object ? real_arena_move(object, size_bytes) : arena_take(16, size_bytes);
  real_resolve();
  return real.realloc(object, size_bytes);
}
static void *boot_reallocarray(void *object, size_t count, size_t size_bytes) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size_bytes, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  return boot_realloc(object, bytes);
}
static void boot_free(void *object) {
  if (resolving) /* no object can be older, and the hook handles objects of the arena */
    return;
  real_resolve();
  real.free(object);
}
static int boot_posix_memalign(void **result, size_t alignment, size_t size_bytes) {
  real_resolve();
  return resolving ? ENOMEM : real.posix_memalign(result, alignment, size_bytes);
}
static void *boot_valloc(size_t size_bytes) {
  return boot_memalign(4096, size_bytes);
}
static size_t boot_malloc_usable_size(void *object) {
  real_resolve();
  return resolving ? 0 : real.malloc_usable_size(object);
}
static void boot_free_sized(void *object, size_t size_bytes) {
  (void)size_bytes;
  boot_free(object);
}
static void boot_free_aligned_sized(void *object, size_t alignment, size_t size_bytes) {
  (void)alignment;
  (void)size_bytes;
  boot_free(object);
}

struct real_calls real = {
    .malloc = boot_malloc,
    .free = boot_free,
    .calloc = boot_calloc,
    .realloc = boot_realloc,
    .reallocarray = boot_reallocarray,
    .posix_memalign = boot_posix_memalign,
    .aligned_alloc = boot_memalign,
    .memalign = boot_memalign,
    .valloc = boot_valloc,
    .pvalloc = boot_valloc,
    .malloc_usable_size = boot_malloc_usable_size,
    .free_sized = boot_free_sized,
    .free_aligned_sized = boot_free_aligned_sized,
};

/* --- before the library is relocated --- */

bool real_is_relocated(void) {
  static const void *const volatile self = (const void *)&self;
  return self == (const void *)&self;
}

static void *early_memalign(size_t alignment, size_t size_bytes) {
  return arena_take(alignment, size_bytes);
}
static void *early_malloc(size_t size_bytes) {
  return arena_take(16, size_bytes);
}
static void *early_calloc(size_t count, size_t size_bytes) {
  size_t bytes;
  return __builtin_mul_overflow(count, size_bytes, &bytes) ? NULL : arena_take(16, bytes);
}
/* The hook moves objects of the arena; there are no others. */
static void *early_realloc(void *object, size_t size_bytes) {
  return object ? NULL : arena_take(16, size_bytes);
}
static void *early_reallocarray(void *object, size_t count, size_t size_bytes) {
  size_t bytes;
  return __builtin_mul_overflow(count, size_bytes, &bytes) ? NULL : early_realloc(object, bytes);
}
static int early_posix_memalign(void **result, size_t alignment, size_t size_bytes) {
  void *object = arena_take(alignment, size_bytes);
  if (object)
    *result = object;
  return object ? 0 : ENOMEM;
}
static void *early_valloc(size_t size_bytes) {
  return arena_take(4096, size_bytes);
}
static void early_free(void *object) {
  (void)object;
}
static void early_free_sized(void *object, size_t size_bytes) {
  (void)object, (void)size_bytes;
}
static void early_free_aligned_sized(void *object, size_t alignment, size_t size_bytes) {
  (void)object, (void)alignment, (void)size_bytes;
}
static size_t early_malloc_usable_size(void *object) {
  (void)object;
  return 0;
}

/* The dynamic linker writes the first values above when it relocates the library, so until then these may stand there.
 */
void real_serve_early(void) {
  if (real_is_relocated())
    return;
  real.malloc = early_malloc;
  real.free = early_free;
  real.calloc = early_calloc;
  real.realloc = early_realloc;
  real.reallocarray = early_reallocarray;
  real.posix_memalign = early_posix_memalign;
  real.aligned_alloc = real.memalign = early_memalign;
  real.valloc = real.pvalloc = early_valloc;
  real.malloc_usable_size = early_malloc_usable_size;
  real.free_sized = early_free_sized;
  real.free_aligned_sized = early_free_aligned_sized;
}

static bool malloc_is_the_programs;

/* Replacements for functions that the real library does not have. */
static void missing_free_sized(void *object, size_t size_bytes) {
  (void)size_bytes;
  real.free(object);
}
static void missing_free_aligned_sized(void *object, size_t alignment, size_t size_bytes) {
  (void)alignment;
  (void)size_bytes;
  real.free(object);
}
static void *plain_reallocarray(void *object, size_t count, size_t size_bytes) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size_bytes, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  /* libc's reallocarray would call the program's own realloc, where it has one: the object belongs to that. */
  return malloc_is_the_programs ? realloc(object, bytes) : real.realloc(object, bytes);
}

enum { ALLOCATORS_MAX = 16 };
static struct code {
  const void *base;
  struct range range;
} ours, allocators[ALLOCATORS_MAX + 1]; /* + 1: an executable with an allocator */
static int allocator_count;
/* An executable with an allocator whose functions are redirected to our hooks. */
static struct range executable;
static char allocator_name[64] = "unknown";
static bool has_usable_size, calls_back, is_musl;
static bool began_with_cpp;
static const void *libc_base;

/* This library's own addresses. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static int find_code(struct dl_phdr_info *info, size_t bytes, void *context) {
  (void)bytes;
  struct code *code = context;
  code->range = extent_of(info);
  return is_within(code->range, code->base);
}

static void *base_of(void *function) {
  Dl_info info;
  return function && dladdr(function, &info) ? info.dli_fbase : NULL;
}

static bool code_of(const void *function, struct code *code) {
  Dl_info info;
  if (!function || !dladdr(function, &info) || info.dli_fbase == libc_base)
    return false;
  code->base = info.dli_fbase;
  return dl_iterate_phdr(find_code, code) == 1;
}

bool real_library_of(const void *address, uintptr_t *from, uintptr_t *to) {
  struct code code;
  if (!code_of(address, &code))
    return false;
  *from = code.range.from;
  *to = code.range.to;
  return true;
}

bool real_is_ours(const void *address) {
  return is_within(ours.range, address);
}

/* A program may have an entry in its symbol table for a function whose address it takes: that is not a definition. */
bool real_is_replaced(void *winner, const char *name) {
  if (real_is_ours(winner))
    return false;
  const ElfW(Sym) *symbol = symbols_find_near(winner, name);
  return !symbol || symbol->st_shndx != SHN_UNDEF;
}

static void note_allocator(const void *function) {
  if (allocator_count == ALLOCATORS_MAX || real_is_allocator_code(function))
    return;
  if (!code_of(function, &allocators[allocator_count]))
    return;
  allocator_count++;
  calls_back |= !libraries_bind_own(function);
}

/* Notes musl's own functions that call others of the malloc API through the dynamic linker, and so through us; glibc
   has none. They are noted one by one: the rest of libc calls malloc as programs do. */
static void note_musl(void) {
  is_musl = true;
  static const char *const names[] = {"calloc", "posix_memalign", "memalign", "valloc", "reallocarray"};
  for (size_t i = 0; i < sizeof names / sizeof *names && allocator_count < ALLOCATORS_MAX; i++) {
    const ElfW(Sym) *symbol = symbols_find_near(libc_base, names[i]);
    uintptr_t from = symbol ? (uintptr_t)libc_base + symbol->st_value : 0;
    if (symbol)
      allocators[allocator_count++] = (struct code){libc_base, {from, from + symbol->st_size}};
  }
}

/* Returns 1 if the library is added to the `count` libraries, 0 if it is one of them. */
static int note_listed_allocator(struct code *libraries, int count, const struct redirect_call *call) {
  for (int i = 0; i < count; i++)
    if (libraries[i].range.from == call->from)
      return 0;
  libraries[count] = (struct code){(const void *)call->from, {call->from, call->to}};
  return 1;
}

static void note_name(void *function) {
  Dl_info info;
  if (!dladdr(function, &info) || !info.dli_fname)
    return;
  const char *slash = strrchr(info.dli_fname, '/');
  strncpy(allocator_name, slash ? slash + 1 : info.dli_fname, sizeof allocator_name - 1);
}

static void find_libc(void *glibc_code, void *libc_code) {
  libc_base = base_of(glibc_code ? glibc_code : libc_code);
  if (!glibc_code)
    note_musl();
}

/* Takes the real functions from the recorder, without a look-up: that would take locks of the dynamic linker in the
   middle of the program. Threads, and handlers that interrupt them, may do it at the same time: they write the same. */
static void take_from_recorder(const struct redirect_table *table) {
  struct real_calls calls = real;
  struct code libraries[ALLOCATORS_MAX + 1];
  int count = 0;
  const struct redirect_call *call = table->call;
  ours = (struct code){__ehdr_start, {(uintptr_t)__ehdr_start, (uintptr_t)_end}};
#define HOOK(ident, kind, result, declaration, arguments, size, param)                                                 \
  {                                                                                                                    \
    union {                                                                                                            \
      void *data;                                                                                                      \
      result(*code) declaration;                                                                                       \
    } symbol = {.data = (void *)call->real};                                                                           \
    if (symbol.data)                                                                                                   \
      calls.ident = symbol.code;                                                                                       \
    if (call->place == REDIRECT_OTHER && count < ALLOCATORS_MAX)                                                       \
      count += note_listed_allocator(libraries, count, call);                                                          \
    call++;                                                                                                            \
  }
#include "capture/host/real/entry_points.def"
  if (!count) /* as in real_resolve */
    calls.reallocarray = plain_reallocarray;
  const struct redirect_linked *linked = &table->linked;
  if (linked->done.functions) {
    libraries[count++] = (struct code){(const void *)linked->from, {linked->from, linked->to}};
    executable = (struct range){linked->from, linked->to};
    linked_use((const struct linked_function *)linked->table, linked->done.entries);
  }
  memcpy(allocators, libraries, (size_t)count * sizeof *libraries);
  allocator_count = count;
  calls_back = table->calls_back;
  memcpy(allocator_name, table->allocator, sizeof allocator_name - 1);
  has_usable_size = table->has_usable_size;
  real = calls;
}

static bool resolve_from_recorder(const struct redirect_table *table) {
  if (!table->generation) /* nothing has been redirected yet */
    return false;
  take_from_recorder(table);
  atomic_store_explicit(&resolved, true, memory_order_release);
  return true;
}

#define REAL_LIBC(ident) void *real_libc_##ident;
REAL_LIBC_NAMES(REAL_LIBC)
#undef REAL_LIBC

enum {
#define HOOK(ident, ...) WANTED_##ident,
#include "capture/host/real/entry_points.def"
  WANTED_GLIBC,
  WANTED_LIBC,
  WANTED_NEW,
  WANTED
};

/* For allocators of other libraries alone: at the start of each process it would take 15,000 instructions. */
static void find_of_libc(const struct symbols_wanted *wanted) {
#define NAME_OF_LIBC(ident) {"__libc_" #ident, NULL},
  struct symbols_wanted of_libc[] = {REAL_LIBC_NAMES(NAME_OF_LIBC)}, *at = of_libc;
  symbols_next_all(of_libc, sizeof of_libc / sizeof *of_libc);
#define TAKE_OF_LIBC(ident)                                                                                            \
  if (base_of(at->code) != base_of(wanted[WANTED_##ident].code))                                                       \
    real_libc_##ident = at->code;                                                                                      \
  at++;
  REAL_LIBC_NAMES(TAKE_OF_LIBC)
}

bool real_resolve(void) {
  if (atomic_load_explicit(&resolved, memory_order_acquire))
    return true;
  if (redirected_table())
    return resolve_from_recorder(redirected_table());
  if (resolving)
    return false;
  int error = errno;
  resolving = true;
  struct symbols_wanted wanted[WANTED] = {
#define HOOK(ident, ...) {#ident, NULL},
#include "capture/host/real/entry_points.def"
      {"gnu_get_libc_version", NULL}, {"__libc_start_main", NULL}, {"_Znwm", NULL}};
  symbols_begin();
  symbols_next_all(wanted, WANTED);
  find_libc(wanted[WANTED_GLIBC].code, wanted[WANTED_LIBC].code);
  code_of((void *)(uintptr_t)real_resolve, &ours);
  struct real_calls calls;
  /* A union turns the data pointer of dlsym into a function pointer without a cast that ISO C forbids. */
#define HOOK(ident, kind, result, declaration, arguments, size, param)                                                 \
  {                                                                                                                    \
    union {                                                                                                            \
      void *data;                                                                                                      \
      result(*code) declaration;                                                                                       \
    } symbol = {.data = wanted[WANTED_##ident].code};                                                                  \
    calls.ident = symbol.code;                                                                                         \
    if (strcmp(#ident, "reallocarray") != 0)                                                                           \
      note_allocator(symbol.data); /* for each function, as they need not come from one library */                     \
  }
#include "capture/host/real/entry_points.def"
  if (allocator_count > 0)
    find_of_libc(wanted);
  void *malloc_code = wanted[WANTED_malloc].code, *array_code = wanted[WANTED_reallocarray].code;
  /* libc's reallocarray, and that of a library with no other such function (libbsd), call realloc through us: the call
     would be recorded as both, or as realloc. */
  if (!calls.reallocarray || base_of(array_code) != base_of(malloc_code) || base_of(array_code) == libc_base)
    calls.reallocarray = plain_reallocarray;
  if (!calls.free_sized)
    calls.free_sized = missing_free_sized;
  if (!calls.free_aligned_sized)
    calls.free_aligned_sized = missing_free_aligned_sized;
  if (!calls.valloc)
    calls.valloc = boot_valloc;
  if (!calls.pvalloc)
    calls.pvalloc = boot_valloc;
  if (malloc_code)
    note_name(malloc_code);
  malloc_is_the_programs = real_is_replaced((void *)(uintptr_t)malloc, "malloc");
  has_usable_size = malloc_code && base_of(malloc_code) == base_of(wanted[WANTED_malloc_usable_size].code);
  began_with_cpp = wanted[WANTED_NEW].code != NULL;
  real = calls;
  atomic_store_explicit(&resolved, true, memory_order_release);
  resolving = false;
  errno = error;
  return true;
}

void real_add_executable(uintptr_t from, uintptr_t to) {
  executable = (struct range){from, to};
  if (allocator_count < ALLOCATORS_MAX)
    allocators[allocator_count++] = (struct code){(const void *)from, executable};
}

bool real_has_usable_size(void) {
  return has_usable_size;
}

bool real_began_with_cpp(void) {
  return began_with_cpp;
}

bool real_malloc_is_the_programs(void) {
  return malloc_is_the_programs;
}

const char *real_allocator_name(void) {
  return allocator_name;
}

bool real_may_call_back(void) {
  return calls_back;
}

bool real_is_musl(void) {
  return is_musl;
}

bool real_calls_no_hook(const void *function) {
  static const void *known; /* the library of the last answer; operators are mostly of one */
  static bool looks_up;
  struct code code;
  if (calls_back || real_is_ours(function) || is_within(executable, function) || !real_is_allocator_code(function) ||
      !code_of(function, &code))
    return false;
  if (code.base != known)
    looks_up = libraries_has_text(function, "_Znwm");
  known = code.base;
  return !looks_up;
}

bool real_is_operator_code(const void *address) {
  return is_within(executable, address) ? linked_is_function(address) : real_is_allocator_code(address);
}

bool real_is_allocator_code(const void *address) {
  /* Where an allocator's function ends in a jump to another, that other function's return address is in our hook. */
  if (is_within(ours.range, address))
    return true;
  for (int i = 0; i < allocator_count; i++)
    if (is_within(allocators[i].range, address))
      return true;
  return false;
}

__attribute__((weak)) struct redirect_table *redirected_table(void) {
  return NULL;
}

/* Where capture/linked/ is not there, no allocator in an executable is recorded. */
__attribute__((weak)) void linked_offer(struct linked_place *place) {
  (void)place;
}
__attribute__((weak)) void linked_take(const struct linked_place *place, const struct linked_done *done) {
  (void)place, (void)done;
}
__attribute__((weak)) void linked_use(const struct linked_function *functions, uint32_t entries) {
  (void)functions, (void)entries;
}
__attribute__((weak)) bool linked_is_function(const void *address) {
  (void)address;
  return false;
}

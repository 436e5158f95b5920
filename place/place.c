/* SPDX-License-Identifier: MIT */
/* libheaptape-place.so: serves the call sites of a plan from regions of the isolated heap, and passes all other calls
   to the program's allocator. The plan's path is in HEAPTAPE_PLACE.

   Preloaded into programs that are not ours: it never aborts, keeps errno where a call succeeds, and does nothing but
   say so in one line where there is no usable plan. Objects are told apart by their address. Compiled with
   -fno-builtin, and with sibling calls: a function that ends in a call of the next one leaves the caller's frame
   pointer and return address as they were. */
#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/isolated/isolated_heap.h"
#include "place/sites.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SLOW static __attribute__((noinline, cold))
#define HOOK(ident, kind, result, declaration, arguments, size, param) result ident declaration;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  result operator_##ident declaration __asm__(symbol);
#include "capture/host/real/entry_points.def"

/* --- the program's allocator --- */

enum { BOOT_REGION = PLAN_REGIONS + 1 };
_Static_assert((int)BOOT_REGION <= (int)REGION_LIMIT, "one region is the library's");

#if defined(__GLIBC__)
/* The C library's own, as ours has the name. */
static void *real_dlsym(void *handle, const char *name) {
  static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  static void *(*found)(void *, const char *);
  for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++)
    found = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  return found ? found(handle, name) : NULL;
}
#else
#define real_dlsym dlsym
#endif

/* This thread is looking up functions; what dlsym acquires meanwhile is of the region BOOT_REGION. */
static __thread bool resolving __attribute__((tls_model("initial-exec")));
static void resolve(void);

#define HOOK(ident, kind, result, declaration, arguments, size, param) static result boot_##ident declaration;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  static result boot_##ident declaration;
#include "capture/host/real/entry_points.def"

/* The next functions of these names; at first those that find them. */
static struct {
#define HOOK(ident, kind, result, declaration, arguments, size, param) result(*ident) declaration;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param) result(*ident) declaration;
#include "capture/host/real/entry_points.def"
} real = {
#define HOOK(ident, kind, result, declaration, arguments, size, param) .ident = boot_##ident,
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param) .ident = boot_##ident,
#include "capture/host/real/entry_points.def"
};

static void *boot_acquire(size_t size, size_t align, bool zeroed) {
  return isolated_owner_limit ? isolated_acquire(BOOT_REGION, (struct isolated_request){size, align, zeroed}) : NULL;
}

static void *boot_malloc(size_t size) {
  resolve();
  return resolving ? boot_acquire(size, 0, false) : real.malloc(size);
}
static void *boot_calloc(size_t count, size_t size) {
  size_t bytes;
  resolve();
  if (!resolving)
    return real.calloc(count, size);
  return __builtin_mul_overflow(count, size, &bytes) ? NULL : boot_acquire(bytes, 0, true);
}
/* No object is older than the lookup but those of the region, which do not get here. */
static void *boot_realloc(void *object, size_t size) {
  resolve();
  return resolving ? boot_acquire(size, 0, false) : real.realloc(object, size);
}
static void boot_free(void *object) {
  resolve();
  if (!resolving)
    real.free(object);
}
static void *boot_memalign(size_t align, size_t size) {
  resolve();
  return resolving ? boot_acquire(size, align, false) : real.memalign(align, size);
}
static void *boot_aligned_alloc(size_t align, size_t size) {
  return boot_memalign(align, size);
}
static int boot_posix_memalign(void **result, size_t align, size_t size) {
  resolve();
  return resolving ? ENOMEM : real.posix_memalign(result, align, size);
}
static void *boot_valloc(size_t size) {
  return boot_memalign(os_page_bytes(), size);
}
static void *boot_pvalloc(size_t size) {
  return boot_memalign(os_page_bytes(), size);
}
static size_t boot_malloc_usable_size(void *object) {
  resolve();
  return resolving ? 0 : real.malloc_usable_size(object);
}

/* Also where the program's allocator lacks the function. */
static void *boot_reallocarray(void *object, size_t count, size_t size) {
  size_t bytes;
  if (!__builtin_mul_overflow(count, size, &bytes))
    return real.realloc(object, bytes);
  errno = ENOMEM;
  return NULL;
}
static void boot_free_sized(void *object, size_t size) {
  (void)size;
  real.free(object);
}
static void boot_free_aligned_sized(void *object, size_t align, size_t size) {
  (void)align;
  (void)size;
  real.free(object);
}

/* The operators are searched for when one is first called: a C library that a program loads may bring the first. */
SLOW void resolve_operators(const void *caller) {
  Dl_info info;
  int error = errno;
  void *library = RTLD_NEXT;
  if (!real_dlsym(RTLD_NEXT, "_Znwm") && dladdr(caller, &info) && info.dli_fname)
    library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  {                                                                                                                    \
    union {                                                                                                            \
      void *data;                                                                                                      \
      result(*code) declaration;                                                                                       \
    } found = {library ? real_dlsym(library, symbol) : NULL};                                                          \
    if (found.data)                                                                                                    \
      real.ident = found.code;                                                                                         \
  }
#include "capture/host/real/entry_points.def"
  errno = error;
}

/* An operator that nothing defines is what the standard library's would be, except that it cannot throw. */
#define PLAIN_NEW(size, param) (param) ? real.memalign(param, size) : real.malloc((size) ? (size) : 1)
#define PLAIN_DELETE(size, param) real.free(object)
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  static result boot_##ident declaration {                                                                             \
    resolve_operators(__builtin_return_address(0));                                                                    \
    if (real.ident != boot_##ident)                                                                                    \
      return real.ident arguments;                                                                                     \
    return PLAIN_##kind(size, param);                                                                                  \
  }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "capture/host/real/entry_points.def"
#pragma GCC diagnostic pop

static void resolve(void) {
  if (resolving || real.malloc != boot_malloc)
    return;
  int error = errno;
  resolving = true;
  isolated_setup(BOOT_REGION, false); /* without address space dlsym gets no memory, and needs none in most programs */
  typeof(real) found = real;
#define HOOK(ident, kind, result, declaration, arguments, size, param)                                                 \
  {                                                                                                                    \
    union {                                                                                                            \
      void *data;                                                                                                      \
      result(*code) declaration;                                                                                       \
    } next = {real_dlsym(RTLD_NEXT, #ident)};                                                                          \
    if (next.data)                                                                                                     \
      found.ident = next.code;                                                                                         \
  }
#include "capture/host/real/entry_points.def"
  real = found;
  resolving = false;
  errno = error;
}

/* --- entry points --- */

#define CALLER __builtin_return_address(0)

/* The region of a call whose return address is in the table; 0: further frames decide. */
static ALWAYS_INLINE unsigned region_of(const struct sites *table, const void *caller) {
  return table->regions[sites_place(table, (uintptr_t)caller)];
}

/* Where further frames decide, for a function that was reached by sibling calls. 0: the call is of no site. */
#define REGION_ABOVE sites_region_above(sites, (uintptr_t)CALLER, __builtin_frame_address(0))

static ALWAYS_INLINE bool is_alignment(size_t align) {
  return align && (align & (align - 1)) == 0;
}

static ALWAYS_INLINE void *aligned_in(unsigned region, size_t align, size_t size) {
  return is_alignment(align) ? isolated_acquire(region, (struct isolated_request){size, align, false}) : NULL;
}

static ALWAYS_INLINE void *zeroed_in(unsigned region, size_t count, size_t size) {
  size_t bytes;
  bool overflows = __builtin_mul_overflow(count, size, &bytes);
  return overflows ? NULL : isolated_acquire(region, (struct isolated_request){bytes, 0, true});
}

/* in_region: NULL where the region has no memory, and the program's allocator has to serve the call. */
#define LIST(...) __VA_ARGS__
#define ACQUIRES(function, ident, declaration, arguments, in_region)                                                   \
  static __attribute__((noinline)) void *ident##_in(unsigned region, LIST declaration) {                               \
    void *object = (in_region);                                                                                        \
    return object ? object : real.ident arguments;                                                                     \
  }                                                                                                                    \
  SLOW void *ident##_above declaration {                                                                               \
    unsigned region = REGION_ABOVE;                                                                                    \
    return region ? ident##_in(region, LIST arguments) : real.ident arguments;                                         \
  }                                                                                                                    \
  static ALWAYS_INLINE void *placed_##ident(const void *caller, LIST declaration) {                                    \
    unsigned region = region_of(sites, caller);                                                                        \
    return region ? ident##_in(region, LIST arguments) : ident##_above arguments;                                      \
  }                                                                                                                    \
  EXPORT void *function declaration {                                                                                  \
    return unlikely(sites_has(sites, CALLER)) ? placed_##ident(CALLER, LIST arguments) : real.ident arguments;         \
  }

ACQUIRES(malloc, malloc, (size_t size), (size), isolated_malloc(region, size))
ACQUIRES(calloc, calloc, (size_t count, size_t size), (count, size), zeroed_in(region, count, size))
ACQUIRES(aligned_alloc, aligned_alloc, (size_t align, size_t size), (align, size), aligned_in(region, align, size))
ACQUIRES(memalign, memalign, (size_t align, size_t size), (align, size), aligned_in(region, align, size))
ACQUIRES(valloc, valloc, (size_t size), (size), aligned_in(region, os_page_bytes(), size))

/* Of an object of a region, which stays there, unless the region has no memory. */
SLOW void *resize(void *object, size_t size) {
  int error = errno;
  if (size == 0) { /* as glibc */
    isolated_release(object);
    return NULL;
  }
  void *moved = isolated_resize(object, size);
  if (!moved && (moved = real.malloc(size))) {
    size_t old = isolated_usable_bytes(object);
    memcpy(moved, object, old < size ? old : size);
    isolated_release(object);
  }
  errno = moved ? error : ENOMEM;
  return moved;
}
EXPORT void *realloc(void *object, size_t size) {
  if (unlikely(!object) && sites_has(sites, CALLER))
    return placed_malloc(CALLER, size);
  if (unlikely(object && isolated_owns(object)))
    return resize(object, size);
  return real.realloc(object, size);
}
EXPORT void *reallocarray(void *object, size_t count, size_t size) {
  size_t bytes;
  bool overflows = __builtin_mul_overflow(count, size, &bytes);
  if (!overflows && isolated_owns(object))
    return resize(object, bytes);
  if (!overflows && !object && sites_has(sites, CALLER))
    return placed_malloc(CALLER, bytes);
  if (!overflows || !isolated_owns(object))
    return real.reallocarray(object, count, size);
  errno = ENOMEM;
  return NULL;
}

SLOW int placed_posix_memalign(void **result, size_t align, size_t size) {
  unsigned region = region_of(sites, CALLER);
  if (!region)
    region = REGION_ABOVE;
  void *object = region && align % sizeof(void *) == 0 ? aligned_in(region, align, size) : NULL;
  if (!object)
    return real.posix_memalign(result, align, size);
  *result = object;
  return 0;
}
EXPORT int posix_memalign(void **result, size_t align, size_t size) {
  return unlikely(sites_has(sites, CALLER)) ? placed_posix_memalign(result, align, size)
                                            : real.posix_memalign(result, align, size);
}
EXPORT void *pvalloc(size_t size) { /* of whole OS pages: not placed */
  return real.pvalloc(size);
}
EXPORT size_t malloc_usable_size(void *object) {
  return unlikely(isolated_owns(object)) ? isolated_usable_bytes(object) : real.malloc_usable_size(object);
}

#define RELEASES(ident, declaration, arguments)                                                                        \
  {                                                                                                                    \
    if (unlikely(isolated_owns(object)))                                                                               \
      isolated_release(object);                                                                                        \
    else                                                                                                               \
      real.ident arguments;                                                                                            \
  }
EXPORT void free(void *object) RELEASES(free, (void *object), (object)) EXPORT
    void free_sized(void *object, size_t size) RELEASES(free_sized, (void *object, size_t size), (object, size)) EXPORT
    void free_aligned_sized(void *object, size_t align, size_t size)
        RELEASES(free_aligned_sized, (void *object, size_t align, size_t size), (object, align, size))

#define ENTRY_NEW(ident, declaration, arguments, size, param)                                                          \
  ACQUIRES(operator_##ident, ident, declaration, arguments,                                                            \
           (param) ? aligned_in(region, param, size) : isolated_malloc(region, size))
#define ENTRY_DELETE(ident, declaration, arguments, size, param)                                                       \
  EXPORT void operator_##ident declaration RELEASES(ident, declaration, arguments)
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  ENTRY_##kind(ident, declaration, arguments, size, param)
#include "capture/host/real/entry_points.def"

    /* --- the plan --- */

    static void say(const char *path, const struct plan_error *error, const char *consequence) {
  char line[512], place[32] = "";
  if (error->line)
    snprintf(place, sizeof place, "line %u: ", error->line);
  int bytes = snprintf(line, sizeof line, "heaptape: %.300s: %s%s: %s\n", path, place, error->what, consequence);
  ssize_t written = bytes > 0 ? write(STDERR_FILENO, line, (size_t)bytes) : 0;
  (void)written;
}

static int read_plan(const char *path, struct plan *plan, struct plan_error *error) {
  char *text = os_map(PLAN_TEXT_BYTES + 1, false);
  int fd = text ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  ssize_t bytes = 0, got = -1;
  while (fd >= 0 && bytes <= PLAN_TEXT_BYTES &&
         ((got = read(fd, text + bytes, (size_t)(PLAN_TEXT_BYTES + 1 - bytes))) > 0 || (got < 0 && errno == EINTR)))
    bytes += got > 0 ? got : 0;
  int status = -1;
  if (got < 0)
    *error = (struct plan_error){"can't be read", 0};
  else if (bytes > PLAN_TEXT_BYTES)
    *error = (struct plan_error){"is larger than 1 MiB", 0};
  else
    status = plan_parse(plan, text, (size_t)bytes, error);
  os_close(fd);
  if (text)
    os_unmap(text, PLAN_TEXT_BYTES + 1);
  return status;
}

/* Is this process of the program that was recorded? If not, as in a shell that starts it, nothing need be said. */
static bool is_program(const char *name) {
  char path[4096];
  ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
  path[bytes > 0 ? bytes : 0] = '\0';
  const char *slash = strrchr(path, '/');
  return !*name || !slash || strcmp(slash + 1, name) == 0;
}

/* Returns whether sites may still come, so that the plan has to stay. */
static bool use_plan(const char *path, struct plan *plan) {
  struct plan_error error = {NULL, 0};
  if (isolated_owner_limit == 0) {
    say(path, &(struct plan_error){"no address space for regions", 0}, "nothing is placed");
  } else if (read_plan(path, plan, &error) != 0) {
    say(path, &error, "nothing is placed");
  } else {
    uint32_t added = sites_begin(plan);
    if (added < plan->site_count && is_program(plan->program)) {
      char what[128];
      snprintf(what, sizeof what, "%u of %u sites are of builds that are not loaded", plan->site_count - added,
               plan->site_count);
      say(path, &(struct plan_error){what, 0}, "not placed unless they are loaded later");
    }
    return added < plan->site_count;
  }
  return false;
}

static const char *plan_path(char **environment) {
  static const char name[] = "HEAPTAPE_PLACE=";
  for (; environment && *environment; environment++)
    if (strncmp(*environment, name, sizeof name - 1) == 0)
      return *environment + sizeof name - 1;
  return NULL;
}

__attribute__((constructor)) static void begin(int argc, char **argv, char **environment) {
  (void)argc;
  (void)argv;
  int saved_errno = errno;
#if !defined(__GLIBC__) /* other C libraries may pass nothing to a constructor */
  environment = environ;
#endif
  const char *path = plan_path(environment);
  resolve();
  struct plan *plan = path && *path ? os_map(sizeof *plan, false) : NULL;
  if (plan) {
    pthread_atfork(isolated_before_fork, isolated_after_fork, isolated_after_fork);
    if (!use_plan(path, plan))
      os_unmap(plan, sizeof *plan);
  }
  errno = saved_errno;
}

#if defined(__GLIBC__)
/* --- libraries that are loaded later --- */

/* A library is used after names were looked up in it. By a sibling call, as the loader looks at its caller. */
EXPORT void *dlsym(void *handle, const char *name) {
  sites_refresh();
  return real_dlsym(handle, name);
}
EXPORT int dlclose(void *handle) {
  int (*real_dlclose)(void *) = (int (*)(void *))real_dlsym(RTLD_NEXT, "dlclose");
  int status = real_dlclose ? real_dlclose(handle) : -1;
  sites_refresh();
  return status;
}
#endif

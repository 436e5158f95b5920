/* SPDX-License-Identifier: MIT */
/* Counts the calls of the malloc API that a program makes, for comparison with a recording. Knows nothing of
   capture/ on purpose.

   LD_PRELOAD=libcount_calls.so COUNT_CALLS_DIR=DIR program: one file DIR/PID.N for each program that is executed and
   makes a call; N distinguishes the programs of a process. A file begins with the number of its processes (a
   little-endian u64): the first, and those forked from it without exec, which then need no system call but getpid, as a
   filter may forbid all others. Each process has its pid, and one entry for each entry point: its name, NUL-padded to
   40 bytes, and the number of its calls, all numbers u64. Every call counts, also one that fails or frees NULL. A
   program that is executed under a filter that forbids opening the file is not counted. Calls that a C++ operator makes
   in turn do not count (so neither do a new-handler's calls, nor the memory of an exception that an operator throws: do
   not use this library for such a program).

   The counters are a shared mapping of the file, so that they survive _exit and SIGKILL. The pointer to them is in
   memory that a fork child finds wiped, so a child gets its own counters however it was forked. */
#include "core/test/usual.h"

#define EXPORT __attribute__((visibility("default")))

enum call {
  COUNT_MALLOC,
  COUNT_FREE,
  COUNT_CALLOC,
  COUNT_REALLOC,
  COUNT_REALLOCARRAY,
  COUNT_POSIX_MEMALIGN,
  COUNT_ALIGNED_ALLOC,
  COUNT_MEMALIGN,
  COUNT_VALLOC,
  COUNT_PVALLOC,
  COUNT_MALLOC_USABLE_SIZE,
#define OPERATOR(ident, symbol, name, result, declaration, arguments) COUNT_##ident,
#define OPERATORS                                                                                                      \
  OPERATOR(new, "_Znwm", "operator new", void *, (size_t size), (size))                                                \
  OPERATOR(new_nothrow, "_ZnwmRKSt9nothrow_t", "operator new(nothrow)", void *, (size_t size, const void *tag),        \
           (size, tag))                                                                                                \
  OPERATOR(new_aligned, "_ZnwmSt11align_val_t", "operator new(align)", void *, (size_t size, size_t align),            \
           (size, align))                                                                                              \
  OPERATOR(new_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", "operator new(align,nothrow)", void *,           \
           (size_t size, size_t align, const void *tag), (size, align, tag))                                           \
  OPERATOR(delete, "_ZdlPv", "operator delete", void, (void *block), (block))                                          \
  OPERATOR(delete_nothrow, "_ZdlPvRKSt9nothrow_t", "operator delete(nothrow)", void, (void *block, const void *tag),   \
           (block, tag))                                                                                               \
  OPERATOR(delete_sized, "_ZdlPvm", "operator delete(size)", void, (void *block, size_t size), (block, size))          \
  OPERATOR(delete_aligned, "_ZdlPvSt11align_val_t", "operator delete(align)", void, (void *block, size_t align),       \
           (block, align))                                                                                             \
  OPERATOR(delete_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t", "operator delete(align,nothrow)", void,      \
           (void *block, size_t align, const void *tag), (block, align, tag))                                          \
  OPERATOR(delete_sized_aligned, "_ZdlPvmSt11align_val_t", "operator delete(size,align)", void,                        \
           (void *block, size_t size, size_t align), (block, size, align))                                             \
  OPERATOR(new_array, "_Znam", "operator new[]", void *, (size_t size), (size))                                        \
  OPERATOR(new_array_nothrow, "_ZnamRKSt9nothrow_t", "operator new[](nothrow)", void *,                                \
           (size_t size, const void *tag), (size, tag))                                                                \
  OPERATOR(new_array_aligned, "_ZnamSt11align_val_t", "operator new[](align)", void *, (size_t size, size_t align),    \
           (size, align))                                                                                              \
  OPERATOR(new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", "operator new[](align,nothrow)", void *,   \
           (size_t size, size_t align, const void *tag), (size, align, tag))                                           \
  OPERATOR(delete_array, "_ZdaPv", "operator delete[]", void, (void *block), (block))                                  \
  OPERATOR(delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", "operator delete[](nothrow)", void,                           \
           (void *block, const void *tag), (block, tag))                                                               \
  OPERATOR(delete_array_sized, "_ZdaPvm", "operator delete[](size)", void, (void *block, size_t size), (block, size))  \
  OPERATOR(delete_array_aligned, "_ZdaPvSt11align_val_t", "operator delete[](align)", void,                            \
           (void *block, size_t align), (block, align))                                                                \
  OPERATOR(delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t", "operator delete[](align,nothrow)",    \
           void, (void *block, size_t align, const void *tag), (block, align, tag))                                    \
  OPERATOR(delete_array_sized_aligned, "_ZdaPvmSt11align_val_t", "operator delete[](size,align)", void,                \
           (void *block, size_t size, size_t align), (block, size, align))
  OPERATORS
#undef OPERATOR
      COUNTED
};

static const char names[COUNTED][40] = {
    "malloc",        "free",     "calloc", "realloc", "reallocarray",       "posix_memalign",
    "aligned_alloc", "memalign", "valloc", "pvalloc", "malloc_usable_size",
#define OPERATOR(ident, symbol, name, result, declaration, arguments) name,
    OPERATORS
#undef OPERATOR
};

struct counter {
  char name[40];
  _Atomic uint64_t count;
};

enum { PROCESSES = 4096 }; /* more than that of one file make another */

struct process {
  uint64_t pid;
  struct counter counters[COUNTED];
};

struct file {
  _Atomic uint64_t used;
  struct process processes[PROCESSES];
};

struct image {
  _Atomic(struct counter *) counters;
  _Atomic int opening;
};

static struct file *_Atomic shared;

static struct image *_Atomic image;
static char directory[4000];

EXPORT void *malloc(size_t size);
EXPORT void free(void *block);
EXPORT void *calloc(size_t count, size_t size);
EXPORT void *realloc(void *block, size_t size);
EXPORT void *reallocarray(void *block, size_t count, size_t size);
EXPORT int posix_memalign(void **result, size_t align, size_t size);
EXPORT void *aligned_alloc(size_t align, size_t size);
EXPORT void *memalign(size_t align, size_t size);
EXPORT void *valloc(size_t size);
EXPORT void *pvalloc(size_t size);
EXPORT size_t malloc_usable_size(void *block);
#define OPERATOR(ident, symbol, name, result, declaration, arguments) EXPORT result ident declaration __asm__(symbol);
OPERATORS
#undef OPERATOR

/* A lost count would look like a recorder's error, so the process ends. Allocates nothing. */
static void give_up(const char *what) {
  (void)!write(2, what, strlen(what));
  (void)!write(2, ": count_calls gives up\n", 23);
  _exit(99);
}

static struct image *this_image(void) {
  struct image *known = atomic_load(&image);
  if (known)
    return known;
  struct image *fresh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED || madvise(fresh, 4096, MADV_WIPEONFORK) != 0)
    give_up("memory");
  if (atomic_compare_exchange_strong(&image, &known, fresh))
    return fresh;
  munmap(fresh, 4096);
  return known;
}

static struct file *open_file(void) {
  const char *wanted = getenv("COUNT_CALLS_DIR");
  if (directory[0] == '\0')
    snprintf(directory, sizeof directory, "%s", wanted ? wanted : ".");
  int fd = -1;
  char path[4100];
  for (unsigned i = 0; fd < 0; i++) {
    snprintf(path, sizeof path, "%s/%d.%u", directory, (int)getpid(), i);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST) {
      static struct file uncounted;
      if (prctl(PR_GET_SECCOMP) == 2)
        return &uncounted;
      give_up(path);
    }
  }
  struct file *file = MAP_FAILED;
  if (ftruncate(fd, sizeof *file) == 0)
    file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (file == MAP_FAILED)
    give_up(path);
  close(fd);
  return file;
}

static struct counter *take_counters(void) {
  struct file *file = atomic_load(&shared);
  uint64_t place = file ? atomic_fetch_add(&file->used, 1) : PROCESSES;
  if (place >= PROCESSES) {
    file = open_file();
    place = atomic_fetch_add(&file->used, 1);
    atomic_store(&shared, file);
  }
  struct process *process = &file->processes[place];
  process->pid = (uint64_t)getpid();
  for (unsigned i = 0; i < COUNTED; i++)
    memcpy(process->counters[i].name, names[i], sizeof names[i]);
  return process->counters;
}

static __thread int inside; /* operators */

static void count(enum call call) {
  if (inside > 0)
    return;
  struct image *mine = this_image();
  struct counter *counters = atomic_load_explicit(&mine->counters, memory_order_acquire);
  while (!counters) {
    if (!atomic_exchange(&mine->opening, 1)) {
      int error = errno;
      atomic_store(&mine->counters, take_counters());
      errno = error;
    }
    counters = atomic_load(&mine->counters);
  }
  atomic_fetch_add_explicit(&counters[call].count, 1, memory_order_relaxed);
}

static struct {
  __typeof__(&malloc) malloc;
  __typeof__(&free) free;
  __typeof__(&calloc) calloc;
  __typeof__(&realloc) realloc;
  __typeof__(&posix_memalign) posix_memalign;
  __typeof__(&aligned_alloc) aligned_alloc;
  __typeof__(&memalign) memalign;
  __typeof__(&valloc) valloc;
  __typeof__(&pvalloc) pvalloc;
  __typeof__(&malloc_usable_size) malloc_usable_size;
} next;

/* All at once, at the first call: a later dlsym might free an error text that another caller's dlsym has left. musl has
   no pvalloc. */
static void look_up(void) {
#define LOOK_UP(name)                                                                                                  \
  next.name = (__typeof__(next.name))dlsym(RTLD_NEXT, #name);                                                          \
  if (!next.name)                                                                                                      \
    give_up(#name);
  LOOK_UP(free)
  LOOK_UP(calloc)
  LOOK_UP(realloc)
  LOOK_UP(posix_memalign)
  LOOK_UP(aligned_alloc)
  LOOK_UP(memalign)
  LOOK_UP(valloc)
#ifdef __GLIBC__
  LOOK_UP(pvalloc)
#endif
  LOOK_UP(malloc_usable_size)
  LOOK_UP(malloc)
}

static void leave(const int *entered) {
  inside -= *entered;
}

/* musl's calloc calls malloc through the dynamic linker, and its posix_memalign calls aligned_alloc. glibc's make no
   such calls, and a replacement of it must see each call. */
#ifdef __GLIBC__
#define INSIDE
#else
#define INSIDE                                                                                                         \
  __attribute__((cleanup(leave))) const int entered = 1;                                                               \
  inside += entered;
#endif

/* Counts the call and makes it, of the next library. */
#define PASS_ON(call, name, ...)                                                                                       \
  count(call);                                                                                                         \
  if (!next.malloc)                                                                                                    \
    look_up();                                                                                                         \
  INSIDE                                                                                                               \
  return next.name(__VA_ARGS__)

void *malloc(size_t size) {
  PASS_ON(COUNT_MALLOC, malloc, size);
}
void free(void *block) {
  PASS_ON(COUNT_FREE, free, block);
}
void *calloc(size_t elements, size_t size) {
  PASS_ON(COUNT_CALLOC, calloc, elements, size);
}
void *realloc(void *block, size_t size) {
  PASS_ON(COUNT_REALLOC, realloc, block, size);
}

/* Not passed on unchanged: the C library's own calls realloc, through the dynamic linker again, which would be a call
   that the program did not make. */
void *reallocarray(void *block, size_t elements, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(elements, size, &bytes)) {
    count(COUNT_REALLOCARRAY);
    errno = ENOMEM;
    return NULL;
  }
  PASS_ON(COUNT_REALLOCARRAY, realloc, block, bytes);
}

int posix_memalign(void **result, size_t align, size_t size) {
  PASS_ON(COUNT_POSIX_MEMALIGN, posix_memalign, result, align, size);
}
void *aligned_alloc(size_t align, size_t size) {
  PASS_ON(COUNT_ALIGNED_ALLOC, aligned_alloc, align, size);
}
void *memalign(size_t align, size_t size) {
  PASS_ON(COUNT_MEMALIGN, memalign, align, size);
}
void *valloc(size_t size) {
  PASS_ON(COUNT_VALLOC, valloc, size);
}
void *pvalloc(size_t size) {
  PASS_ON(COUNT_PVALLOC, pvalloc, size);
}
size_t malloc_usable_size(void *block) {
  PASS_ON(COUNT_MALLOC_USABLE_SIZE, malloc_usable_size, block);
}

static struct {
#define OPERATOR(ident, symbol, name, result, declaration, arguments) result(*ident) declaration;
  OPERATORS
#undef OPERATOR
} next_operator;

/* Only for a program that calls one: other programs have no C++ library. */
static void look_up_operators(void) {
  void *library = dlsym(RTLD_NEXT, "_Znwm") ? RTLD_NEXT : dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
#define OPERATOR(ident, symbol, name, result, declaration, arguments)                                                  \
  next_operator.ident = (__typeof__(next_operator.ident))dlsym(library, symbol);                                       \
  if (!next_operator.ident)                                                                                            \
    give_up(name);
  OPERATORS
#undef OPERATOR
}

/* Compiled with -fexceptions: an exception leaves, too. */
#define OPERATOR(ident, symbol, name, result, declaration, arguments)                                                  \
  result ident declaration {                                                                                           \
    count(COUNT_##ident);                                                                                              \
    if (!next_operator.ident)                                                                                          \
      look_up_operators();                                                                                             \
    __attribute__((cleanup(leave))) const int entered = 1;                                                             \
    inside += entered;                                                                                                 \
    return next_operator.ident arguments;                                                                              \
  }
OPERATORS
#undef OPERATOR

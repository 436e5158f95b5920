/* SPDX-License-Identifier: MIT */
#include "allocators/common/base.h"
#include "allocators/common/entry.h"

/* C++'s operator new and delete, under the names of the Itanium ABI, through malloc and free.

   In C, so that no C++ library is needed. Where one is loaded, its new-handler is called and its std::bad_alloc thrown,
   through weak references; -fexceptions lets it pass through these frames. Where none is loaded, no code could catch
   it: abort. */

typedef void (*new_handler)(void);
extern new_handler get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

/* alignment 0: malloc's. Calls the handler until there is memory or it throws; without one, throws or returns NULL. */
static __attribute__((noinline)) void *new_again(size_t object_bytes, size_t alignment, bool throws) {
  for (;;) {
    new_handler handler = get_new_handler ? get_new_handler() : NULL;
    if (!handler)
      break;
    handler();
    void *object = alignment ? allocator_memalign(alignment, object_bytes) : allocator_malloc(object_bytes);
    if (object)
      return object;
  }
  if (!throws)
    return NULL;
  if (throw_bad_alloc)
    throw_bad_alloc();
  fault("operator new", "out of memory", NULL);
}

static inline void *new_object(size_t object_bytes, bool throws) {
  void *object = allocator_malloc(object_bytes);
  return __builtin_expect(object != NULL, 1) ? object : new_again(object_bytes, 0, throws);
}

static inline void *new_aligned_object(size_t object_bytes, size_t alignment, bool throws) {
  void *object = allocator_memalign(alignment, object_bytes);
  return __builtin_expect(object != NULL, 1) ? object : new_again(object_bytes, alignment, throws);
}

#pragma GCC diagnostic ignored "-Wunused-parameter" /* tags, and arguments of delete that are not needed */

/* Parameters after the first two (new) or the first (delete) select the overload. */
#define SYMBOL(result, name, symbol, ...)                                                                              \
  __attribute__((visibility("default"))) result name(__VA_ARGS__) __asm__(symbol);                                     \
  result name(__VA_ARGS__)
#define NEW(name, symbol, throws, ...)                                                                                 \
  SYMBOL(void *, name, symbol, size_t bytes, ##__VA_ARGS__) {                                                          \
    return new_object(bytes, throws);                                                                                  \
  }
#define NEW_ALIGNED(name, symbol, throws, ...)                                                                         \
  SYMBOL(void *, name, symbol, size_t bytes, size_t alignment, ##__VA_ARGS__) {                                        \
    return new_aligned_object(bytes, alignment, throws);                                                               \
  }
#define DELETE(name, symbol, ...)                                                                                      \
  SYMBOL(void, name, symbol, void *object, ##__VA_ARGS__) {                                                            \
    allocator_free(object);                                                                                            \
  }

/* clang-format off: a table */
NEW(new_plain, "_Znwm", true)
NEW(new_array, "_Znam", true)
NEW(new_nothrow, "_ZnwmRKSt9nothrow_t", false, const void *tag)
NEW(new_array_nothrow, "_ZnamRKSt9nothrow_t", false, const void *tag)
NEW_ALIGNED(new_at, "_ZnwmSt11align_val_t", true)
NEW_ALIGNED(new_array_at, "_ZnamSt11align_val_t", true)
NEW_ALIGNED(new_at_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", false, const void *tag)
NEW_ALIGNED(new_array_at_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", false, const void *tag)

/* Sizes are not checked: deleting a derived object through a base without a virtual destructor passes a wrong size, and
   happens in programs that otherwise work. */
DELETE(delete_plain, "_ZdlPv")
DELETE(delete_array, "_ZdaPv")
DELETE(delete_nothrow, "_ZdlPvRKSt9nothrow_t", const void *tag)
DELETE(delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", const void *tag)
DELETE(delete_sized, "_ZdlPvm", size_t bytes)
DELETE(delete_array_sized, "_ZdaPvm", size_t bytes)
DELETE(delete_at, "_ZdlPvSt11align_val_t", size_t alignment)
DELETE(delete_array_at, "_ZdaPvSt11align_val_t", size_t alignment)
DELETE(delete_sized_at, "_ZdlPvmSt11align_val_t", size_t bytes, size_t alignment)
DELETE(delete_array_sized_at, "_ZdaPvmSt11align_val_t", size_t bytes, size_t alignment)
DELETE(delete_at_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t", size_t alignment, const void *tag)
DELETE(delete_array_at_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t", size_t alignment, const void *tag)
/* clang-format on */

/* SPDX-License-Identifier: MIT */
/* The rules of POSIX.1-2024 and C23 for each call, and glibc's additions, under the usual names. */
#include "allocators/reference/chunk.h"
#include "core/test/check.h"

void free_sized(void *object, size_t object_bytes);
void free_aligned_sized(void *object, size_t alignment, size_t object_bytes);

/* Also volatile: for alignments that compilers refuse. */
static void *(*volatile aligned_as_given)(size_t alignment, size_t object_bytes) = memalign;
static void *(*volatile aligned)(size_t alignment, size_t object_bytes) = aligned_alloc;

/* Checks that the condition holds, and that the call before it left errno at this value. */
#define CHECK_ERROR(condition, expected)                                                                               \
  do {                                                                                                                 \
    errno = 0;                                                                                                         \
    CHECK(condition);                                                                                                  \
    CHECK(errno == (expected));                                                                                        \
  } while (0)

/* Volatile: the compiler warns about constant sizes that are too large. */
static const volatile size_t too_much = PTRDIFF_MAX, all_bits = SIZE_MAX;

static void check_malloc(void) {
  void *first = malloc(0), *second = malloc(0);
  CHECK(first && second && first != second); /* unique pointers */
  free(first);
  free(second);
  free(NULL);
  CHECK_ERROR(malloc(all_bits) == NULL, ENOMEM);
  CHECK_ERROR(malloc(too_much + 1) == NULL, ENOMEM);
  CHECK_ERROR(malloc(too_much) == NULL, ENOMEM);
  CHECK_ERROR(malloc(all_bits - 7) == NULL, ENOMEM);
  for (size_t bytes = 1; bytes < 3000000; bytes = bytes * 5 / 4 + 1) {
    char *object = malloc(bytes);
    CHECK(object && (uintptr_t)object % _Alignof(max_align_t) == 0);
    CHECK(malloc_usable_size(object) >= bytes);
    memset(object, 1, malloc_usable_size(object));
    free(object);
  }
  CHECK(malloc_usable_size(NULL) == 0);
}

static void check_free_keeps_errno(void) {
  static const size_t sizes[] = {10, 500, 5000, 100000, 3000000};
  for (size_t index = 0; index < sizeof sizes / sizeof *sizes; index++) {
    void *object = malloc(sizes[index]);
    errno = 4711;
    free(object);
    CHECK(errno == 4711);
  }
}

static bool is_zero(const char *object, size_t bytes) {
  for (size_t index = 0; index < bytes; index++)
    if (object[index] != 0)
      return false;
  return true;
}

static void check_calloc(void) {
  CHECK_ERROR(calloc(all_bits / 2, 3) == NULL, ENOMEM);
  CHECK_ERROR(calloc(3, all_bits / 2) == NULL, ENOMEM);
  CHECK_ERROR(calloc(1, too_much) == NULL, ENOMEM);
  void *none = calloc(0, 8);
  CHECK(none);
  free(none);
  for (size_t bytes = 8; bytes < 3000000; bytes = bytes * 5 / 4 + 1) {
    void *dirty = malloc(bytes);
    memset(dirty, 0xff, bytes);
    free(dirty);
    char *object = calloc(bytes, 1);
    CHECK(object && is_zero(object, bytes));
    memset(object, 0xff, bytes);
    free(object);
  }
}

static void check_realloc(void) {
  char *object = realloc(NULL, 10);
  CHECK(object);
  memcpy(object, "recorded", 9);
  CHECK_ERROR(realloc(object, too_much) == NULL, ENOMEM); /* the object stays */
  CHECK(strcmp(object, "recorded") == 0);
  CHECK_ERROR(reallocarray(object, all_bits / 2, 3) == NULL, ENOMEM);
  for (size_t bytes = 20; bytes < 3000000; bytes *= 3) {
    object = realloc(object, bytes);
    CHECK(object && strcmp(object, "recorded") == 0);
  }
  object = reallocarray(object, 3, 5);
  CHECK(object && strcmp(object, "recorded") == 0);
  CHECK(realloc(object, 0) == NULL);
}

static void check_aligned(void) {
  static char untouched;
  void *object = &untouched;
  CHECK(posix_memalign(&object, 3, 8) == EINVAL);
  CHECK(posix_memalign(&object, 4, 8) == EINVAL); /* less than a pointer */
  CHECK(posix_memalign(&object, 0, 8) == EINVAL);
  CHECK(posix_memalign(&object, 24, 8) == EINVAL);
  errno = 0;
  CHECK(posix_memalign(&object, 64, too_much) == ENOMEM);
  CHECK(errno == 0); /* the error is only in the result */
  CHECK(object == &untouched);
  CHECK_ERROR(aligned(3, 8) == NULL, EINVAL);
  CHECK_ERROR(aligned(0, 8) == NULL, EINVAL);
  CHECK_ERROR(aligned(64, too_much) == NULL, ENOMEM);
  CHECK_ERROR(aligned((size_t)1 << 62, 8) == NULL, ENOMEM);
  CHECK_ERROR(memalign(all_bits, 8) == NULL, EINVAL);
  for (size_t alignment = 8; alignment <= 1 << 22; alignment *= 2) {
    for (size_t bytes = 0; bytes < 1000000; bytes = bytes * 7 + 1) {
      CHECK(posix_memalign(&object, alignment, bytes) == 0 && (uintptr_t)object % alignment == 0);
      CHECK(malloc_usable_size(object) >= bytes);
      memset(object, 1, bytes);
      free(object);
      object = aligned_alloc(alignment, bytes);
      CHECK(object && (uintptr_t)object % alignment == 0);
      object = realloc(object, bytes + 100);
      CHECK(object);
      free(object);
    }
  }
  object = aligned_as_given(48, 100); /* rounded up to 64 */
  CHECK(object && (uintptr_t)object % 64 == 0);
  free_aligned_sized(object, 64, 100);
  object = valloc(10);
  CHECK(object && (uintptr_t)object % 4096 == 0);
  free(object);
  object = pvalloc(10);
  CHECK(object && (uintptr_t)object % 4096 == 0 && malloc_usable_size(object) >= 4096);
  free(object);
  CHECK_ERROR(pvalloc(all_bits) == NULL, ENOMEM);
  CHECK_ERROR(valloc(all_bits) == NULL, ENOMEM);
}

static void check_sized_frees(void) {
  free_sized(NULL, 8);
  free_aligned_sized(NULL, 8, 8);
  free_sized(malloc(100), 100);
  free_sized(calloc(10, 10), 100);
  free_sized(realloc(NULL, 100000), 100000);
  free_aligned_sized(aligned_alloc(256, 512), 256, 512);
}

static void check_information(void) {
  void *objects[100];
  struct mallinfo2 before = mallinfo2();
  for (int index = 0; index < 100; index++)
    objects[index] = malloc(2000);
  struct mallinfo2 during = mallinfo2();
  CHECK(during.uordblks >= before.uordblks + 200000);
  CHECK(during.arena >= during.uordblks + during.fordblks);
  size_t object_bytes = mallinfo2().uordblks + mallinfo2().hblkhd; /* in the heap, or with its own mapping */
  void *huge = malloc(40 << 20);
  CHECK(mallinfo2().uordblks + mallinfo2().hblkhd >= object_bytes + (40 << 20));
  free(huge);
  for (int index = 0; index < 100; index++)
    free(objects[index]);
  CHECK(mallinfo2().uordblks < before.uordblks + 50000); /* a cache may keep some of them */
  char *text = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  CHECK(malloc_info(0, stream) == 0);
  CHECK(malloc_info(1, stream) == -1);
  fclose(stream);
  CHECK(text && strstr(text, "<malloc") && strstr(text, "</malloc>"));
  free(text);
  CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 30) == 0);
  CHECK(mallopt(-12345, 1) == 0);
  void *large = malloc(900000);
  memset(large, 1, 900000);
  void *above = malloc(100);
  free(large);
  CHECK(malloc_trim(0) == 1); /* the large object's OS pages */
  free(above);
}

int main(void) {
  check_malloc();
  check_free_keeps_errno();
  check_calloc();
  check_realloc();
  check_aligned();
  check_sized_frees();
  check_information();
  return 0;
}

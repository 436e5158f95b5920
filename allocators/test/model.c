/* SPDX-License-Identifier: MIT */
#include "allocators/test/model.h"

#include "allocators/common/entry.h"
#include "core/base/split_mix.h"
#include "core/test/usual.h"

void model_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

uint64_t model_random(struct model *model) {
  return split_mix_next(&model->random);
}

size_t model_size(struct model *model) {
  static const size_t limits[] = {64, 64, 64, 256, 1100, 1100, 5000, 70000, 400000};
  size_t limit = limits[model_random(model) % (sizeof limits / sizeof *limits)];
  return model_random(model) % (limit < model->size_limit_bytes ? limit : model->size_limit_bytes);
}

/* The stamp and the place determine each word of an object, and the last bytes. */
static uint64_t word_at(uint64_t stamp, size_t index) {
  return (stamp + index) * 0x9E3779B97F4A7C15u;
}

static void fill(struct model *model, struct model_object *object) {
  object->stamp = model_random(model) | 1;
  for (size_t at = 0; at < object->size_bytes; at += 8) {
    uint64_t word = word_at(object->stamp, at);
    memcpy(object->bytes + at, &word, object->size_bytes - at < 8 ? object->size_bytes - at : 8);
  }
}

static void check_bytes(const unsigned char *bytes, size_t size_bytes, uint64_t stamp) {
  for (size_t at = 0; at < size_bytes; at += 8) {
    uint64_t word = word_at(stamp, at);
    if (memcmp(bytes + at, &word, size_bytes - at < 8 ? size_bytes - at : 8) != 0)
      model_fail("object %p of %zu bytes: changed at byte %zu", (const void *)bytes, size_bytes, at);
  }
}

void model_check(const struct model_object *object) {
  check_bytes(object->bytes, object->size_bytes, object->stamp);
}

static void check_new(const void *bytes, size_t size_bytes, size_t alignment) {
  if (!bytes)
    model_fail("no memory for %zu bytes at a multiple of %zu", size_bytes, alignment);
  if ((uintptr_t)bytes % alignment != 0)
    model_fail("%p is not a multiple of %zu", bytes, alignment);
}

/* Sets the object's size to its usable size, so that all of it is checked. */
static struct model_object made(struct model *model, void *bytes, size_t size_bytes, size_t alignment) {
  check_new(bytes, size_bytes, alignment);
  size_t usable_bytes = allocator_malloc_usable_size(bytes);
  if (usable_bytes < size_bytes)
    model_fail("%zu bytes requested, %zu usable", size_bytes, usable_bytes);
  struct model_object object = {.bytes = bytes, .size_bytes = usable_bytes};
  fill(model, &object);
  return object;
}

static void check_zero(const unsigned char *bytes, size_t size_bytes) {
  for (size_t at = 0; at < size_bytes; at++)
    if (bytes[at] != 0)
      model_fail("calloc(%zu): byte %zu is %d", size_bytes, at, bytes[at]);
}

struct model_object model_acquire(struct model *model) {
  size_t size_bytes = model_size(model), alignment = (size_t)8 << model_random(model) % 10;
  void *bytes = NULL;
  switch (model_random(model) % 12) {
  case 0:
  case 1:
    bytes = allocator_calloc(1, size_bytes);
    check_new(bytes, size_bytes, 16);
    check_zero(bytes, size_bytes);
    return made(model, bytes, size_bytes, 16);
  case 2:
    if (allocator_posix_memalign(&bytes, alignment, size_bytes) != 0)
      model_fail("posix_memalign(%zu, %zu) failed", alignment, size_bytes);
    return made(model, bytes, size_bytes, alignment);
  case 3:
    return made(model, allocator_aligned_alloc(alignment, size_bytes), size_bytes, alignment);
  case 4:
    return made(model, allocator_realloc(NULL, size_bytes), size_bytes, 16);
  default:
    return made(model, allocator_malloc(size_bytes), size_bytes, 16);
  }
}

void model_release(struct model *model, struct model_object *object) {
  model_check(object);
  switch (model_random(model) % 8) {
  case 0:
    allocator_free_sized(object->bytes, object->size_bytes);
    break;
  case 1:
    if (allocator_realloc(object->bytes, 0))
      model_fail("realloc to size 0 returned an object");
    break;
  default:
    allocator_free(object->bytes);
  }
  object->bytes = NULL;
}

void model_resize(struct model *model, struct model_object *object) {
  size_t size_bytes = model_size(model) + 1;
  if (model_random(model) % 2) /* most programs grow by half */
    size_bytes = object->size_bytes + object->size_bytes / 2 + 1;
  if (size_bytes > 2 * model->size_limit_bytes)
    size_bytes = model->size_limit_bytes;
  model_check(object);
  unsigned char *bytes = allocator_realloc(object->bytes, size_bytes);
  check_new(bytes, size_bytes, 16);
  check_bytes(bytes, size_bytes < object->size_bytes ? size_bytes : object->size_bytes, object->stamp);
  *object = made(model, bytes, size_bytes, 16);
}

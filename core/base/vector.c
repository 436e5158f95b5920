/* SPDX-License-Identifier: MIT */
#include "core/base/vector.h"

#include "core/base/assert.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Size of a first allocation: a smaller one would soon be doubled. */
enum { FIRST_BYTES = 256 };

void *vector_enlarge(void *elements, size_t *room, size_t needed, size_t element_bytes) {
  HT_ASSERT(needed > *room && (elements != NULL) == (*room > 0));
  size_t wanted = *room > 0 ? *room : FIRST_BYTES / element_bytes;
  wanted = *room > 0 && wanted <= SIZE_MAX / 2 ? 2 * wanted : wanted;
  wanted = wanted < needed ? needed : wanted;
  void *larger = reallocarray(elements, wanted, element_bytes);
  if (larger)
    *room = wanted;
  return larger;
}

void *vector_enlarge_zeroed(void *elements, size_t *room, size_t needed, size_t element_bytes) {
  size_t before = *room;
  char *larger = vector_enlarge(elements, room, needed, element_bytes);
  if (larger)
    memset(larger + before * element_bytes, 0, (*room - before) * element_bytes);
  return larger;
}

uint8_t *buffer_enlarge(struct buffer *buffer, size_t more) {
  size_t needed;
  uint8_t *bytes = __builtin_add_overflow(buffer->used, more, &needed)
                       ? NULL
                       : vector_enlarge(buffer->bytes, &buffer->room, needed, 1);
  if (!bytes) {
    buffer->failed = true;
    return NULL;
  }
  buffer->bytes = bytes;
  return bytes + buffer->used;
}

void buffer_append_u64(struct buffer *buffer, uint64_t value) {
  buffer_append(buffer, &value, sizeof value);
}

void buffer_free(struct buffer *buffer) {
  free(buffer->bytes);
  *buffer = (struct buffer){0};
}

/* SPDX-License-Identifier: MIT */
#include "core/base/buffer.h"

#include "core/base/vector.h"

#include <stdlib.h>

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

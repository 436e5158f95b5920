#include "core/base/buffer.h"

#include "core/base/assert.h"
#include "core/base/leb.h"
#include "core/base/vector.h"

#include <stdlib.h>
#include <string.h>

uint8_t *buffer_reserve(struct buffer *buffer, size_t more) {
  HT_ASSERT(buffer->used <= buffer->room);
  if (buffer->room - buffer->used < more) {
    size_t needed;
    uint8_t *bytes = __builtin_add_overflow(buffer->used, more, &needed)
                         ? NULL
                         : vector_enlarge(buffer->bytes, &buffer->room, needed, 1);
    if (!bytes) {
      buffer->failed = true;
      return NULL;
    }
    buffer->bytes = bytes;
  }
  return buffer->bytes + buffer->used;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t count) {
  uint8_t *to = buffer_reserve(buffer, count);
  if (!to)
    return;
  memcpy(to, bytes, count);
  buffer->used += count;
}

void buffer_append_leb(struct buffer *buffer, uint64_t value) {
  uint8_t *to = buffer_reserve(buffer, LEB_MAX_BYTES);
  if (to)
    buffer->used += (size_t)(leb_put(to, value) - to);
}

void buffer_append_u64(struct buffer *buffer, uint64_t value) {
  buffer_append(buffer, &value, sizeof value);
}

void buffer_free(struct buffer *buffer) {
  free(buffer->bytes);
  *buffer = (struct buffer){0};
}

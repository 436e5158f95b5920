#include "core/base/buffer.h"

#include "core/base/leb.h"

#include <stdlib.h>
#include <string.h>

uint8_t *buffer_reserve(struct buffer *buffer, size_t more) {
  if (buffer->room - buffer->used < more) {
    size_t room = buffer->room ? buffer->room : 256;
    while (room - buffer->used < more)
      room *= 2;
    uint8_t *bytes = realloc(buffer->bytes, room);
    if (!bytes) {
      buffer->failed = true;
      return NULL;
    }
    buffer->bytes = bytes;
    buffer->room = room;
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

void buffer_append_u32(struct buffer *buffer, uint32_t value) {
  buffer_append(buffer, &value, sizeof value);
}

void buffer_append_u64(struct buffer *buffer, uint64_t value) {
  buffer_append(buffer, &value, sizeof value);
}

void buffer_free(struct buffer *buffer) {
  free(buffer->bytes);
  *buffer = (struct buffer){0};
}

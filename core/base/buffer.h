/* SPDX-License-Identifier: MIT */
/* Bytes to be written, in a buffer that grows. A failed allocation is sticky, so that one check at the end is enough.
   The functions that a recorder calls for each event and access are inline. */
#pragma once

#include "core/base/assert.h"
#include "core/base/leb.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buffer {
  uint8_t *bytes;
  size_t used, room;
  bool failed; /* out of memory: contents are not to be used */
};

/* buffer_reserve where there is not enough room. */
uint8_t *buffer_enlarge(struct buffer *buffer, size_t more);

/* Makes room for more bytes after used and returns where they go; NULL if there is no memory. */
static inline uint8_t *buffer_reserve(struct buffer *buffer, size_t more) {
  HT_ASSERT(buffer->used <= buffer->room);
  return buffer->room - buffer->used >= more ? buffer->bytes + buffer->used : buffer_enlarge(buffer, more);
}

static inline void buffer_append(struct buffer *buffer, const void *bytes, size_t count) {
  uint8_t *to = buffer_reserve(buffer, count);
  if (!to)
    return;
  memcpy(to, bytes, count);
  buffer->used += count;
}

static inline void buffer_append_leb(struct buffer *buffer, uint64_t value) {
  uint8_t *to = buffer_reserve(buffer, LEB_MAX_BYTES);
  if (to)
    buffer->used += (size_t)(leb_put(to, value) - to);
}

void buffer_append_u64(struct buffer *buffer, uint64_t value);
void buffer_free(struct buffer *buffer);

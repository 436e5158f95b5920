/* Bytes to be written, in a buffer that grows. A failed allocation is sticky, so that one check at the end is enough.
 */
#ifndef CORE_BASE_BUFFER_H
#define CORE_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
  uint8_t *bytes;
  size_t used, room;
  bool failed; /* out of memory: contents are not to be used */
};

/* Makes room for more bytes after used and returns where they go; NULL if there is no memory. */
uint8_t *buffer_reserve(struct buffer *buffer, size_t more);
void buffer_append(struct buffer *buffer, const void *bytes, size_t count);
void buffer_append_leb(struct buffer *buffer, uint64_t value);
void buffer_append_u64(struct buffer *buffer, uint64_t value);
void buffer_free(struct buffer *buffer);

#endif

/* SPDX-License-Identifier: MIT */
/* Arrays that grow, of any element type, and bytes to be written.

   Growth at least doubles, with malloc, and checks for overflow. Where there is no memory an array stays as it is, and
   the caller reports it; a buffer remembers the failure, so that one check at the end is enough. Elements move when an
   array grows, so a pointer to one is valid until the next is added. Invariant: count <= room. Not thread-safe. */
#pragma once

#include "core/base/assert.h"
#include "core/base/leb.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* In a zeroed vector, at is NULL. Free it with free(vector.at). */
#define VECTOR(type)                                                                                                   \
  struct {                                                                                                             \
    type *at;                                                                                                          \
    size_t count, room;                                                                                                \
  }

/* Makes room for `needed` elements, at least 1; false: no memory. */
#define vector_reserve(vector, needed)                                                                                 \
  ({                                                                                                                   \
    void *elements = vector_grow((vector)->at, &(vector)->room, (needed), sizeof *(vector)->at);                       \
    if (elements)                                                                                                      \
      (vector)->at = elements;                                                                                         \
    elements != NULL;                                                                                                  \
  })

/* Adds an element, uninitialised, and returns its address; NULL: no memory. */
#define vector_add(vector)                                                                                             \
  ({                                                                                                                   \
    __typeof__((vector)->at) added_element = NULL;                                                                     \
    if (vector_reserve((vector), (vector)->count + 1))                                                                 \
      added_element = &(vector)->at[(vector)->count++];                                                                \
    added_element;                                                                                                     \
  })

/* For arrays indexed by a number from elsewhere, where count is not used: makes at[index] valid, with zeroed new
   elements, and returns its address; NULL: no memory. */
#define vector_reach(vector, index)                                                                                    \
  ({                                                                                                                   \
    size_t wanted = (index);                                                                                           \
    void *reached = vector_grow_zeroed((vector)->at, &(vector)->room, wanted + 1, sizeof *(vector)->at);               \
    if (reached)                                                                                                       \
      (vector)->at = reached;                                                                                          \
    reached ? &(vector)->at[wanted] : NULL;                                                                            \
  })

/* qsort, also of a vector without elements, which has no array. */
#define vector_sort(vector, compare)                                                                                   \
  ((vector)->count ? qsort((vector)->at, (vector)->count, sizeof *(vector)->at, compare) : (void)0)

/* Negative: a comes first; positive: b does; 0: the next key decides, behind ?: */
#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* The macros use these. Each returns the elements' new address, with *room at least `needed`; NULL: no memory, and both
   are unchanged. */
void *vector_enlarge(void *elements, size_t *room, size_t needed, size_t element_bytes);
void *vector_enlarge_zeroed(void *elements, size_t *room, size_t needed, size_t element_bytes);

static inline void *vector_grow(void *elements, size_t *room, size_t needed, size_t element_bytes) {
  return needed <= *room ? elements : vector_enlarge(elements, room, needed, element_bytes);
}

static inline void *vector_grow_zeroed(void *elements, size_t *room, size_t needed, size_t element_bytes) {
  return needed <= *room ? elements : vector_enlarge_zeroed(elements, room, needed, element_bytes);
}

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

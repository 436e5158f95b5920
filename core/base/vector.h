/* SPDX-License-Identifier: MIT */
/* Arrays that grow, of any element type.

   Growth at least doubles, with malloc, and checks for overflow. Where there is no memory the array stays as it is, and
   the caller reports it. Elements move when an array grows, so a pointer to one is valid until the next is added.
   Invariant: count <= room. Not its job: bytes to be written, with one check at the end (buffer.h). Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

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

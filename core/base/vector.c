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

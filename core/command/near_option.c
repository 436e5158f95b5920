/* SPDX-License-Identifier: MIT */
#include "core/command/near_option.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { NAME_BYTES = 40 };

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* How many bytes have to be inserted, removed or replaced to make one word of the other (Levenshtein). */
static size_t distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
  size_t row[NAME_BYTES + 1];
  for (size_t j = 0; j <= b_bytes; j++)
    row[j] = j;
  for (size_t i = 1; i <= a_bytes; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b_bytes; j++) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
    }
  }
  return row[b_bytes];
}

struct nearest {
  const char *name;
  size_t distance; /* at first: the least that is too far */
};

/* False: the name is the word itself. */
static bool consider(struct nearest *nearest, const char *word, size_t bytes, const char *name) {
  size_t name_bytes = strlen(name);
  size_t now = name_bytes <= NAME_BYTES ? distance(word, bytes, name, name_bytes) : NAME_BYTES;
  if (now < nearest->distance)
    *nearest = (struct nearest){name, now};
  return now > 0;
}

static struct nearest nothing_near(size_t bytes) {
  return (struct nearest){NULL, bytes / 3 + 2};
}

const char *near_option(const char *word, const struct option *options) {
  if (strncmp(word, "--", 2) != 0)
    return NULL;
  size_t bytes = strcspn(word + 2, "=");
  struct nearest nearest = nothing_near(bytes);
  for (; bytes <= NAME_BYTES && options->name; options++)
    if (!consider(&nearest, word + 2, bytes, options->name))
      return NULL;
  return nearest.name;
}

const char *near_word(const char *word, const char *const *known) {
  size_t bytes = strlen(word);
  struct nearest nearest = nothing_near(bytes);
  for (; bytes <= NAME_BYTES && *known; known++)
    if (!consider(&nearest, word, bytes, *known))
      return NULL;
  return nearest.name;
}

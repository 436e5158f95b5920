/* SPDX-License-Identifier: MIT */
/* libFuzzer target: a group expression up to the first line break, then names for its patterns, one per line. Checks
   that an accepted range rises, and that a name without * matches itself as a pattern. */
#include "convert/whatif/groups.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check_ranges(const struct group_term *term) {
  for (size_t i = 0; i < term->ranges.count; i++)
    if (term->ranges.at[i].first > term->ranges.at[i].last)
      __builtin_trap();
}

static void try_names(const struct group_term *term, const char *name) {
  for (size_t i = 0; i < term->names.count; i++) {
    const char *pattern = term->names.at[i];
    if (!strchr(pattern, '*') && group_matches(pattern, name) != (strcmp(pattern, name) == 0))
      __builtin_trap();
    if (!group_matches(pattern, pattern) || group_matches("", name) != (*name == '\0'))
      __builtin_trap();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  char *text = strndup((const char *)bytes, count), *rest = text;
  if (!text)
    return 0;
  const char *expression = strsep(&rest, "\n");
  struct group group;
  bool legal = group_parse(&group, expression) == NULL;
  if (legal && group.terms.count == 0)
    __builtin_trap();
  for (const char *name; legal && (name = strsep(&rest, "\n"));)
    for (size_t i = 0; i < group.terms.count; i++) {
      check_ranges(&group.terms.at[i]);
      try_names(&group.terms.at[i], name);
    }
  group_free(&group);
  free(text);
  return 0;
}

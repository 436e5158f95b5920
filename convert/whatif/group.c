/* SPDX-License-Identifier: MIT */
#include "convert/whatif/group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const group_action_names[] = {"remove", "segregate", "pool", "early", "late"};
enum { ACTIONS = sizeof group_action_names / sizeof *group_action_names };

static const char *const grouping_names[] = {"site", "function", "frame", "thread", "size", "phase"};
enum { GROUPINGS = sizeof grouping_names / sizeof *grouping_names };

#define MAX_POOL_BYTES (1ull << 40)

/* Parses a whole number, with k, m or g after it, up to end. */
static bool parse_number(const char *text, const char *end, uint64_t *number) {
  char *rest;
  errno = 0;
  if (text == end || *text < '0' || *text > '9')
    return false;
  *number = strtoull(text, &rest, 10);
  unsigned shift = rest == end ? 0 : *rest == 'k' ? 10 : *rest == 'm' ? 20 : *rest == 'g' ? 30 : 64;
  if (errno || shift == 64 || rest + (shift != 0) != end || *number > UINT64_MAX >> shift)
    return false;
  *number <<= shift;
  return true;
}

/* Parses N, or FROM..TO; either side may be left out. */
static bool parse_range(const char *text, const char *end, struct group_range *range) {
  const char *dots = memmem(text, (size_t)(end - text), "..", 2);
  *range = (struct group_range){0, UINT64_MAX};
  if (!dots) {
    bool is_number = parse_number(text, end, &range->first);
    range->last = range->first;
    return is_number;
  }
  return (dots == text || parse_number(text, dots, &range->first)) &&
         (dots + 2 == end || parse_number(dots + 2, end, &range->last)) && range->first <= range->last;
}

static const char *add_name(struct group_term *term, const char *text, const char *end) {
  char **name = vector_add(&term->names);
  if (!name)
    return "out of memory";
  *name = strndup(text, (size_t)(end - text));
  if (*name)
    return NULL;
  term->names.count--;
  return "out of memory";
}

static const char *parse_value(struct group_term *term, const char *text, const char *end) {
  struct group_range range;
  bool by_number = term->grouping != BY_FUNCTION && term->grouping != BY_FRAME;
  bool by_name = !by_number || term->grouping == BY_PHASE;
  if (text == end)
    return "a value is empty";
  if (!by_number || !parse_range(text, end, &range))
    return by_name ? add_name(term, text, end) : "needs numbers, or ranges FROM..TO";
  struct group_range *added = vector_add(&term->ranges);
  if (!added)
    return "out of memory";
  *added = range;
  return NULL;
}

static const char *find_or(const char *text, const char *end, char wanted) {
  const char *found = memchr(text, wanted, (size_t)(end - text));
  return found ? found : end;
}

/* Parses GROUPING=VALUE,VALUE... up to end. */
static const char *parse_term(struct group *group, const char *text, const char *end) {
  const char *equals = find_or(text, end, '='), *problem = NULL;
  unsigned grouping = 0;
  while (grouping < GROUPINGS && (strlen(grouping_names[grouping]) != (size_t)(equals - text) ||
                                  strncmp(text, grouping_names[grouping], (size_t)(equals - text)) != 0))
    grouping++;
  if (equals - text == 3 && strncmp(text, "age", 3) == 0)
    return "age is relative to a position, and a rewritten workload has none";
  if (grouping == GROUPINGS || equals == end)
    return "needs terms of site=, function=, frame=, thread=, size= and phase=, joined by &";
  struct group_term *term = vector_add(&group->terms);
  if (!term)
    return "out of memory";
  *term = (struct group_term){.grouping = (enum group_grouping)grouping};
  for (const char *value = equals + 1; !problem && value <= end;) {
    const char *comma = find_or(value, end, ',');
    problem = parse_value(term, value, comma);
    value = comma + 1;
  }
  return problem;
}

/* Returns where =ACTION begins at the end of text; NULL: it has none. */
static const char *parse_action(struct group *group, const char *text) {
  const char *equals = strrchr(text, '=');
  for (unsigned action = 0; equals && action < ACTIONS; action++)
    if (action != GROUP_POOL && strcmp(equals + 1, group_action_names[action]) == 0) {
      group->action = (enum group_action)action;
      return equals;
    }
  if (!equals || equals - text < 5 || strncmp(equals - 5, "=pool", 5) != 0 ||
      !parse_number(equals + 1, equals + strlen(equals), &group->pool_bytes) || group->pool_bytes < 64 ||
      group->pool_bytes > MAX_POOL_BYTES)
    return NULL;
  group->action = GROUP_POOL;
  return equals - 5;
}

const char *group_parse(struct group *group, const char *text) {
  *group = (struct group){.text = strdup(text)};
  if (!group->text)
    return "out of memory";
  const char *end = parse_action(group, text), *problem = NULL;
  if (!end)
    return "needs EXPR=remove, =segregate, =pool=BYTES (64 or more), =early or =late";
  for (const char *term = text; !problem && term <= end;) {
    const char *joint = find_or(term, end, '&');
    problem = parse_term(group, term, joint);
    term = joint + 1;
  }
  return problem;
}

void group_free(struct group *group) {
  for (size_t i = 0; i < group->terms.count; i++) {
    struct group_term *term = &group->terms.at[i];
    for (size_t j = 0; j < term->names.count; j++)
      free(term->names.at[j]);
    free(term->names.at);
    free(term->ranges.at);
  }
  free(group->terms.at);
  free(group->text);
  *group = (struct group){0};
}

/* If a match after a * fails, that * takes one character more; earlier ones need not be tried again. */
bool group_matches(const char *pattern, const char *name) {
  const char *star = NULL, *after = NULL;
  while (*name) {
    if (*pattern == '*') {
      star = pattern++;
      after = name;
    } else if (*pattern == *name) {
      pattern++;
      name++;
    } else if (star) {
      pattern = star + 1;
      name = ++after;
    } else {
      return false;
    }
  }
  while (*pattern == '*')
    pattern++;
  return *pattern == '\0';
}

/* SPDX-License-Identifier: MIT */
/* A group of objects on the command line, and the action on it: EXPR=ACTION (docs/use/BLAME.md, group expressions and
   "What if").

   Job: parsing the text. Not its job: which objects of a trace belong to the group (members.h). Not thread-safe. */
#pragma once

#include "core/base/vector.h"

#include <stdint.h>

enum group_action { GROUP_REMOVE, GROUP_SEGREGATE, GROUP_POOL, GROUP_EARLY, GROUP_LATE };
extern const char *const group_action_names[];

enum group_grouping { BY_SITE, BY_FUNCTION, BY_FRAME, BY_THREAD, BY_SIZE, BY_PHASE };

struct group_range {
  uint64_t first, last;
};

/* Holds if one of its values matches. */
struct group_term {
  enum group_grouping grouping;
  VECTOR(struct group_range) ranges;
  VECTOR(char *) names; /* patterns, in which * stands for anything */
};

struct group {
  char *text; /* EXPR=ACTION, as given */
  enum group_action action;
  uint64_t pool_bytes;             /* of GROUP_POOL */
  VECTOR(struct group_term) terms; /* all must hold */
};

/* Parses text. Returns NULL, or what is wrong with it; the group can be freed either way. */
const char *group_parse(struct group *group, const char *text);
void group_free(struct group *group);

/* Does the name match the pattern, from its first to its last character? */
bool group_matches(const char *pattern, const char *name);

/* SPDX-License-Identifier: MIT */
/* A group of objects as the command line names it, and what is to be done with it: EXPR=ACTION (docs/use/BLAME.md,
   group expressions and "What if").

   Job: the text taken apart. Not its job: which objects of a trace belong (members.h). Not thread-safe. */
#pragma once

#include "core/base/vector.h"

#include <stdint.h>

enum group_action { GROUP_REMOVE, GROUP_SEGREGATE, GROUP_POOL, GROUP_EARLY, GROUP_LATE };
extern const char *const group_action_names[];

enum group_grouping { BY_SITE, BY_FUNCTION, BY_FRAME, BY_THREAD, BY_SIZE, BY_PHASE };

struct group_range {
  uint64_t first, last;
};

/* One of the values must hold. */
struct group_term {
  enum group_grouping grouping;
  VECTOR(struct group_range) ranges;
  VECTOR(char *) names; /* patterns, in which * stands for anything */
};

struct group {
  char *text; /* EXPR=ACTION, as given */
  enum group_action action;
  uint64_t pool_bytes;             /* of GROUP_POOL */
  VECTOR(struct group_term) terms; /* all of which must hold */
};

/* Takes text apart. Returns NULL, or what is wrong with it; the group can be freed either way. */
const char *group_parse(struct group *group, const char *text);
void group_free(struct group *group);

/* Does the name match the pattern, from its first to its last character? */
bool group_matches(const char *pattern, const char *name);

/* SPDX-License-Identifier: MIT */
/* A group of objects on the command line, and the action on it: EXPR=ACTION (docs/use/BLAME.md, group expressions and
   "What if").

   Job: parsing the text. Not thread-safe. */
#pragma once

#include "convert/history/history.h"
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

/* Which objects of a trace belong to which group: queried at each birth, in the history's order.

   Job: numbers of sites, threads and phases as docs/use/BLAME.md defines them, names of functions and frames. Memory is
   O(stack nodes + marks + threads). Not thread-safe. */

struct members;

struct groups {
  const struct group *at;
  size_t count;
};

/* groups must outlive it. Returns 0, or -1 with error, also if a group needs what the trace lacks: call stacks, or
   marks. */
int members_open(struct members **out, struct trace_reader *reader, struct groups groups, struct error *error);
void members_close(struct members *members);

/* Call them for each op and each step left out, before members_of. */
void members_op(struct members *members, const struct history_op *op);
void members_left_out(struct members *members, const struct merge_step *step);

/* Marks passed so far: the phase. */
uint64_t members_phase(const struct members *members);

#define MEMBERS_NONE SIZE_MAX
/* op is a birth. *group: the group that the object belongs to, or MEMBERS_NONE. Returns 0, or -1 with error: it belongs
   to two. */
int members_of(struct members *members, const struct history_op *op, size_t *group);

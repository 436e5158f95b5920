/* SPDX-License-Identifier: MIT */
/* Which objects of a trace belong to which group: queried at each birth, in the history's order.

   Job: numbers of sites, threads and phases as docs/use/BLAME.md defines them, names of functions and frames. Not its
   job: what happens to the group (rewriter.h). Memory is O(stack nodes + marks + threads). Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "convert/whatif/group.h"

struct members;

struct groups {
  const struct group *at;
  size_t count;
};

/* groups must outlive it. Returns 0, or -1 with error, also if a group needs what the trace lacks: call stacks, or
   marks. */
int members_open(struct members **out, struct trace_reader *reader, struct groups groups, struct error *error);
void members_close(struct members *members);

/* Call them for each op and each step left out, before members_of. members_op returns the number of the op's thread, as
   in the workload of the whole trace. */
uint32_t members_op(struct members *members, const struct history_op *op);
void members_left_out(struct members *members, const struct merge_step *step);

/* Marks passed so far: the phase. */
uint64_t members_phase(const struct members *members);

#define MEMBERS_NONE SIZE_MAX
/* op is a birth. *group: the group that the object belongs to, or MEMBERS_NONE. Returns 0, or -1 with error: it belongs
   to two. */
int members_of(struct members *members, const struct history_op *op, size_t *group);

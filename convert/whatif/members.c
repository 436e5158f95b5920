/* SPDX-License-Identifier: MIT */
#include "convert/whatif/members.h"

#include "convert/compile/origins.h"
#include "convert/stacks/site_names.h"

#include <stdlib.h>

/* For a stack node and a term by names: does its stack match? */
enum answer { UNKNOWN, NO, YES };

struct members {
  struct groups groups;
  struct origin_marks marks;
  struct symbols *symbols;  /* NULL: no group needs names */
  struct site_names *names; /* as symbols */
  uint32_t *sites;          /* number of each stack node; 0: none yet */
  uint32_t site_count;
  uint32_t *threads; /* in the workload, plus 1; 0: no op yet */
  uint32_t thread_count;
  uint32_t nodes;
  uint64_t position; /* ops so far */
  uint8_t *answers;  /* enum answer of each node and term by names */
  size_t name_terms;
  struct error *error;
  const char *path;
};

static bool by_stack(const struct group_term *term) {
  return term->grouping == BY_SITE || term->grouping == BY_FUNCTION || term->grouping == BY_FRAME;
}

static bool by_symbols(const struct group_term *term) {
  return term->grouping == BY_FUNCTION || term->grouping == BY_FRAME;
}

static int check_group(struct members *members, const struct group *group) {
  for (size_t i = 0; i < group->terms.count; i++) {
    const struct group_term *term = &group->terms.at[i];
    if (by_stack(term) && members->nodes == 0)
      return error_set(members->error, members->path, "has no call stacks (record --stacks), which '%s' needs",
                       group->text);
    if (term->grouping == BY_PHASE && members->marks.list.count == 0)
      return error_set(members->error, members->path, "has no marks, which '%s' needs", group->text);
    members->name_terms += by_symbols(term);
  }
  return 0;
}

static int fill_in(struct members *members, struct trace_reader *reader, struct error *error) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  members->nodes = summary->stack_nodes;
  if (origin_marks_load(&members->marks, reader, error) != 0)
    return -1;
  for (size_t i = 0; i < members->groups.count; i++)
    if (check_group(members, &members->groups.at[i]) != 0)
      return -1;
  members->sites = calloc(members->nodes + 1u, sizeof *members->sites);
  members->threads = calloc(summary->threads + 1u, sizeof *members->threads);
  members->answers = calloc((members->nodes + 1u) * (members->name_terms + 1), 1);
  if (!members->sites || !members->threads || !members->answers)
    return error_set(error, members->path, "out of memory");
  if (!members->name_terms)
    return 0;
  if (symbols_open(&members->symbols, reader, false, error) != 0)
    return -1;
  members->names = site_names_new(members->symbols);
  return members->names ? 0 : error_set(error, members->path, "out of memory");
}

int members_open(struct members **out, struct trace_reader *reader, struct groups groups, struct error *error) {
  struct members *members = *out = calloc(1, sizeof *members);
  if (!members)
    return error_set(error, trace_reader_path(reader), "out of memory");
  *members = (struct members){.groups = groups, .error = error, .path = trace_reader_path(reader)};
  return fill_in(members, reader, error);
}

void members_close(struct members *members) {
  if (!members)
    return;
  site_names_free(members->names);
  symbols_close(members->symbols);
  origin_marks_free(&members->marks);
  free(members->sites);
  free(members->threads);
  free(members->answers);
  free(members);
}

uint32_t members_op(struct members *members, const struct history_op *op) {
  origin_marks_before_op(&members->marks, members->position++, op->thread, op->stamp);
  if (op->event)
    origin_marks_after_event(&members->marks, op->thread);
  if (members->threads[op->thread] == 0)
    members->threads[op->thread] = ++members->thread_count;
  return members->threads[op->thread] - 1;
}

/* A realloc of an object never seen has an op, too. */
void members_left_out(struct members *members, const struct merge_step *step) {
  if (step->is_last)
    origin_marks_after_event(&members->marks, step->thread);
}

uint64_t members_phase(const struct members *members) {
  return members->marks.passed;
}

static const char *phase_name(const struct members *members) {
  return members->marks.last ? members->marks.last->text : "start";
}

static bool name_is_among(const struct group_term *term, const char *name) {
  for (size_t i = 0; name && i < term->names.count; i++)
    if (group_matches(term->names.at[i], name))
      return true;
  return false;
}

/* Does a frame of the stack have that name, or belong to that library? */
static bool frame_matches(struct members *members, const struct group_term *term, uint32_t node) {
  for (; node; node = symbols_parent(members->symbols, node)) {
    size_t count;
    const struct symbol *symbol = symbols_of(members->symbols, node, &count);
    for (size_t i = 0; i < count; i++)
      if (name_is_among(term, symbol[i].function) || name_is_among(term, symbol[i].module))
        return true;
  }
  return false;
}

/* The name of the stack's function, as site_names.h finds it. */
static bool function_matches(struct members *members, const struct group_term *term, uint32_t node) {
  char name[SITE_FUNCTION_BYTES];
  return node && site_names_function(members->names, node, name) && name_is_among(term, name);
}

static bool names_match(struct members *members, const struct group_term *term, uint32_t node, size_t number) {
  uint8_t *answer = &members->answers[node * members->name_terms + number];
  bool by_frame = term->grouping == BY_FRAME;
  if (*answer == UNKNOWN)
    *answer = (by_frame ? frame_matches : function_matches)(members, term, node) ? YES : NO;
  return *answer == YES;
}

static bool value_is_among(const struct group_term *term, uint64_t value) {
  for (size_t i = 0; i < term->ranges.count; i++)
    if (value >= term->ranges.at[i].first && value <= term->ranges.at[i].last)
      return true;
  return false;
}

static bool term_holds(struct members *members, const struct group_term *term, const struct history_op *op) {
  uint32_t node = op->event ? op->event->stack : 0;
  switch (term->grouping) {
  case BY_SITE:
    return value_is_among(term, members->sites[node]);
  case BY_THREAD:
    return value_is_among(term, members->threads[op->thread] - 1);
  case BY_SIZE:
    return value_is_among(term, op->request_bytes);
  case BY_PHASE:
    return value_is_among(term, members_phase(members)) || name_is_among(term, phase_name(members));
  case BY_FUNCTION:
  case BY_FRAME:
    break;
  }
  return false;
}

/* first_name_term: the number of the group's first term by names. */
static bool belongs(struct members *members, const struct group *group, const struct history_op *op,
                    size_t first_name_term) {
  uint32_t node = op->event ? op->event->stack : 0;
  for (size_t i = 0; i < group->terms.count; i++) {
    const struct group_term *term = &group->terms.at[i];
    bool holds = by_symbols(term) ? names_match(members, term, node, first_name_term++) : term_holds(members, term, op);
    if (!holds)
      return false;
  }
  return true;
}

static size_t count_name_terms(const struct group *group) {
  size_t count = 0;
  for (size_t i = 0; i < group->terms.count; i++)
    count += by_symbols(&group->terms.at[i]);
  return count;
}

/* Sites are numbered in the order of the first ops that make objects there. */
static void number_site(struct members *members, const struct history_op *op) {
  uint32_t node = op->event ? op->event->stack : 0;
  if (node && members->sites[node] == 0)
    members->sites[node] = ++members->site_count;
}

int members_of(struct members *members, const struct history_op *op, size_t *group) {
  size_t name_term = 0;
  *group = MEMBERS_NONE;
  number_site(members, op);
  for (size_t i = 0; i < members->groups.count; i++) {
    const struct group *candidate = &members->groups.at[i];
    bool is_member = belongs(members, candidate, op, name_term);
    name_term += count_name_terms(candidate);
    if (!is_member)
      continue;
    if (*group != MEMBERS_NONE)
      return error_set(members->error, members->path,
                       "the groups '%s' and '%s' overlap: both have an object of %llu bytes",
                       members->groups.at[*group].text, candidate->text, (unsigned long long)op->request_bytes);
    *group = i;
  }
  return 0;
}

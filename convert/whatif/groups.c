/* SPDX-License-Identifier: MIT */
#include "convert/whatif/groups.h"

#include "convert/history/trace_info.h"
#include "convert/stacks/site_names.h"
#include "convert/stacks/symbols.h"

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

/* For a stack node and a term by names: does its stack match? */
enum answer { UNKNOWN, NO, YES };

struct members {
  struct groups groups;
  struct recorded_marks marks;
  const struct recorded_mark *phase; /* the mark that began the current phase; NULL: none */
  uint64_t phases;                   /* marks passed so far */
  struct symbols *symbols;           /* NULL: no group needs names */
  struct site_names *names;          /* as symbols */
  uint32_t *sites;                   /* number of each stack node; 0: none yet */
  uint32_t site_count;
  uint32_t *threads; /* in the workload, plus 1; 0: no op yet */
  uint32_t thread_count;
  uint32_t nodes;
  uint8_t *answers; /* enum answer of each node and term by names */
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
  if (recorded_marks_load(&members->marks, reader, error) != 0)
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
  recorded_marks_free(&members->marks);
  free(members->sites);
  free(members->threads);
  free(members->answers);
  free(members);
}

void members_op(struct members *members, const struct history_op *op) {
  const struct recorded_mark *mark, *last = NULL;
  for (; (mark = recorded_marks_before(&members->marks, op->thread, op->stamp)); members->phases++)
    last = mark > last ? mark : last;
  if (last)
    members->phase = last;
  if (op->event)
    recorded_marks_after_event(&members->marks, op->thread);
  if (members->threads[op->thread] == 0)
    members->threads[op->thread] = ++members->thread_count;
}

/* A realloc of an object never seen has an op, too. */
void members_left_out(struct members *members, const struct merge_step *step) {
  if (step->is_last)
    recorded_marks_after_event(&members->marks, step->thread);
}

uint64_t members_phase(const struct members *members) {
  return members->phases;
}

static const char *phase_name(const struct members *members) {
  return members->phase ? members->phase->text : "start";
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

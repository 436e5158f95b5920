/* SPDX-License-Identifier: MIT */
/* What if: a trace's history as it would be if groups of its objects were treated differently (docs/use/BLAME.md, "What
   if"): `compile --group`.

   Job: what happens to each op of a group's objects; counts. Invariants: the result is a legal history; the ops of
   objects of no group are all there, unchanged, in their order. Memory is O(live objects + threads), with `early`
   O(births of the group) too. Not thread-safe. */
#include "convert/compile/compile.h"
#include "convert/history/trace_info.h"
#include "convert/whatif/emitter.h"
#include "convert/whatif/groups.h"
#include "core/base/json.h"
#include "core/command/cli.h"
#include "core/workload/workload.h"

#include <inttypes.h>
#include <stdlib.h>

struct whatif {
  struct rewriting rewriting; /* its first member: the compiler has a pointer to it */
  VECTOR(struct group) groups;
  VECTOR(uint64_t) positions; /* of ops in the trace's history, rising: to be translated to positions in the result */
};

enum fate { KEPT, REMOVED, POOLED, PENDING };

/* An object, by slot of the history. */
struct object {
  uint64_t carved_bytes; /* of POOLED */
  uint32_t place;        /* the emitter's slot; for POOLED the chunk, for PENDING the birth's number */
  uint32_t group;        /* plus 1; 0: none */
  uint8_t fate, region;
};

struct counts {
  uint64_t objects, bytes, ops; /* bytes: requests at birth; ops: of the group's objects in the trace */
  uint64_t live_bytes, peak_live_bytes;
  uint64_t left_alone; /* objects that stay with the allocator although a pool was requested */
  uint64_t chunks;
};

struct rewriter {
  const struct whatif *whatif;
  struct members *members;
  struct emitter emitter;
  struct pools pools;
  struct moved_births early, late;
  uint32_t *next_early; /* of each thread: the moved birth of its next member */
  bool *begun;          /* of each thread */
  VECTOR(struct object) objects;
  struct counts *counts; /* of each group */
  uint8_t *regions;      /* of each group; 0: none */
  uint64_t stamp, phase;
  uint64_t position; /* ops of the trace so far */
  json_t *positions; /* [[in the trace, in the result], ...] of those requested */
  uint32_t threads;
  bool has_early, has_late;
  struct error *error;
  const char *path;
};

static int no_memory(const struct rewriter *rewriter) {
  return error_set(rewriter->error, rewriter->path, "out of memory");
}

static const struct group *group_of(const struct rewriter *rewriter, const struct object *object) {
  return &rewriter->whatif->groups.at[object->group - 1];
}

static void count_op(struct rewriter *rewriter, const struct object *object, uint64_t old_bytes, uint64_t new_bytes) {
  struct counts *counts = &rewriter->counts[object->group - 1];
  counts->ops++;
  counts->live_bytes += new_bytes - old_bytes;
  if (counts->live_bytes > counts->peak_live_bytes)
    counts->peak_live_bytes = counts->live_bytes;
}

/* Puts the op of an object that the allocator, or an isolated heap, serves. */
static int put_kept(struct rewriter *rewriter, const struct history_op *op, struct object *object) {
  struct history_op put = *op;
  put.slot = object->place;
  put.region = object->region;
  int result = emitter_put(&rewriter->emitter, &put);
  object->place = put.slot;
  return result;
}

/* Puts a birth at another place than in the trace. *slot: the object's. */
static int put_birth(struct rewriter *rewriter, const struct birth *birth, uint32_t *slot) {
  struct trace_event event;
  struct history_op op = moved_birth_op(birth, rewriter->stamp, &event);
  if (emitter_put(&rewriter->emitter, &op) != 0)
    return -1;
  *slot = op.slot;
  return 0;
}

static int put_pending_birth(struct rewriter *rewriter, struct object *object) {
  uint32_t number = object->place;
  const struct birth birth = rewriter->late.births.at[number];
  moved_births_remove(&rewriter->late, number);
  object->fate = KEPT;
  return put_birth(rewriter, &birth, &object->place);
}

/* Puts all pending births of the thread. The birth has the slot of its object in the history. */
static int put_pending_births(struct rewriter *rewriter, uint32_t thread) {
  int result = 0;
  uint32_t number;
  while (result == 0 && (number = rewriter->late.first[thread]) != BIRTHS_NONE)
    result = put_pending_birth(rewriter, &rewriter->objects.at[rewriter->late.births.at[number].slot]);
  return result;
}

static int pool(struct rewriter *rewriter, const struct history_op *op, struct object *object) {
  struct counts *counts = &rewriter->counts[object->group - 1];
  struct pool_order order = {.group = object->group - 1, .chunk_bytes = group_of(rewriter, object)->pool_bytes};
  if (pools_carve(&rewriter->pools, op, &order) != 0)
    return -1;
  counts->chunks += order.added;
  object->fate = POOLED;
  object->place = order.chunk;
  object->carved_bytes = pools_carved_bytes(op->request_bytes);
  return emitter_leave_out(&rewriter->emitter, op);
}

/* The object was already born, when its thread began. */
static int pass_early_birth(struct rewriter *rewriter, const struct history_op *op, struct object *object) {
  uint32_t *next = &rewriter->next_early[op->thread];
  HT_ASSERT(*next != BIRTHS_NONE);
  object->fate = KEPT;
  object->place = rewriter->early.births.at[*next].slot;
  *next = rewriter->early.births.at[*next].next;
  return emitter_leave_out(&rewriter->emitter, op);
}

static int put_off(struct rewriter *rewriter, const struct history_op *op, struct object *object) {
  uint32_t number = moved_births_add(&rewriter->late, op);
  if (number == BIRTHS_NONE)
    return -1;
  rewriter->late.births.at[number].slot = op->slot;
  object->fate = PENDING;
  object->place = number;
  return emitter_leave_out(&rewriter->emitter, op);
}

static int begin_member(struct rewriter *rewriter, const struct history_op *op, struct object *object) {
  const struct group *group = group_of(rewriter, object);
  struct counts *counts = &rewriter->counts[object->group - 1];
  counts->objects++;
  counts->bytes += op->request_bytes;
  count_op(rewriter, object, 0, op->request_bytes);
  switch (group->action) {
  case GROUP_REMOVE:
    object->fate = REMOVED;
    return emitter_leave_out(&rewriter->emitter, op);
  case GROUP_SEGREGATE:
    object->region = rewriter->regions[object->group - 1];
    break;
  case GROUP_POOL:
    if (pools_take(op, group->pool_bytes))
      return pool(rewriter, op, object);
    counts->left_alone++;
    break;
  case GROUP_EARLY:
    return pass_early_birth(rewriter, op, object);
  case GROUP_LATE:
    return put_off(rewriter, op, object);
  }
  return put_kept(rewriter, op, object);
}

static int begin_object(struct rewriter *rewriter, const struct history_op *op) {
  struct object *object = vector_reach(&rewriter->objects, op->slot);
  size_t group;
  if (!object)
    return -1;
  *object = (struct object){.fate = KEPT};
  if (members_of(rewriter->members, op, &group) != 0)
    return -1;
  if (group == MEMBERS_NONE)
    return put_kept(rewriter, op, object);
  object->group = (uint32_t)group + 1;
  return begin_member(rewriter, op, object);
}

/* A realloc of an object in a pool: it stays if it has room; else another place is carved, or the allocator serves it
   from now on. */
static int resize_pooled(struct rewriter *rewriter, const struct history_op *op, struct object *object) {
  uint32_t chunk = object->place;
  if (pools_carved_bytes(op->request_bytes) <= object->carved_bytes)
    return emitter_leave_out(&rewriter->emitter, op);
  int result;
  if (pools_take(op, group_of(rewriter, object)->pool_bytes)) {
    result = pool(rewriter, op, object);
  } else {
    struct history_op birth = *op;
    birth.kind = HISTORY_ACQUIRE;
    birth.call = CALL_malloc;
    birth.size_bytes = op->request_bytes;
    birth.param = 0;
    birth.touched_os_pages = birth.touched_parts = 0;
    rewriter->counts[object->group - 1].left_alone++;
    object->fate = KEPT;
    result = put_kept(rewriter, &birth, object);
  }
  return result == 0 ? pools_drop(&rewriter->pools, op, chunk) : -1;
}

static int change_pooled(struct rewriter *rewriter, const struct history_op *op, struct object *object) {
  if (op->kind == HISTORY_MOVE)
    return resize_pooled(rewriter, op, object);
  if (op->kind == HISTORY_RELEASE && pools_drop(&rewriter->pools, op, object->place) != 0)
    return -1;
  return emitter_leave_out(&rewriter->emitter, op);
}

static int change_object(struct rewriter *rewriter, const struct history_op *op, uint64_t old_bytes) {
  struct object *object = &rewriter->objects.at[op->slot];
  if (object->group)
    count_op(rewriter, object, op->kind == HISTORY_TOUCH ? 0 : old_bytes,
             op->kind == HISTORY_MOVE ? op->request_bytes : 0);
  switch ((enum fate)object->fate) {
  case REMOVED:
    return emitter_leave_out(&rewriter->emitter, op);
  case POOLED:
    return change_pooled(rewriter, op, object);
  case PENDING:
    if (put_pending_birth(rewriter, object) != 0)
      return -1;
    break;
  case KEPT:
    break;
  }
  return put_kept(rewriter, op, object);
}

/* Notes the current position, if it was requested. Births put before its op come after it. */
static void note_position(struct rewriter *rewriter) {
  const struct whatif *whatif = rewriter->whatif;
  size_t next = json_array_size(rewriter->positions);
  if (next < whatif->positions.count && whatif->positions.at[next] == rewriter->position)
    json_append_counts(rewriter->positions, 2, (uint64_t[]){rewriter->position, rewriter->emitter.witness.ops});
}

/* Puts what comes before the op: early births before the thread's first op, late births when a phase ends. */
static int before_op(struct rewriter *rewriter, const struct history_op *op) {
  int result = 0;
  if (op->stamp > rewriter->stamp)
    rewriter->stamp = op->stamp;
  members_op(rewriter->members, op);
  note_position(rewriter);
  rewriter->position++;
  if (rewriter->has_late && members_phase(rewriter->members) != rewriter->phase)
    for (uint32_t thread = 0; result == 0 && thread < rewriter->threads; thread++)
      result = put_pending_births(rewriter, thread);
  rewriter->phase = members_phase(rewriter->members);
  if (!rewriter->has_early || rewriter->begun[op->thread])
    return result;
  rewriter->begun[op->thread] = true;
  rewriter->next_early[op->thread] = rewriter->early.first[op->thread];
  for (uint32_t number = rewriter->early.first[op->thread]; result == 0 && number != BIRTHS_NONE;
       number = rewriter->early.births.at[number].next)
    result = put_birth(rewriter, &rewriter->early.births.at[number], &rewriter->early.births.at[number].slot);
  return result;
}

static int rewrite_op(void *context, const struct history_op *op, struct slots *slots) {
  struct rewriter *rewriter = context;
  int result = before_op(rewriter, op);
  if (result == 0 && op->kind == HISTORY_ACQUIRE) {
    result = begin_object(rewriter, op);
  } else if (result == 0 && op->kind == HISTORY_NOTHING) {
    struct history_op put = *op;
    result = emitter_put(&rewriter->emitter, &put);
  } else if (result == 0) {
    result = change_object(rewriter, op, slots->at[op->slot].size_bytes);
  }
  return result;
}

static int rewrite_left_out(void *context, const struct merge_step *step, uint32_t slot) {
  struct rewriter *rewriter = context;
  const struct history_consumer *consumer = rewriter->emitter.consumer;
  members_left_out(rewriter->members, step);
  return consumer->left_out ? consumer->left_out(consumer->context, step, slot) : 0;
}

/* The thread's pending births have no later place. A failure is reported at the next op, or at the end. */
static void rewrite_thread_end(void *context, uint32_t thread) {
  struct rewriter *rewriter = context;
  if (rewriter->has_late && put_pending_births(rewriter, thread) != 0)
    no_memory(rewriter);
  emitter_end_thread(&rewriter->emitter, thread);
}

static void rewrite_touched_at_end(void *context, uint32_t slot, struct touched touched) {
  struct rewriter *rewriter = context;
  const struct history_consumer *consumer = rewriter->emitter.consumer;
  const struct object *object = &rewriter->objects.at[slot];
  if (object->fate == KEPT && consumer->touched_at_end)
    consumer->touched_at_end(consumer->context, object->place, touched);
}

/* The first run, which collects the births of early groups. */
static int collect_op(void *context, const struct history_op *op, struct slots *slots) {
  (void)slots;
  struct rewriter *rewriter = context;
  size_t group;
  members_op(rewriter->members, op);
  if (op->kind != HISTORY_ACQUIRE)
    return 0;
  if (members_of(rewriter->members, op, &group) != 0)
    return -1;
  if (group == MEMBERS_NONE || rewriter->whatif->groups.at[group].action != GROUP_EARLY)
    return 0;
  return moved_births_add(&rewriter->early, op) == BIRTHS_NONE ? no_memory(rewriter) : 0;
}

static int collect_left_out(void *context, const struct merge_step *step, uint32_t slot) {
  (void)slot;
  struct rewriter *rewriter = context;
  members_left_out(rewriter->members, step);
  return 0;
}

static int open_members(struct rewriter *rewriter) {
  const struct whatif *whatif = rewriter->whatif;
  const struct groups groups = {whatif->groups.at, whatif->groups.count};
  return members_open(&rewriter->members, whatif->rewriting.reader, groups, rewriter->error);
}

static int collect(struct rewriter *rewriter) {
  const struct rewriting *rewriting = &rewriter->whatif->rewriting;
  const struct history_consumer consumer = {.context = rewriter, .op = collect_op, .left_out = collect_left_out};
  struct witness witness;
  int result = history_run(rewriting->reader, rewriting->options, &consumer, &witness, rewriter->error);
  members_close(rewriter->members);
  rewriter->members = NULL;
  return result == 0 ? open_members(rewriter) : -1;
}

static int set_up_groups(struct rewriter *rewriter) {
  unsigned regions = 0;
  for (size_t i = 0; i < rewriter->whatif->groups.count; i++) {
    enum group_action action = rewriter->whatif->groups.at[i].action;
    rewriter->has_early |= action == GROUP_EARLY;
    rewriter->has_late |= action == GROUP_LATE;
    if (action != GROUP_SEGREGATE)
      continue;
    if (regions == WORKLOAD_MOST_REGIONS)
      return error_set(rewriter->error, rewriter->path, "at most %d groups can be segregated", WORKLOAD_MOST_REGIONS);
    rewriter->regions[i] = (uint8_t)++regions;
  }
  return 0;
}

static int set_up(struct rewriter *rewriter, const struct history_consumer *consumer) {
  const struct rewriting *rewriting = &rewriter->whatif->rewriting;
  struct trace_info info;
  uint32_t threads = rewriter->threads = trace_reader_summary(rewriting->reader)->threads;
  size_t groups = rewriter->whatif->groups.count;
  trace_info_read(&info, trace_reader_summary(rewriting->reader)->info_json);
  uint64_t given = rewriting->options->os_page_bytes, os_page_bytes = given ? given : info.os_page_bytes;
  trace_info_free(&info);
  rewriter->positions = json_array();
  rewriter->counts = calloc(groups + 1, sizeof *rewriter->counts);
  rewriter->regions = calloc(groups + 1, 1);
  rewriter->begun = calloc(threads + 1ull, sizeof *rewriter->begun);
  rewriter->next_early = calloc(threads + 1ull, sizeof *rewriter->next_early);
  bool done = emitter_init(&rewriter->emitter, consumer, threads, os_page_bytes) == 0;
  done &= pools_init(&rewriter->pools, &rewriter->emitter, groups, threads) == 0;
  done &= moved_births_init(&rewriter->early, threads) == 0 && moved_births_init(&rewriter->late, threads) == 0;
  if (!done || !rewriter->counts || !rewriter->regions || !rewriter->begun || !rewriter->next_early)
    return no_memory(rewriter);
  return open_members(rewriter) == 0 ? set_up_groups(rewriter) : -1;
}

static void tear_down(struct rewriter *rewriter) {
  members_close(rewriter->members);
  pools_free(&rewriter->pools);
  emitter_free(&rewriter->emitter);
  moved_births_free(&rewriter->early);
  moved_births_free(&rewriter->late);
  free(rewriter->objects.at);
  free(rewriter->counts);
  free(rewriter->regions);
  free(rewriter->begun);
  free(rewriter->next_early);
  json_decref(rewriter->positions);
}

static int check_positions(struct rewriter *rewriter) {
  const struct whatif *whatif = rewriter->whatif;
  note_position(rewriter);
  if (json_array_size(rewriter->positions) == whatif->positions.count)
    return 0;
  return error_set(rewriter->error, rewriter->path, "position %" PRIu64 " is beyond the end: there are %" PRIu64 " ops",
                   whatif->positions.at[whatif->positions.count - 1], rewriter->position);
}

static int check_matches(const struct rewriter *rewriter) {
  for (size_t i = 0; i < rewriter->whatif->groups.count; i++)
    if (rewriter->counts[i].objects == 0)
      return error_set(rewriter->error, rewriter->path, "no object belongs to the group '%s'",
                       rewriter->whatif->groups.at[i].text);
  return 0;
}

static json_t *about_groups(const struct rewriter *rewriter) {
  json_t *array = json_array();
  for (size_t i = 0; i < rewriter->whatif->groups.count; i++) {
    const struct group *group = &rewriter->whatif->groups.at[i];
    const struct counts *counts = &rewriter->counts[i];
    json_t *object = json_pack("{ss ss}", "group", group->text, "action", group_action_names[group->action]);
    json_set_count(object, "objects", counts->objects);
    json_set_count(object, "bytes", counts->bytes);
    json_set_count(object, "peak_live_bytes", counts->peak_live_bytes);
    json_set_count(object, "ops", counts->ops);
    if (rewriter->regions[i])
      json_set_count(object, "apart", rewriter->regions[i]);
    if (group->action == GROUP_POOL) {
      json_set_count(object, "pool_bytes", group->pool_bytes);
      json_set_count(object, "chunks", counts->chunks);
      json_set_count(object, "left_alone", counts->left_alone);
    }
    json_array_append_new(array, object);
  }
  return array;
}

static json_t *about(const struct rewriter *rewriter) {
  json_t *object = json_pack("{so}", "whatif", about_groups(rewriter));
  if (rewriter->whatif->positions.count)
    json_object_set(object, "whatif_positions", rewriter->positions);
  return object;
}

static void take_totals(const struct rewriter *rewriter, struct witness *witness) {
  const struct witness *own = &rewriter->emitter.witness;
  witness->ops = own->ops;
  witness->peak_live_bytes = own->peak_live_bytes;
  witness->peak_live_os_page_bytes = own->peak_live_os_page_bytes;
  witness->peak_live_objects = own->peak_live_objects;
  witness->objects_at_peak = own->objects_at_peak;
  witness->peak_position = own->peak_position;
  witness->live_at_end = rewriter->emitter.live.state.live_objects;
  witness->live_bytes_at_end = rewriter->emitter.live.state.live_bytes;
}

static int run(struct rewriter *rewriter, struct witness *witness) {
  const struct rewriting *rewriting = &rewriter->whatif->rewriting;
  const struct history_consumer consumer = {.context = rewriter,
                                            .op = rewrite_op,
                                            .thread_end = rewrite_thread_end,
                                            .left_out = rewrite_left_out,
                                            .touched_at_end = rewrite_touched_at_end};
  if (rewriter->has_early && collect(rewriter) != 0)
    return -1;
  if (history_run(rewriting->reader, rewriting->options, &consumer, witness, rewriter->error) != 0)
    return -1;
  pools_end(&rewriter->pools);
  if (rewriter->error->text[0] || check_matches(rewriter) != 0)
    return -1;
  return check_positions(rewriter);
}

/* An error also if groups overlap, a group matches nothing, the trace lacks what a group needs, or a position is beyond
   the end. */
static int rewrite(struct rewriting *rewriting, const struct history_consumer *consumer, struct witness *witness,
                   struct error *error) {
  struct rewriter rewriter = {
      .whatif = (struct whatif *)rewriting, .error = error, .path = trace_reader_path(rewriting->reader)};
  int result = set_up(&rewriter, consumer);
  if (result == 0)
    result = run(&rewriter, witness);
  if (result == 0) {
    take_totals(&rewriter, witness);
    rewriting->about = about(&rewriter);
  }
  tear_down(&rewriter);
  return result;
}

static const char *wrong(const struct rewriting *rewriting) {
  const struct whatif *whatif = (const struct whatif *)rewriting;
  if (!whatif->groups.count)
    return "compile --position needs --group";
  return NULL;
}

/* The first of the options makes it. NULL: no memory. */
static struct whatif *whatif_of(struct compile_added *added) {
  struct whatif *whatif = (struct whatif *)added->rewriting;
  if (!whatif && (whatif = calloc(1, sizeof *whatif))) {
    whatif->rewriting = (struct rewriting){.run = rewrite, .wrong = wrong};
    added->rewriting = &whatif->rewriting;
  }
  return whatif;
}

static const char *take_group(void *field, const char *value) {
  struct whatif *whatif = whatif_of(field);
  struct group *group = whatif ? vector_add(&whatif->groups) : NULL;
  return group ? group_parse(group, value) : "out of memory";
}

/* Positions rise, so that one comparison per op finds them. */
static const char *take_position(void *field, const char *value) {
  struct whatif *whatif = whatif_of(field);
  uint64_t position, *added;
  if (cli_count(&position, value))
    return "needs a number of ops";
  if (!whatif)
    return "out of memory";
  if (whatif->positions.count && whatif->positions.at[whatif->positions.count - 1] >= position)
    return "needs rising positions";
  if (!(added = vector_add(&whatif->positions)))
    return "out of memory";
  *added = position;
  return NULL;
}

static const struct cli_option rows[] = {
    {"group", 0, "EXPR=ACTION", take_group,
     .help = "treat a group of objects differently, as 'heaptape whatif' describes: ACTION is remove, segregate, "
             "pool=BYTES, early or late. Repeatable, for groups that have no objects in common",
     .repeats = true},
    {"position", 0, "N", take_position,
     .help = "with --group: the workload's info JSON gives the position in it of that position of the trace. "
             "Repeatable, rising",
     .repeats = true},
    {.name = NULL},
};
CLI_ADD(compile, rows);

/* SPDX-License-Identifier: MIT */
#include "convert/inspect/inspect.h"

#include "convert/history/trace_info.h"
#include "convert/inspect/profile_tables.h"
#include "core/base/vector.h"
#include "core/sharing/line_sharing.h"
#include "core/workload/witness.h"

#include <stdlib.h>
#include <string.h>

/* How a live object was acquired. */
struct acquired_object {
  uint64_t allocated_bytes; /* by the whole program, before it */
  uint64_t stamp;
  uint64_t first_bytes; /* request before any realloc */
  uint64_t size_bytes;
  uint32_t thread, stack;
  uint32_t reallocs;
};

struct profile {
  const struct trace_summary *summary;
  VECTOR(struct acquired_object) objects; /* by slot */
  uint64_t allocated_bytes, position, last_stamp;
  uint64_t window_events, window_events_left; /* of each window; left in this one (saves a division per op) */
  unsigned window;
  double ns_per_stamp; /* 1 if the clock has no rate */
  struct profile_tables tables;
  struct line_sharing *sharing; /* NULL: not counted */
  struct line_sharing_counts *sharing_counts;
  struct profile_window windows[PROFILE_WINDOWS];
  struct error *error;
  const char *path;
};

static struct profile_window *window_at(struct profile *profile, const struct history_state *before) {
  if (profile->window_events_left-- == 0) {
    profile->window_events_left = profile->window_events - 1;
    profile->window += profile->position > 0 && profile->window < PROFILE_WINDOWS - 1;
  }
  struct profile_window *window = &profile->windows[profile->window];
  if (window->ops++ == 0) {
    window->position = profile->position;
    window->stamp = profile->last_stamp;
    window->live_bytes = before->live_bytes;
    window->live_objects = before->live_objects;
  }
  return window;
}

static void note_acquire(struct profile *profile, const struct history_op *op) {
  uint32_t stack = op->event ? op->event->stack : 0;
  profile->objects.at[op->slot] = (struct acquired_object){.allocated_bytes = profile->allocated_bytes,
                                                           .stamp = op->stamp,
                                                           .first_bytes = op->request_bytes,
                                                           .size_bytes = op->request_bytes,
                                                           .thread = op->thread,
                                                           .stack = stack};
  profile_site_acquired(&profile->tables, stack, op->request_bytes);
}

static void note_release(struct profile *profile, const struct history_op *op, uint64_t size_bytes) {
  const struct acquired_object *object = &profile->objects.at[op->slot];
  uint64_t age_stamps = op->stamp > object->stamp ? op->stamp - object->stamp : 0;
  double age_ns = (double)age_stamps * profile->ns_per_stamp;
  uint64_t age_bytes = profile->allocated_bytes - object->allocated_bytes;
  profile_lifetime_add(&profile->tables, size_bytes, age_bytes, (uint64_t)age_ns);
  profile_pair_add(&profile->tables, object->thread, op->thread, size_bytes);
  profile_site_released(&profile->tables, object->stack, size_bytes, age_bytes, object->thread != op->thread);
  if (object->reallocs)
    profile_chain_add(&profile->tables, object->reallocs, object->first_bytes, size_bytes);
}

static void note_move(struct profile *profile, const struct history_op *op, uint64_t old_bytes) {
  struct acquired_object *object = &profile->objects.at[op->slot];
  struct profile_reallocs *reallocs = &profile->tables.reallocs;
  bool in_place = op->event && op->event->released == op->event->acquired;
  object->reallocs++;
  object->size_bytes = op->request_bytes;
  reallocs->calls++;
  reallocs->in_place += in_place;
  reallocs->grew += op->request_bytes > old_bytes;
  reallocs->shrank += op->request_bytes < old_bytes;
  if (!in_place)
    reallocs->copied_bytes += op->request_bytes < old_bytes ? op->request_bytes : old_bytes;
  profile_site_resize(&profile->tables, object->stack, old_bytes, op->request_bytes);
}

static void touched_at_end(void *context, uint32_t slot, uint32_t os_pages) {
  struct profile *profile = context;
  profile_touched_add(&profile->tables, profile->objects.at[slot].size_bytes, os_pages);
}

/* A realloc releases the old address before the new one is handed out: other threads may get it meanwhile. */
static int move_begins(void *context, const struct merge_step *step, uint32_t slot) {
  const struct profile *profile = context;
  line_sharing_remove(profile->sharing, slot, step->thread);
  return 0;
}

static int note_sharing(struct profile *profile, const struct history_op *op) {
  int status = 0;
  if (op->kind == HISTORY_RELEASE)
    line_sharing_remove(profile->sharing, op->slot, op->thread);
  if (op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE)
    status = line_sharing_add(profile->sharing, op->slot, op->event->acquired, op->request_bytes, op->thread);
  line_sharing_after_op(profile->sharing);
  return status == 0 ? 0 : error_set(profile->error, profile->path, "out of memory");
}

static int profile_op(void *context, const struct history_op *op, const struct history_state *before,
                      struct slots *slots) {
  struct profile *profile = context;
  if (op->stamp > profile->last_stamp) /* a repaired inversion has an older one */
    profile->last_stamp = op->stamp;
  struct profile_window *window = window_at(profile, before);
  profile->position++;
  if (op->slot != SLOTS_NONE && !vector_reach(&profile->objects, op->slot))
    return error_set(profile->error, profile->path, "out of memory");
  uint64_t old_bytes = op->slot == SLOTS_NONE ? 0 : slots->at[op->slot].size_bytes;
  if ((op->kind == HISTORY_RELEASE || op->kind == HISTORY_MOVE) && op->touched_os_pages)
    profile_touched_add(&profile->tables, old_bytes, op->touched_os_pages - 1);
  if (op->kind == HISTORY_RELEASE) {
    window->releases++;
    note_release(profile, op, old_bytes);
  }
  if (op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE) {
    window->acquires++;
    window->acquired_bytes += op->request_bytes;
    profile_request_add(&profile->tables, op->call & CALL_ID_MASK, op->request_bytes);
    if (op->kind == HISTORY_ACQUIRE)
      note_acquire(profile, op);
    else
      note_move(profile, op, old_bytes);
    profile->allocated_bytes += op->request_bytes;
  }
  return profile->sharing ? note_sharing(profile, op) : 0;
}

static json_t *windows_json(const struct profile *profile) {
  json_t *rows = json_array();
  for (unsigned i = 0; i < PROFILE_WINDOWS; i++) {
    const struct profile_window *window = &profile->windows[i];
    if (window->ops)
      json_array_append_new(rows, json_pack("[I,I,I,I,I,I,I,I]", (json_int_t)window->position,
                                            (json_int_t)trace_stamp_ns(profile->summary, window->stamp),
                                            (json_int_t)window->ops, (json_int_t)window->acquires,
                                            (json_int_t)window->releases, (json_int_t)window->acquired_bytes,
                                            (json_int_t)window->live_bytes, (json_int_t)window->live_objects));
  }
  return rows;
}

static json_t *profile_json(struct profile *profile, const struct witness *witness) {
  struct trace_info info;
  json_t *object = json_object();
  trace_info_read(&info, profile->summary->info_json);
  json_object_set_new(object, "program", info.program ? json_string(info.program) : json_null());
  trace_info_free(&info);
  json_object_set_new(object, "ops", json_integer((json_int_t)profile->position));
  json_object_set_new(object, "threads", json_integer((json_int_t)witness->threads));
  json_object_set_new(object, "allocated_bytes", json_integer((json_int_t)profile->allocated_bytes));
  if (profile->summary->clock_hz > 0)
    json_object_set_new(object, "duration_ns",
                        json_integer((json_int_t)trace_stamp_ns(profile->summary, profile->summary->last_stamp)));
  json_object_set_new(object, "witness", witness_json(witness));
  json_object_set_new(object, "windows", windows_json(profile));
  profile_tables_json(&profile->tables, object);
  if (profile->sharing) {
    line_sharing_end(profile->sharing);
    profile->sharing = NULL;
    json_object_set_new(object, "line_sharing", line_sharing_json(profile->sharing_counts));
  }
  return object;
}

/* A single thread shares nothing, and made-up addresses say nothing. */
static bool lines_can_be_shared(const struct trace_summary *summary) {
  struct trace_info info;
  trace_info_read(&info, summary->info_json);
  bool can = summary->threads > 1 && !json_object_get(info.json, "anonymised");
  json_t *word;
  size_t i;
  json_array_foreach(info.lacks, i, word) {
    can &= !json_is_string(word) || strcmp(json_string_value(word), "addresses") != 0;
  }
  trace_info_free(&info);
  return can;
}

/* If threads share many lines, checking all objects costs more than the whole remaining profile. */
enum { SAMPLED_FROM = 16 << 20, SAMPLED_OS_PAGES = 16 };

static bool begin_sharing(struct profile *profile) {
  profile->sharing_counts = calloc(1, sizeof *profile->sharing_counts);
  if (profile->sharing_counts)
    profile->sharing = line_sharing_begin(profile->sharing_counts, profile->summary->events,
                                          profile->summary->events > SAMPLED_FROM ? SAMPLED_OS_PAGES : 1);
  return profile->sharing != NULL;
}

json_t *profile_of_trace(struct trace_reader *reader, const struct history_options *options, struct error *error) {
  struct profile *profile = calloc(1, sizeof *profile);
  const char *path = trace_reader_path(reader);
  if (!profile) {
    error_set(error, path, "out of memory");
    return NULL;
  }
  profile->summary = trace_reader_summary(reader);
  profile->window_events = profile->summary->events / PROFILE_WINDOWS + 1;
  profile->ns_per_stamp = profile->summary->clock_hz > 0 ? 1e9 / profile->summary->clock_hz : 1;
  profile->error = error;
  profile->path = path;
  bool sharing = lines_can_be_shared(profile->summary);
  json_t *object = NULL;
  struct witness witness;
  struct history_consumer consumer = {.context = profile,
                                      .op = profile_op,
                                      .move_begins = sharing ? move_begins : NULL,
                                      .touched_at_end = touched_at_end};
  if (!profile_tables_init(&profile->tables, profile->summary->stack_nodes) || (sharing && !begin_sharing(profile)))
    error_set(error, path, "out of memory");
  else if (history_run(reader, options, &consumer, &witness, error) == 0)
    object = profile_json(profile, &witness);
  if (profile->sharing)
    line_sharing_end(profile->sharing);
  free(profile->sharing_counts);
  profile_tables_free(&profile->tables);
  free(profile->objects.at);
  free(profile);
  return object;
}

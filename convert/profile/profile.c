/* SPDX-License-Identifier: MIT */
#include "convert/profile/profile.h"
#include "convert/history/trace_info.h"
#include "core/base/json.h"
#include "core/base/vector.h"
#include "core/trace/event.h"
#include "core/workload/statistics.h"
#include "core/workload/witness.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The counts behind a profile, each with the one function that adds to it, and their JSON.

   Invariants: adding never fails; a pair of threads that does not fit is counted as left out. */

enum {
  PROFILE_WINDOWS = 512, /* parts of the recorded progress, each with its rates */
  PROFILE_AGES = 64,     /* buckets of lifetimes, by powers of two */
  PROFILE_CHAINS = 64,   /* longest chain of reallocs that is counted separately */
  PROFILE_PAIRS = 4096,  /* pairs of threads that are counted separately */
  PROFILE_SITES = 1000,  /* stacks that are listed: the first by each of bytes, objects, ages, and what is live at the
                            peak and the end */
};

/* One part of the progress; live_* and stamp are those before its first op. */
struct profile_window {
  uint64_t position, stamp, ops, acquires, releases, acquired_bytes, live_bytes, live_objects;
};

/* Released objects, by size and age. */
struct profile_lifetime {
  uint64_t objects, bytes;
};

/* Objects for which the number of touched OS pages was recorded. */
struct profile_touched {
  uint64_t objects, bytes, os_pages;
};

struct profile_reallocs {
  uint64_t calls, in_place, grew, shrank,
      copied_bytes; /* of live objects; copied_bytes: old bytes that moved objects keep */
};

struct profile_pair {
  uint32_t acquirer, releaser;
  uint64_t objects, bytes; /* objects 0: empty */
};

/* Objects acquired with one stack. A realloc keeps an object at its site. */
struct profile_site {
  uint64_t objects, bytes, live_objects, live_bytes, peak_live_bytes;
  uint64_t lifetime_bytes;           /* sum over released objects */
  uint64_t remote_objects;           /* released by another thread */
  uint64_t peak_bytes, peak_objects; /* live when the whole program's live bytes were at their peak */
  uint64_t peak_number;              /* the peak of peak_bytes; at later peaks the site was as it is now */
};

/* To mark the sites that are among the first by a key, so that a site that is first by two keys is listed once. */
struct ranked {
  uint64_t key;
  uint32_t node;
};

struct profile_tables {
  struct size_histogram *requests;                                           /* by call id */
  struct profile_lifetime (*by_bytes)[PROFILE_AGES], (*by_ns)[PROFILE_AGES]; /* [size bucket][age] */
  struct profile_touched touched[SIZE_BUCKETS];
  struct profile_pair *pairs;
  uint64_t pairs_left_out; /* objects */
  struct profile_reallocs reallocs;
  struct {
    uint64_t objects, first_bytes, last_bytes;
  } chains[PROFILE_CHAINS + 1]; /* released objects by number of reallocs; the last: PROFILE_CHAINS or more */
  struct profile_site *sites;   /* by stack node; 0: not known */
  uint32_t site_count;
  struct ranked *ranked;
  bool *marked;
  uint64_t live_bytes, peak_live_bytes, peak_number;
};

/* The bucket of an age: 0 for 0, else 1 + log2. */
static unsigned profile_age(uint64_t age) {
  unsigned bucket = age ? 64 - (unsigned)__builtin_clzll(age) : 0;
  return bucket < PROFILE_AGES ? bucket : PROFILE_AGES - 1;
}

static void profile_request_add(struct profile_tables *tables, unsigned call, uint64_t request_bytes) {
  size_histogram_add(&tables->requests[call], request_bytes);
}

static void profile_lifetime_add(struct profile_tables *tables, uint64_t size_bytes, uint64_t age_bytes,
                                 uint64_t age_ns) {
  unsigned size = size_bucket(size_bytes);
  struct profile_lifetime *bytes = &tables->by_bytes[size][profile_age(age_bytes)];
  struct profile_lifetime *ns = &tables->by_ns[size][profile_age(age_ns)];
  bytes->objects++;
  bytes->bytes += size_bytes;
  ns->objects++;
  ns->bytes += size_bytes;
}

static void profile_touched_add(struct profile_tables *tables, uint64_t size_bytes, uint64_t os_pages) {
  struct profile_touched *touched = &tables->touched[size_bucket(size_bytes)];
  touched->objects++;
  touched->bytes += size_bytes;
  touched->os_pages += os_pages;
}

static bool profile_tables_init(struct profile_tables *tables, uint32_t stack_nodes) {
  tables->requests = calloc(CALL_LIMIT, sizeof *tables->requests);
  tables->by_bytes = calloc(SIZE_BUCKETS, sizeof *tables->by_bytes);
  tables->by_ns = calloc(SIZE_BUCKETS, sizeof *tables->by_ns);
  tables->pairs = calloc(PROFILE_PAIRS, sizeof *tables->pairs);
  tables->site_count = stack_nodes + 1;
  tables->sites = calloc((size_t)stack_nodes + 1, sizeof *tables->sites);
  tables->ranked = malloc(((size_t)stack_nodes + 1) * sizeof *tables->ranked);
  tables->marked = calloc((size_t)stack_nodes + 1, sizeof *tables->marked);
  return tables->requests && tables->by_bytes && tables->by_ns && tables->pairs && tables->sites && tables->ranked &&
         tables->marked;
}

static void profile_tables_free(struct profile_tables *tables) {
  free(tables->requests);
  free(tables->by_bytes);
  free(tables->by_ns);
  free(tables->pairs);
  free(tables->sites);
  free(tables->ranked);
  free(tables->marked);
}

/* Probes only a few places: with more pairs than places in the table, a full search at each free would cost more than
   the whole remaining profile. */
static void profile_pair_add(struct profile_tables *tables, uint32_t acquirer, uint32_t releaser, uint64_t size_bytes) {
  enum { PROBES = 16 };
  uint64_t home = ((uint64_t)acquirer << 32 | releaser) * 0x9e3779b97f4a7c15u >> 40;
  for (unsigned i = 0; i < PROBES; i++) {
    struct profile_pair *pair = &tables->pairs[(home + i) % PROFILE_PAIRS];
    if (pair->objects && (pair->acquirer != acquirer || pair->releaser != releaser))
      continue;
    pair->acquirer = acquirer;
    pair->releaser = releaser;
    pair->objects++;
    pair->bytes += size_bytes;
    return;
  }
  tables->pairs_left_out++;
}

static void profile_chain_add(struct profile_tables *tables, uint32_t reallocs, uint64_t first_bytes,
                              uint64_t last_bytes) {
  unsigned length = reallocs < PROFILE_CHAINS ? reallocs : PROFILE_CHAINS;
  tables->chains[length].objects++;
  tables->chains[length].first_bytes += first_bytes;
  tables->chains[length].last_bytes += last_bytes;
}

/* Call it before a site changes: first keeps its values at the latest peak. So a new peak costs nothing, regardless of
   the number of sites. */
static struct profile_site *site_to_change(struct profile_tables *tables, uint32_t stack) {
  struct profile_site *site = &tables->sites[stack];
  if (site->peak_number != tables->peak_number) {
    site->peak_bytes = site->live_bytes;
    site->peak_objects = site->live_objects;
    site->peak_number = tables->peak_number;
  }
  return site;
}

static void site_changed(struct profile_tables *tables, struct profile_site *site, uint64_t old_bytes,
                         uint64_t new_bytes) {
  site->live_bytes += new_bytes - old_bytes;
  if (site->live_bytes > site->peak_live_bytes)
    site->peak_live_bytes = site->live_bytes;
  tables->live_bytes += new_bytes - old_bytes;
  if (tables->live_bytes > tables->peak_live_bytes) {
    tables->peak_live_bytes = tables->live_bytes;
    tables->peak_number++;
  }
}

static void profile_site_acquired(struct profile_tables *tables, uint32_t stack, uint64_t size_bytes) {
  struct profile_site *site = site_to_change(tables, stack);
  site->objects++;
  site->bytes += size_bytes;
  site->live_objects++;
  site_changed(tables, site, 0, size_bytes);
}

static void profile_site_released(struct profile_tables *tables, uint32_t stack, uint64_t size_bytes,
                                  uint64_t age_bytes, bool remote) {
  struct profile_site *site = site_to_change(tables, stack);
  site->live_objects--;
  site_changed(tables, site, size_bytes, 0);
  site->lifetime_bytes += age_bytes;
  site->remote_objects += remote;
}

static void profile_site_resize(struct profile_tables *tables, uint32_t stack, uint64_t old_bytes, uint64_t new_bytes) {
  struct profile_site *site = site_to_change(tables, stack);
  site->bytes += new_bytes > old_bytes ? new_bytes - old_bytes : 0;
  site_changed(tables, site, old_bytes, new_bytes);
}

static json_t *sizes_json(const struct profile_tables *tables) {
  json_t *object = json_object();
  for (unsigned call = 0; call < CALL_LIMIT; call++) {
    json_t *rows = size_histogram_json(&tables->requests[call]);
    if (json_array_size(rows))
      json_object_set_new(object, call_table[call].name, rows);
    else
      json_decref(rows);
  }
  return object;
}

static json_t *lifetimes_json(struct profile_lifetime (*table)[PROFILE_AGES]) {
  json_t *rows = json_array();
  for (unsigned size = 0; size < SIZE_BUCKETS; size++)
    for (unsigned age = 0; age < PROFILE_AGES; age++)
      if (table[size][age].objects)
        json_append_counts(rows, 4,
                           (uint64_t[]){size_bucket_lower(size), (age ? 1ull << (age - 1) : 0),
                                        table[size][age].objects, table[size][age].bytes});
  return rows;
}

static int most_objects_first(const void *a, const void *b) {
  return COMPARE(((const struct profile_pair *)b)->objects, ((const struct profile_pair *)a)->objects);
}

static json_t *pairs_json(const struct profile_tables *tables) {
  qsort(tables->pairs, PROFILE_PAIRS, sizeof *tables->pairs, most_objects_first);
  json_t *rows = json_array();
  for (unsigned i = 0; i < PROFILE_PAIRS && tables->pairs[i].objects; i++)
    json_append_counts(rows, 4,
                       (uint64_t[]){tables->pairs[i].acquirer, tables->pairs[i].releaser, tables->pairs[i].objects,
                                    tables->pairs[i].bytes});
  return rows;
}

static json_t *reallocs_json(const struct profile_tables *tables) {
  const struct profile_reallocs *reallocs = &tables->reallocs;
  json_t *chains = json_array();
  for (unsigned i = 1; i <= PROFILE_CHAINS; i++)
    if (tables->chains[i].objects)
      json_append_counts(
          chains, 4,
          (uint64_t[]){i, tables->chains[i].objects, tables->chains[i].first_bytes, tables->chains[i].last_bytes});
  return json_pack("{sI sI sI sI sI so}", "calls", (json_int_t)reallocs->calls, "in_place",
                   (json_int_t)reallocs->in_place, "grew", (json_int_t)reallocs->grew, "shrank",
                   (json_int_t)reallocs->shrank, "copied_bytes", (json_int_t)reallocs->copied_bytes, "chains", chains);
}

static int highest_first(const void *a, const void *b) {
  const struct ranked *x = a, *y = b;
  return COMPARE(y->key, x->key) ?: COMPARE(x->node, y->node);
}

static void mark_highest(struct profile_tables *tables, size_t key_offset) {
  struct ranked *ranked = tables->ranked;
  for (uint32_t i = 0; i < tables->site_count; i++) {
    ranked[i].node = i;
    memcpy(&ranked[i].key, (const char *)&tables->sites[i] + key_offset, sizeof ranked[i].key);
  }
  qsort(ranked, tables->site_count, sizeof *ranked, highest_first);
  for (uint32_t i = 0; i < tables->site_count && i < PROFILE_SITES && ranked[i].key; i++)
    tables->marked[ranked[i].node] = true;
}

static json_t *sites_json(struct profile_tables *tables) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < tables->site_count; i++)
    site_to_change(tables, i);
  mark_highest(tables, offsetof(struct profile_site, bytes));
  mark_highest(tables, offsetof(struct profile_site, objects));
  mark_highest(tables, offsetof(struct profile_site, live_bytes));
  mark_highest(tables, offsetof(struct profile_site, peak_bytes));
  mark_highest(tables, offsetof(struct profile_site, lifetime_bytes));
  for (uint32_t i = 0; i < tables->site_count; i++)
    if (tables->marked[i]) {
      const struct profile_site *site = &tables->sites[i];
      json_append_counts(rows, 10,
                         (uint64_t[]){i, site->objects, site->bytes, site->live_objects, site->live_bytes,
                                      site->peak_live_bytes, site->lifetime_bytes, site->remote_objects,
                                      site->peak_bytes, site->peak_objects});
    }
  return rows;
}

static json_t *touched_json(const struct profile_tables *tables) {
  json_t *rows = json_array();
  for (unsigned size = 0; size < SIZE_BUCKETS; size++) {
    const struct profile_touched *touched = &tables->touched[size];
    if (touched->objects)
      json_append_counts(rows, 4,
                         (uint64_t[]){size_bucket_lower(size), touched->objects, touched->bytes, touched->os_pages});
  }
  return rows;
}

static void profile_tables_json(struct profile_tables *tables, json_t *object) {
  json_object_set_new(object, "sizes", sizes_json(tables));
  json_object_set_new(object, "lifetimes_bytes", lifetimes_json(tables->by_bytes));
  json_object_set_new(object, "lifetimes_ns", lifetimes_json(tables->by_ns));
  json_object_set_new(object, "thread_pairs", pairs_json(tables));
  json_set_count(object, "pairs_left_out", tables->pairs_left_out);
  json_object_set_new(object, "reallocs", reallocs_json(tables));
  json_object_set_new(object, "touched", touched_json(tables));
  if (tables->site_count > 1)
    json_object_set_new(object, "sites", sites_json(tables));
}

/* How a live object was acquired. */
struct acquired_object {
  uint64_t allocated_bytes; /* by the whole program, before it */
  uint64_t stamp;
  uint64_t first_bytes; /* request before any realloc */
  uint64_t size_bytes;
  uint32_t thread, stack;
  uint32_t reallocs;
};

struct begun_part {
  const struct profile_part *part;
  void *context;
};

struct profile {
  const struct trace_summary *summary;
  VECTOR(struct acquired_object) objects; /* by slot */
  uint64_t allocated_bytes, position, last_stamp;
  uint64_t window_events, window_events_left; /* of each window; left in this one (saves a division per op) */
  unsigned window;
  double ns_per_stamp; /* 1 if the clock has no rate */
  struct profile_tables tables;
  VECTOR(struct begun_part) parts;
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

static void touched_at_end(void *context, uint32_t slot, struct touched touched) {
  struct profile *profile = context;
  profile_touched_add(&profile->tables, profile->objects.at[slot].size_bytes, touched.os_pages);
}

static int no_memory(const struct profile *profile) {
  return error_set(profile->error, profile->path, "out of memory");
}

static int move_begins(void *context, const struct merge_step *step, uint32_t slot) {
  const struct profile *profile = context;
  for (size_t i = 0; i < profile->parts.count; i++)
    profile->parts.at[i].part->move_begins(profile->parts.at[i].context, step, slot);
  return 0;
}

static int note_in_parts(const struct profile *profile, const struct history_op *op) {
  for (size_t i = 0; i < profile->parts.count; i++)
    if (profile->parts.at[i].part->op(profile->parts.at[i].context, op) != 0)
      return no_memory(profile);
  return 0;
}

static int profile_op(void *context, const struct history_op *op, struct slots *slots) {
  struct profile *profile = context;
  if (op->stamp > profile->last_stamp) /* a repaired inversion has an older one */
    profile->last_stamp = op->stamp;
  struct profile_window *window = window_at(profile, op->before);
  profile->position++;
  if (op->slot != SLOTS_NONE && !vector_reach(&profile->objects, op->slot))
    return no_memory(profile);
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
  return note_in_parts(profile, op);
}

static json_t *windows_json(const struct profile *profile) {
  json_t *rows = json_array();
  for (unsigned i = 0; i < PROFILE_WINDOWS; i++) {
    const struct profile_window *window = &profile->windows[i];
    if (window->ops)
      json_append_counts(rows, 8,
                         (uint64_t[]){window->position, trace_stamp_ns(profile->summary, window->stamp), window->ops,
                                      window->acquires, window->releases, window->acquired_bytes, window->live_bytes,
                                      window->live_objects});
  }
  return rows;
}

static json_t *profile_json(struct profile *profile, const struct witness *witness) {
  struct trace_info info;
  json_t *object = json_object();
  trace_info_read(&info, profile->summary->info_json);
  json_object_set_new(object, "program", info.program ? json_string(info.program) : json_null());
  json_object_set_new(object, "lacks", info.lacks ? json_copy(info.lacks) : json_array());
  trace_info_free(&info);
  json_set_count(object, "ops", profile->position);
  json_set_count(object, "threads", witness->threads);
  json_set_count(object, "allocated_bytes", profile->allocated_bytes);
  if (profile->summary->clock_hz > 0)
    json_set_count(object, "duration_ns", trace_stamp_ns(profile->summary, profile->summary->last_stamp));
  json_object_set_new(object, "witness", witness_json(witness));
  json_object_set_new(object, "windows", windows_json(profile));
  profile_tables_json(&profile->tables, object);
  return object;
}

static bool begin_parts(struct profile *profile) {
  REGISTRY_FOR_EACH(profile_parts, profile_part, entry) {
    if (!(*entry)->says(profile->summary))
      continue;
    void *context = (*entry)->begin(profile->summary);
    struct begun_part *begun = context ? vector_add(&profile->parts) : NULL;
    if (context && !begun)
      (*entry)->end(context, NULL);
    if (!begun)
      return false;
    *begun = (struct begun_part){*entry, context};
  }
  return true;
}

static void end_parts(const struct profile *profile, json_t *object) {
  for (size_t i = 0; i < profile->parts.count; i++)
    profile->parts.at[i].part->end(profile->parts.at[i].context, object);
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
  json_t *object = NULL;
  struct witness witness;
  const struct history_consumer consumer = {
      .context = profile, .op = profile_op, .move_begins = move_begins, .touched_at_end = touched_at_end};
  if (!profile_tables_init(&profile->tables, profile->summary->stack_nodes) || !begin_parts(profile))
    no_memory(profile);
  else if (history_run(reader, options, &consumer, &witness, error) == 0)
    object = profile_json(profile, &witness);
  end_parts(profile, object);
  free(profile->parts.at);
  profile_tables_free(&profile->tables);
  free(profile->objects.at);
  free(profile);
  return object;
}

/* SPDX-License-Identifier: MIT */
#include "convert/inspect/profile_tables.h"

#include "core/base/vector.h"

#include <stdlib.h>
#include <string.h>

bool profile_tables_init(struct profile_tables *tables, uint32_t stack_nodes) {
  tables->requests = calloc(CALL_LIMIT, sizeof *tables->requests);
  tables->by_bytes = calloc(SIZE_BUCKETS, sizeof *tables->by_bytes);
  tables->by_ns = calloc(SIZE_BUCKETS, sizeof *tables->by_ns);
  tables->pairs = calloc(PROFILE_PAIRS, sizeof *tables->pairs);
  tables->site_count = stack_nodes + 1;
  tables->sites = calloc((size_t)stack_nodes + 1, sizeof *tables->sites);
  return tables->requests && tables->by_bytes && tables->by_ns && tables->pairs && tables->sites;
}

void profile_tables_free(struct profile_tables *tables) {
  free(tables->requests);
  free(tables->by_bytes);
  free(tables->by_ns);
  free(tables->pairs);
  free(tables->sites);
}

/* Probes only a few places: with more pairs than places in the table, a full search at each free would cost more than
   the whole remaining profile. */
void profile_pair_add(struct profile_tables *tables, uint32_t acquirer, uint32_t releaser, uint64_t size_bytes) {
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

void profile_chain_add(struct profile_tables *tables, uint32_t reallocs, uint64_t first_bytes, uint64_t last_bytes) {
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

void profile_site_acquired(struct profile_tables *tables, uint32_t stack, uint64_t size_bytes) {
  struct profile_site *site = site_to_change(tables, stack);
  site->objects++;
  site->bytes += size_bytes;
  site->live_objects++;
  site_changed(tables, site, 0, size_bytes);
}

void profile_site_released(struct profile_tables *tables, uint32_t stack, uint64_t size_bytes, uint64_t age_bytes,
                           bool remote) {
  struct profile_site *site = site_to_change(tables, stack);
  site->live_objects--;
  site_changed(tables, site, size_bytes, 0);
  site->lifetime_bytes += age_bytes;
  site->remote_objects += remote;
}

void profile_site_resize(struct profile_tables *tables, uint32_t stack, uint64_t old_bytes, uint64_t new_bytes) {
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
        json_array_append_new(
            rows, json_pack("[I,I,I,I]", (json_int_t)size_bucket_lower(size), (json_int_t)(age ? 1ull << (age - 1) : 0),
                            (json_int_t)table[size][age].objects, (json_int_t)table[size][age].bytes));
  return rows;
}

static int most_objects_first(const void *a, const void *b) {
  return COMPARE(((const struct profile_pair *)b)->objects, ((const struct profile_pair *)a)->objects);
}

static json_t *pairs_json(const struct profile_tables *tables) {
  qsort(tables->pairs, PROFILE_PAIRS, sizeof *tables->pairs, most_objects_first);
  json_t *rows = json_array();
  for (unsigned i = 0; i < PROFILE_PAIRS && tables->pairs[i].objects; i++)
    json_array_append_new(rows, json_pack("[I,I,I,I]", (json_int_t)tables->pairs[i].acquirer,
                                          (json_int_t)tables->pairs[i].releaser, (json_int_t)tables->pairs[i].objects,
                                          (json_int_t)tables->pairs[i].bytes));
  return rows;
}

static json_t *reallocs_json(const struct profile_tables *tables) {
  const struct profile_reallocs *reallocs = &tables->reallocs;
  json_t *chains = json_array();
  for (unsigned i = 1; i <= PROFILE_CHAINS; i++)
    if (tables->chains[i].objects)
      json_array_append_new(chains, json_pack("[i,I,I,I]", (int)i, (json_int_t)tables->chains[i].objects,
                                              (json_int_t)tables->chains[i].first_bytes,
                                              (json_int_t)tables->chains[i].last_bytes));
  return json_pack("{sI sI sI sI sI so}", "calls", (json_int_t)reallocs->calls, "in_place",
                   (json_int_t)reallocs->in_place, "grew", (json_int_t)reallocs->grew, "shrank",
                   (json_int_t)reallocs->shrank, "copied_bytes", (json_int_t)reallocs->copied_bytes, "chains", chains);
}

/* Marks the sites that are among the first by a key, so that a site that is first by two keys is listed once. */
struct ranked {
  uint64_t key;
  uint32_t node;
};

static int highest_first(const void *a, const void *b) {
  const struct ranked *x = a, *y = b;
  return COMPARE(y->key, x->key) ?: COMPARE(x->node, y->node);
}

static void mark_highest(const struct profile_tables *tables, size_t key_offset, struct ranked *ranked, bool *marked) {
  for (uint32_t i = 0; i < tables->site_count; i++) {
    ranked[i].node = i;
    memcpy(&ranked[i].key, (const char *)&tables->sites[i] + key_offset, sizeof ranked[i].key);
  }
  qsort(ranked, tables->site_count, sizeof *ranked, highest_first);
  for (uint32_t i = 0; i < tables->site_count && i < PROFILE_SITES && ranked[i].key; i++)
    marked[ranked[i].node] = true;
}

static json_t *sites_json(struct profile_tables *tables) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < tables->site_count; i++)
    site_to_change(tables, i);
  struct ranked *ranked = malloc(tables->site_count * sizeof *ranked);
  bool *marked = calloc(tables->site_count, sizeof *marked);
  if (ranked && marked) {
    mark_highest(tables, offsetof(struct profile_site, bytes), ranked, marked);
    mark_highest(tables, offsetof(struct profile_site, objects), ranked, marked);
    mark_highest(tables, offsetof(struct profile_site, live_bytes), ranked, marked);
    mark_highest(tables, offsetof(struct profile_site, peak_bytes), ranked, marked);
    mark_highest(tables, offsetof(struct profile_site, lifetime_bytes), ranked, marked);
    for (uint32_t i = 0; i < tables->site_count; i++)
      if (marked[i]) {
        const struct profile_site *site = &tables->sites[i];
        json_array_append_new(rows, json_pack("[I,I,I,I,I,I,I,I,I,I]", (json_int_t)i, (json_int_t)site->objects,
                                              (json_int_t)site->bytes, (json_int_t)site->live_objects,
                                              (json_int_t)site->live_bytes, (json_int_t)site->peak_live_bytes,
                                              (json_int_t)site->lifetime_bytes, (json_int_t)site->remote_objects,
                                              (json_int_t)site->peak_bytes, (json_int_t)site->peak_objects));
      }
  }
  free(ranked);
  free(marked);
  return rows;
}

static json_t *touched_json(const struct profile_tables *tables) {
  json_t *rows = json_array();
  for (unsigned size = 0; size < SIZE_BUCKETS; size++) {
    const struct profile_touched *touched = &tables->touched[size];
    if (touched->objects)
      json_array_append_new(rows,
                            json_pack("[I,I,I,I]", (json_int_t)size_bucket_lower(size), (json_int_t)touched->objects,
                                      (json_int_t)touched->bytes, (json_int_t)touched->os_pages));
  }
  return rows;
}

void profile_tables_json(struct profile_tables *tables, json_t *object) {
  json_object_set_new(object, "sizes", sizes_json(tables));
  json_object_set_new(object, "lifetimes_bytes", lifetimes_json(tables->by_bytes));
  json_object_set_new(object, "lifetimes_ns", lifetimes_json(tables->by_ns));
  json_object_set_new(object, "thread_pairs", pairs_json(tables));
  json_object_set_new(object, "pairs_left_out", json_integer((json_int_t)tables->pairs_left_out));
  json_object_set_new(object, "reallocs", reallocs_json(tables));
  json_object_set_new(object, "touched", touched_json(tables));
  if (tables->site_count > 1)
    json_object_set_new(object, "sites", sites_json(tables));
}

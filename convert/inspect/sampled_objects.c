/* SPDX-License-Identifier: MIT */
#include "convert/inspect/sampled_objects.h"

#include "convert/history/trace_info.h"
#include "core/base/vector.h"
#include "core/trace/summary.h"
#include "core/workload/statistics.h"

#include <search.h>
#include <stdlib.h>

#define OUTSIDE UINT32_MAX

/* A sample; once placed, also its object. */
struct placed {
  struct trace_access_sample sample;
  uint32_t stack;  /* of its object; OUTSIDE: in none */
  uint32_t bucket; /* of its object's size */
};

/* A live object, or an address to look up, in a tree by tsearch. Live objects don't overlap, so overlapping ranges
   compare as equal: this finds the object that contains an address. */
struct range {
  uint64_t begin, end;
  uint32_t stack;
};

struct sampled_objects {
  VECTOR(struct placed) samples; /* by stamp */
  size_t next;                   /* the next to be placed */
  uint64_t *addresses;           /* of the samples, in order */
  void *live;                    /* tree of struct range: only those that contain some sample's address */
  json_t *events;                /* of INFO's `access_samples` */
};

static int by_stamp(const void *left, const void *right) {
  const struct placed *a = left, *b = right;
  return COMPARE(a->sample.stamp, b->sample.stamp);
}

static int by_number(const void *left, const void *right) {
  return COMPARE(*(const uint64_t *)left, *(const uint64_t *)right);
}

static int by_place(const void *left, const void *right) {
  const struct range *a = left, *b = right;
  return a->end <= b->begin ? -1 : a->begin >= b->end;
}

static int take_sample(void *context, const struct trace_access_sample *sample) {
  struct sampled_objects *objects = context;
  struct placed *placed = vector_add(&objects->samples);
  if (!placed)
    return 1;
  *placed = (struct placed){*sample, OUTSIDE, 0};
  return 0;
}

static bool sort(struct sampled_objects *objects) {
  size_t count = objects->samples.count;
  objects->addresses = malloc((count + 1) * sizeof *objects->addresses);
  if (!objects->addresses)
    return false;
  for (size_t i = 0; i < count; i++)
    objects->addresses[i] = objects->samples.at[i].sample.address;
  if (count) {
    qsort(objects->addresses, count, sizeof *objects->addresses, by_number);
    qsort(objects->samples.at, count, sizeof *objects->samples.at, by_stamp);
  }
  return true;
}

/* The sampled events and their periods; entries of INFO that lack them are left out. */
static json_t *sampled_events(const struct trace_reader *reader) {
  struct trace_info info;
  json_t *events = json_array(), *event;
  const char *name;
  json_int_t period;
  size_t i;
  trace_info_read(&info, trace_reader_summary(reader)->info_json);
  json_array_foreach(json_object_get(json_object_get(info.json, "access_samples"), "events"), i, event) {
    if (json_unpack(event, "{s:s,s:I}", "event", &name, "period", &period) == 0)
      json_array_append_new(events, json_pack("{s:s,s:I}", "event", name, "period", period));
  }
  trace_info_free(&info);
  return events;
}

int sampled_objects_open(struct sampled_objects **out, const struct trace_reader *reader, struct error *error) {
  *out = NULL;
  if (!trace_reader_summary(reader)->access_samples.recorded)
    return 0;
  struct sampled_objects *objects = calloc(1, sizeof *objects);
  int result = objects ? trace_reader_access_samples(reader, take_sample, objects, error) : 1;
  if (result > 0 || (result == 0 && !sort(objects)))
    result = error_set(error, trace_reader_path(reader), "out of memory");
  if (result != 0) {
    sampled_objects_close(objects);
    return -1;
  }
  objects->events = sampled_events(reader);
  *out = objects;
  return 0;
}

/* Is any sample's address in this range? */
static bool is_sampled(const struct sampled_objects *objects, uint64_t begin, uint64_t end) {
  size_t low = 0, high = objects->samples.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (objects->addresses[middle] < begin)
      low = middle + 1;
    else
      high = middle;
  }
  return low < objects->samples.count && objects->addresses[low] < end;
}

/* Places the samples before the stamp among the objects that live now. */
static void place_until(struct sampled_objects *objects, uint64_t stamp) {
  for (; objects->next < objects->samples.count && objects->samples.at[objects->next].sample.stamp < stamp;
       objects->next++) {
    struct placed *placed = &objects->samples.at[objects->next];
    const struct range wanted = {placed->sample.address, placed->sample.address + 1, 0};
    struct range *const *found = tfind(&wanted, &objects->live, by_place);
    if (!found)
      continue;
    placed->stack = (*found)->stack;
    placed->bucket = size_bucket((*found)->end - (*found)->begin);
  }
}

/* Ends the live object that overlaps wanted, if there is one. */
static bool end_object(struct sampled_objects *objects, const struct range *wanted) {
  struct range *const *found = tfind(wanted, &objects->live, by_place);
  struct range *range = found ? *found : NULL;
  if (!range)
    return false;
  tdelete(range, &objects->live, by_place);
  free(range);
  return true;
}

int sampled_objects_acquire(struct sampled_objects *objects, uint64_t stamp, uint64_t address, uint64_t size_bytes,
                            uint32_t stack) {
  if (!objects)
    return 0;
  place_until(objects, stamp);
  if (size_bytes > UINT64_MAX - address || !is_sampled(objects, address, address + size_bytes))
    return 0;
  struct range *range = malloc(sizeof *range);
  if (!range)
    return -1;
  *range = (struct range){address, address + size_bytes, stack};
  while (end_object(objects, range)) /* its release was not recorded */
    ;
  if (tsearch(range, &objects->live, by_place))
    return 0;
  free(range);
  return -1;
}

void sampled_objects_release(struct sampled_objects *objects, uint64_t stamp, uint64_t address) {
  if (!objects)
    return;
  place_until(objects, stamp);
  end_object(objects, &(const struct range){address, address + 1, 0});
}

/* A row of a table: the samples of one call site, or of one size bucket, with the same `what`. */
struct row {
  uint64_t group, samples, latency_cycles;
  uint8_t what;
};

static int by_site(const void *left, const void *right) {
  const struct placed *a = left, *b = right;
  return COMPARE(a->stack, b->stack) ?: COMPARE(a->sample.what, b->sample.what);
}

static int by_size(const void *left, const void *right) {
  const struct placed *a = left, *b = right;
  return COMPARE(a->bucket, b->bucket) ?: COMPARE(a->sample.what, b->sample.what);
}

static void append_row(json_t *rows, const struct row *row) {
  if (row->samples)
    json_array_append_new(rows, json_pack("[I,s,s,b,I,I]", (json_int_t)row->group,
                                          row->what & ACCESS_SAMPLE_LOAD    ? "load"
                                          : row->what & ACCESS_SAMPLE_STORE ? "store"
                                                                            : "unknown",
                                          access_level_names[row->what & ACCESS_SAMPLE_LEVEL_MASK],
                                          (row->what & ACCESS_SAMPLE_TLB_MISS) != 0, (json_int_t)row->samples,
                                          (json_int_t)row->latency_cycles));
}

/* Samples that are in objects, summed where they compare as equal. sizes: grouped by size, else by site. */
static json_t *table_json(struct sampled_objects *objects, bool sizes) {
  int (*order)(const void *, const void *) = sizes ? by_size : by_site;
  json_t *rows = json_array();
  struct row row = {0};
  const struct placed *before = NULL;
  qsort(objects->samples.at, objects->samples.count, sizeof *objects->samples.at, order);
  for (size_t i = 0; i < objects->samples.count; i++) {
    const struct placed *placed = &objects->samples.at[i];
    if (placed->stack == OUTSIDE)
      continue;
    if (!before || order(before, placed) != 0) {
      append_row(rows, &row);
      row =
          (struct row){.group = sizes ? size_bucket_lower(placed->bucket) : placed->stack, .what = placed->sample.what};
    }
    before = placed;
    row.samples++;
    row.latency_cycles += placed->sample.latency_cycles;
  }
  append_row(rows, &row);
  return rows;
}

json_t *sampled_objects_json(struct sampled_objects *objects) {
  place_until(objects, UINT64_MAX);
  uint64_t inside = 0;
  for (size_t i = 0; i < objects->samples.count; i++)
    inside += objects->samples.at[i].stack != OUTSIDE;
  return json_pack("{sO sI sI so so}", "events", objects->events, "in_objects", (json_int_t)inside, "elsewhere",
                   (json_int_t)(objects->samples.count - inside), "by_site", table_json(objects, false), "by_size",
                   table_json(objects, true));
}

void sampled_objects_close(struct sampled_objects *objects) {
  if (!objects)
    return;
  tdestroy(objects->live, free);
  json_decref(objects->events);
  free(objects->samples.at);
  free(objects->addresses);
  free(objects);
}

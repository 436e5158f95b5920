/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/estimates.h"

#include "core/base/os.h"
#include "core/base/split_mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- objects that live --- */

enum {
  ROOM_FIRST = 512,
  PASSES_KEPT = 4,     /* two would do if no pass found a ring too full to be read at once */
  UPDATES_FEW = 128,   /* in about 10 ms: below this the sample may grow */
  UPDATES_MANY = 2048, /* above this it becomes smaller */
  UPDATES_BURST = 1 << 15,
  EXACT_FEW = LIVE_EXACT_OBJECTS_MAX / 4,
};

static const uint64_t EXACT_BYTES_LEAST = 8 << 10, EXACT_BYTES_MOST = (uint64_t)1 << 60;

int live_sample_open(struct live_sample *sample) {
  *sample = (struct live_sample){.sampled = 0, .exact_bytes = UINT64_MAX};
  sample->objects = calloc(ROOM_FIRST, sizeof *sample->objects);
  if (!sample->objects)
    return -1;
  sample->room = ROOM_FIRST;
  sample->sampled = LIVE_BUCKETS;
  sample->exact_bytes = EXACT_BYTES_LEAST;
  memset(sample->flags, LIVE_SAMPLED, sizeof sample->flags);
  return 0;
}

void live_sample_close(struct live_sample *sample) {
  free(sample->objects);
  *sample = (struct live_sample){.exact_bytes = UINT64_MAX};
}

static uint32_t place_of(const struct live_sample *sample, uint64_t address) {
  return (uint32_t)((address >> 4) * 0x9e3779b97f4a7c15u >> 32) & (sample->room - 1);
}

/* The address's place, or the free one where it would be. */
static struct live_object *find(const struct live_sample *sample, uint64_t address) {
  uint32_t place = place_of(sample, address);
  while (sample->objects[place].address && sample->objects[place].address != address)
    place = (place + 1) & (sample->room - 1);
  return &sample->objects[place];
}

/* Where a bucket has very many exact objects, only their number is lost: they are released when their address is used
   again. */
static void count_exact(struct live_sample *sample, const struct live_object *object, int by) {
  uint8_t *flags = &sample->flags[live_bucket(object->address)];
  uint8_t count = *flags & (LIVE_SAMPLED - 1);
  if (count + by >= 0 && count + by < LIVE_SAMPLED)
    *flags = (uint8_t)((*flags & LIVE_SAMPLED) | (count + by));
  sample->exact += (uint32_t)by;
}

static double bytes_for(const struct live_object *object) {
  return (double)object->bytes * LIVE_BUCKETS / object->chance;
}

static void end_object(struct live_sample *sample, struct live_object *object) {
  if (object->live)
    sample->bytes -= bytes_for(object);
  if (object->live && object->exact)
    count_exact(sample, object, -1);
  object->live = object->exact = false;
}

/* Frees the place if nothing is known of the address any more; later objects may move. */
static void free_if_empty(struct live_sample *sample, struct live_object *object) {
  if (object->live || object->ahead || object->behind)
    return;
  uint32_t hole = (uint32_t)(object - sample->objects), mask = sample->room - 1;
  for (uint32_t at = (hole + 1) & mask; sample->objects[at].address; at = (at + 1) & mask) {
    uint32_t home = place_of(sample, sample->objects[at].address);
    if (((at - home) & mask) < ((at - hole) & mask))
      continue;
    sample->objects[hole] = sample->objects[at];
    hole = at;
  }
  sample->objects[hole] = (struct live_object){0};
  sample->used--;
}

static void forget_old(const struct live_sample *sample, struct live_object *object) {
  if (sample->pass - object->pass > PASSES_KEPT)
    object->ahead = object->behind = 0;
}

static int enlarge(struct live_sample *sample) {
  struct live_sample larger = *sample;
  larger.room = 2 * sample->room;
  larger.objects = calloc(larger.room, sizeof *larger.objects);
  if (!larger.objects)
    return -1;
  for (uint32_t i = 0; i < sample->room; i++)
    if (sample->objects[i].address)
      *find(&larger, sample->objects[i].address) = sample->objects[i];
  free(sample->objects);
  sample->objects = larger.objects;
  sample->room = larger.room;
  return 0;
}

/* Is the live object in the present sample? Adjusts its chance accordingly. */
static bool keeps(struct live_sample *sample, struct live_object *object) {
  if (object->exact && object->bytes >= sample->exact_bytes)
    return true;
  sample->bytes -= bytes_for(object);
  if (object->exact) {
    count_exact(sample, object, -1);
    object->exact = false;
    object->chance = LIVE_BUCKETS;
  }
  if (object->chance > sample->sampled)
    object->chance = sample->sampled;
  sample->bytes += bytes_for(object);
  return live_bucket(object->address) < sample->sampled;
}

/* Removes objects that are no longer in the sample. */
static void thin(struct live_sample *sample) {
  for (uint32_t i = 0; i < LIVE_BUCKETS; i++)
    sample->flags[i] = (uint8_t)((sample->flags[i] & (LIVE_SAMPLED - 1)) | (i < sample->sampled ? LIVE_SAMPLED : 0));
  struct live_object *before = sample->objects;
  uint32_t room = sample->room;
  struct live_object *after = calloc(room, sizeof *after);
  if (!after)
    return; /* the estimate stays correct; the sample is thinned the next time */
  sample->objects = after;
  sample->used = 0;
  for (uint32_t i = 0; i < room; i++) {
    struct live_object *object = &before[i];
    if (!object->address)
      continue;
    forget_old(sample, object);
    if (object->live && !keeps(sample, object))
      end_object(sample, object);
    if (!object->live && !object->ahead && !object->behind)
      continue;
    *find(sample, object->address) = *object;
    sample->used++;
  }
  free(before);
}

static void make_smaller(struct live_sample *sample) {
  sample->thinned = true;
  if (sample->sampled > 1)
    sample->sampled /= 2;
  thin(sample);
}

static bool is_full(const struct live_sample *sample) {
  return sample->used >= LIVE_OBJECTS_MAX || 2 * sample->used >= sample->room;
}

/* Makes room for one more object; false: there is none. */
static bool make_room(struct live_sample *sample) {
  if (sample->used < LIVE_OBJECTS_MAX && enlarge(sample) == 0)
    return true;
  thin(sample); /* removes old releases, too */
  if (sample->used > LIVE_OBJECTS_MAX / 4 * 3)
    make_smaller(sample);
  return !is_full(sample);
}

static void add(struct live_sample *sample, struct live_object *object, const struct live_acquire *acquired) {
  object->bytes = acquired->bytes;
  object->node = acquired->node;
  object->live = true;
  object->exact = live_sample_is_exact(sample, acquired->bytes);
  object->chance = object->exact ? LIVE_BUCKETS : sample->sampled;
  sample->bytes += bytes_for(object);
  if (sample->bytes > sample->peak_bytes)
    sample->peak_bytes = sample->bytes;
  if (!object->exact)
    return;
  count_exact(sample, object, 1);
  while (sample->exact > LIVE_EXACT_OBJECTS_MAX && sample->exact_bytes < EXACT_BYTES_MOST) {
    sample->exact_bytes *= 2;
    thin(sample);
  }
}

/* The address's place, taken now if it was free; NULL: no room. */
static struct live_object *take_place(struct live_sample *sample, uint64_t address) {
  if (is_full(sample) && !make_room(sample))
    return NULL;
  struct live_object *object = find(sample, address);
  sample->used += object->address == 0;
  object->address = address;
  return object;
}

static bool is_sampled(const struct live_sample *sample, uint64_t address) {
  return live_bucket(address) < sample->sampled;
}

static void note_update(struct live_sample *sample) {
  if (++sample->updates % UPDATES_BURST == 0)
    make_smaller(sample);
}

void live_sample_acquire(struct live_sample *sample, const struct live_acquire *acquired) {
  if (!acquired->address || !sample->room)
    return;
  bool chosen = is_sampled(sample, acquired->address) || live_sample_is_exact(sample, acquired->bytes);
  if (!chosen && !live_sample_has(sample, acquired->address))
    return;
  note_update(sample);
  struct live_object *object = find(sample, acquired->address);
  if (object->address) {
    forget_old(sample, object);
    if (object->ahead && object->thread != acquired->thread) {
      object->ahead--;
      free_if_empty(sample, object);
      return;
    }
    object->ahead = 0; /* a thread's own calls arrive in order: that release was of an object that we have not seen */
    if (object->live) {
      object->behind++;
      object->pass = sample->pass;
      end_object(sample, object);
    }
  }
  if (chosen && (object = take_place(sample, acquired->address)))
    add(sample, object, acquired);
  else if (!chosen && object->address)
    free_if_empty(sample, object);
}

void live_sample_release(struct live_sample *sample, uint64_t address, uint32_t thread, bool is_large) {
  if (!address || !sample->room || (!is_large && !live_sample_has(sample, address)))
    return;
  note_update(sample);
  struct live_object *object = find(sample, address);
  if (object->address) {
    forget_old(sample, object);
    if (object->behind) {
      object->behind--;
      free_if_empty(sample, object);
      return;
    }
    if (object->live) {
      end_object(sample, object);
      free_if_empty(sample, object);
      return;
    }
  }
  if (!is_sampled(sample, address) && !is_large)
    return;
  object = take_place(sample, address);
  if (!object)
    return;
  object->ahead++;
  object->thread = thread;
  object->pass = sample->pass;
}

void live_sample_pass(struct live_sample *sample) {
  sample->pass++;
}

void live_sample_adapt(struct live_sample *sample) {
  uint32_t updates = sample->updates;
  sample->updates = 0;
  if (!sample->room)
    return;
  if (updates > UPDATES_MANY) {
    make_smaller(sample);
  } else if (updates < UPDATES_FEW && sample->used < LIVE_OBJECTS_MAX / 4 && sample->sampled < LIVE_BUCKETS) {
    sample->sampled *= 2;
    thin(sample);
  }
  if (sample->exact < EXACT_FEW && sample->exact_bytes > EXACT_BYTES_LEAST)
    sample->exact_bytes /= 2;
}

struct live_estimate live_object_estimate(const struct live_object *object) {
  double chance = (double)object->chance / LIVE_BUCKETS, bytes = (double)object->bytes;
  double one = (1 - chance) / (chance * chance);
  return (struct live_estimate){bytes / chance, 1 / chance, bytes * bytes * one, one};
}

struct live_estimate live_sample_estimate(const struct live_sample *sample) {
  struct live_estimate sum = {0};
  for (uint32_t i = 0; i < sample->room; i++) {
    if (!sample->objects[i].live)
      continue;
    struct live_estimate one = live_object_estimate(&sample->objects[i]);
    sum.bytes += one.bytes;
    sum.objects += one.objects;
    sum.bytes_variance += one.bytes_variance;
    sum.objects_variance += one.objects_variance;
  }
  return sum;
}

/* --- stacks that acquire --- */

enum { DRAWN_FEW = 32, DRAWN_MANY = 256 };

static const double RECENT_NS = 5e9, MEAN_LEAST = 1, MEAN_MOST = 1e12;

/* From 0 (not included) to 1. */
static double random_share(struct site_sample *sample) {
  return ((double)(split_mix_next(&sample->random) >> 11) + 1) / 9007199254740993.0;
}

static void schedule(struct site_sample *sample) {
  sample->left = (int64_t)(-log(random_share(sample)) * sample->mean);
}

void site_sample_open(struct site_sample *sample, uint64_t seed) {
  *sample = (struct site_sample){.mean = MEAN_LEAST, .random = seed};
}

void site_sample_close(struct site_sample *sample) {
  free(sample->sites.at);
  free(sample->place_of.at);
  *sample = (struct site_sample){.left = INT64_MAX};
}

static struct site *site_of(struct site_sample *sample, uint32_t node) {
  uint32_t *place = vector_reach(&sample->place_of, node);
  if (place && *place)
    return &sample->sites.at[*place - 1];
  struct site *site = place && sample->sites.count < SITES_MAX ? vector_add(&sample->sites) : NULL;
  if (!site)
    return &sample->others;
  *site = (struct site){.node = node};
  *place = (uint32_t)sample->sites.count;
  return site;
}

double site_recent(const struct site *site, uint64_t now_ns) {
  return now_ns > site->recent_ns ? site->recent * exp(-(double)(now_ns - site->recent_ns) / RECENT_NS) : site->recent;
}

void site_sample_draw(struct site_sample *sample, uint32_t node, uint64_t request_bytes) {
  double bytes = (double)request_bytes;
  double chance = -expm1(-(bytes + SITE_CALL_BYTES) / sample->mean), one = (1 - chance) / (chance * chance);
  struct site *site = site_of(sample, node);
  uint64_t now_ns = os_monotonic_ns();
  site->calls += 1 / chance;
  site->bytes += bytes / chance;
  site->calls_variance += one;
  site->bytes_variance += bytes * bytes * one;
  site->recent = site_recent(site, now_ns) + (bytes + SITE_CALL_BYTES) / chance;
  site->recent_ns = now_ns;
  sample->drawn++;
  schedule(sample);
}

void site_sample_adapt(struct site_sample *sample) {
  if (sample->drawn > DRAWN_MANY && sample->mean < MEAN_MOST)
    sample->mean *= 2;
  else if (sample->drawn < DRAWN_FEW && sample->mean > MEAN_LEAST)
    sample->mean /= 2;
  if (sample->drawn < DRAWN_FEW || sample->drawn > DRAWN_MANY)
    schedule(sample); /* drawing is memoryless, so a fresh start has no bias */
  sample->drawn = 0;
}

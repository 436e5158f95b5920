/* SPDX-License-Identifier: MIT */
#include "convert/formats/late_releases.h"

#include <inttypes.h>
#include <stdlib.h>

struct late_releases *late_releases_new(struct import *import) {
  struct late_releases *late = calloc(1, sizeof *late);
  if (!late || !address_map_init(&late->live)) {
    free(late);
    import_no_memory(import);
    return NULL;
  }
  late->import = import;
  late->first = late->next = 1;
  return late;
}

void late_releases_free(struct late_releases *late) {
  if (late)
    address_map_free(&late->live);
  free(late);
}

static struct late_place *place_of(struct late_releases *late, uint64_t number) {
  return &late->places[number % LATE_RELEASE_WINDOW];
}

static int hand_on(struct late_releases *late) {
  struct late_place *place = place_of(late, late->first++);
  if (place->awaited)
    return 0;
  return import_only_thread(late->import, place->now, &place->event);
}

static int push(struct late_releases *late, uint64_t now, const struct trace_event *event, uint64_t awaited) {
  if (late->next - late->first == LATE_RELEASE_WINDOW && hand_on(late) != 0)
    return -1;
  struct late_place *place = place_of(late, late->next++);
  place->now = now;
  place->awaited = awaited;
  place->earlier = 0;
  if (event)
    place->event = *event;
  return 0;
}

/* The empty place in the window that awaits a release of the entry's address; NULL if there is none. */
static struct late_place *awaiting(struct late_releases *late, const struct address_entry *entry) {
  if (!entry->address || !entry->slot)
    return NULL;
  uint64_t number = (late->next & ~(uint64_t)UINT32_MAX) | entry->slot;
  number -= number >= late->next ? (uint64_t)1 << 32 : 0;
  if (number < late->first || number >= late->next)
    return NULL;
  struct late_place *place = place_of(late, number);
  return place->awaited == entry->address ? place : NULL;
}

static int acquire(struct late_releases *late, uint64_t now, uint64_t address) {
  struct address_entry *entry = address_map_find(&late->live, address);
  if (!entry->address)
    return address_map_add(&late->live, entry, address, 0, false) ? 0 : import_no_memory(late->import);
  uint64_t number = late->next;
  if (push(late, now, NULL, address) != 0)
    return -1;
  place_of(late, number)->earlier = entry->slot;
  entry->slot = (uint32_t)number; /* 0 once in 2^32 events: then one release stays late */
  return 0;
}

/* Returns true if the release of the address moved to the place that awaits it. */
static bool move(struct late_releases *late, uint64_t address) {
  struct address_entry *entry = address_map_find(&late->live, address);
  struct late_place *place = awaiting(late, entry);
  if (!place)
    return false;
  place->awaited = 0;
  place->event = event_of_release(CALL_free, address);
  entry->slot = place->earlier;
  late->moved++;
  return true;
}

static void release(struct late_releases *late, uint64_t address) {
  struct address_entry *entry = address_map_find(&late->live, address);
  if (entry->address)
    address_map_remove(&late->live, entry);
}

int late_releases_event(struct late_releases *late, uint64_t now, const struct trace_event *event, bool may_be_late) {
  struct trace_event taken = *event;
  /* Checked here, as the line is still known. */
  if (taken.size_bytes >> 32 && import_refuse_size(late->import, &taken) != 0)
    return -1;
  if (trace_event_releases(&taken)) {
    if (may_be_late && move(late, taken.released)) {
      if (!trace_event_acquires(&taken))
        return 0;
      taken.released = 0; /* the realloc becomes the moved free, and this acquire */
      taken.call |= CALL_NULL_IN;
    } else {
      release(late, taken.released);
    }
  }
  if (trace_event_acquires(&taken) && acquire(late, now, taken.acquired) != 0)
    return -1;
  return push(late, now, &taken, 0);
}

int late_releases_finish(struct late_releases *late) {
  while (late->first < late->next)
    if (hand_on(late) != 0)
      return -1;
  if (late->moved)
    import_note(late->import,
                "%" PRIu64 " releases were logged after their address had been handed out again: moved before that",
                late->moved);
  return 0;
}

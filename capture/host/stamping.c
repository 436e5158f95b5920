/* SPDX-License-Identifier: MIT */
#include "capture/host/stamping.h"

#include "capture/host/ownership.h"
#include "capture/host/ring_room.h"

void stamping_begin_window(struct producer *producer) {
  producer->window_bytes = producer->passed_bytes + ring_room_position(producer);
  producer->window_slow = producer->window_sampled = producer->window_foreign = 0;
}

/* Are `events` at least half of the window's events? With 5/4 records per event, twice the events would fill 5/2
   records for each. */
static bool is_half(const struct producer *producer, uint64_t events) {
  return producer->passed_bytes + ring_room_position(producer) - producer->window_bytes <=
         events * PRODUCER_RECORD_BYTES * 5 / 2;
}

/* Stamping each event is cheaper than exchanging tags where at least half of all events find a tag entry that another
   thread touched last, and more expensive where less than a third do. The sampled tag entries give that share under
   both ways of stamping. (Before there were sampled entries, a thread that stamped each event had to try tags from time
   to time, for longer and longer; these trials cost xmalloc a tenth.) Where a program's objects are in too few tag
   entries for a sample, all slow events are counted instead, and tags are tried now and then. */
void stamping_choose(struct producer *producer, bool sampled, uint16_t before) {
  enum { ENOUGH = 64, TOO_LONG = STAMPING_SLOW_EVENTS };
  bool each = producer->own == TAG_NONE;
  if (sampled) {
    producer->window_sampled++;
    producer->window_foreign += before != 0 && (before & ~TAG_SHARED) != producer->tag;
  }
  if (each && producer->window_sampled >= ENOUGH) {
    if (producer->window_foreign < ENOUGH / 3)
      producer->own = producer->tag;
  } else if (!each && producer->window_foreign >= ENOUGH / 2) {
    if (is_half(producer, ENOUGH / 2 * TAG_SAMPLED))
      producer->own = TAG_NONE;
  } else if (producer->window_slow >= (each ? 16 * TOO_LONG : TOO_LONG)) {
    if (each)
      producer->own = producer->tag;
    else if (producer->window_sampled < ENOUGH && is_half(producer, TOO_LONG))
      producer->own = TAG_NONE;
  } else {
    return;
  }
  stamping_begin_window(producer);
}

uint64_t stamping_stamp(struct producer *producer, const void *address) {
  bool every = host_state.flags & ATTACH_STAMP_EVERY;
  uint32_t tick = ownership_tick();
  bool fresh = tick == producer->tick;
  if (!address) {
    if (fresh && !every)
      return 0;
    producer->tick = tick;
    return ownership_stamp();
  }
  if (producer->own == TAG_NONE) {
    producer->tick = tick;
    uint16_t before;
    uint64_t stamp = ownership_stamp_and_mark(address, producer->tag == TAG_NONE ? 0 : producer->tag, &before);
    if (!every && producer->tag != TAG_NONE)
      stamping_count_slow(producer, ownership_is_sampled(address), before);
    return stamp;
  }
  uint16_t tag = atomic_load_explicit(ownership_tag(address), memory_order_relaxed);
  if (fresh && (tag == producer->own || (tag == 0 && ownership_claim(address, producer->own))))
    return 0;
  producer->tick = tick;
  uint64_t stamp = ownership_take(address, producer->own);
  if (tag != producer->own && tag != 0)
    stamping_count_slow(producer, ownership_is_sampled(address), tag);
  return stamp;
}

/* SPDX-License-Identifier: MIT */
#include "capture/host/ring_room.h"

#include "capture/host/signals.h"
#include "capture/host/accesses.h"
#include "capture/host/attach.h"
#include "capture/host/ownership.h"

enum {
  LAP_BUSY_TICKS = 8, /* after a lap completed in fewer ticks, the next one is longer */
  RESERVE_BYTES = PRODUCER_RESERVE * PRODUCER_RECORD_BYTES,
  WAIT_NS = 20000000,
};

void ring_room_begin_lap(struct producer *producer) {
  producer->lap_tick = ownership_tick();
  producer->passed_bytes += ring_room_position(producer);
}

void ring_room_count_dropped(struct producer *producer, uint64_t events) {
  producer->dropped += events;
  atomic_fetch_add_explicit(&producer->ring->dropped, events, memory_order_relaxed);
  accesses_report_missing(producer->serial, events);
}

/* Continues at another place of the ring. */
static void jump(struct producer *producer, uint32_t to_bytes) {
  uint64_t *from = producer->cursor;
  producer->jump_to = (uint64_t *)(producer->memory + to_bytes);
  producer->jump_from = from;
  atomic_signal_fence(memory_order_seq_cst);
  producer->cursor = producer->jump_to;
  record_put(from, RECORD_JUMP | (uint64_t)to_bytes << 8, 0);
  atomic_signal_fence(memory_order_seq_cst);
  producer->jump_from = NULL;
}

/* The first slot at or behind `at` that was given up; RING_BYTES: there is none. */
static uint32_t next_given_up(const struct producer *producer, uint32_t at) {
  if (!producer->given_up)
    return RING_BYTES;
  uint64_t least = ring_given_up_bit(at);
  for (; at < RING_RECORDS_BYTES; at = (at / (16 * 64) + 1) * (16 * 64), least = 1) {
    uint64_t bits = atomic_load_explicit(ring_given_up_bits(producer->memory, at), memory_order_relaxed) & -least;
    if (bits)
      return at / (16 * 64) * (16 * 64) + 16 * (uint32_t)__builtin_ctzll(bits);
  }
  return RING_BYTES;
}

/* Uses the slot at that place again. Where the interrupted call has written to it, its event was too late. */
static void take_back(struct producer *producer, uint32_t place) {
  uint64_t *slot = (uint64_t *)(producer->memory + place), head, word;
  if (record_get(slot, &head, &word) && head != RECORD_VOID && (uint8_t)head != RECORD_PARAM)
    ring_room_count_dropped(producer, 1);
  slot[0] = slot[1] = 0;
  atomic_fetch_and(ring_given_up_bits(producer->memory, place), ~ring_given_up_bit(place));
  producer->given_up--;
}

/* The first slot behind that place that was not given up, as both slots of one call may be. */
static uint32_t behind_given_up(const struct producer *producer, uint32_t place) {
  do
    place += PRODUCER_RECORD_BYTES;
  while (place < RING_RECORDS_BYTES && ring_is_given_up(producer->memory, place));
  return place;
}

/* Passes slots that were given up, in a later lap, and takes back those that have been written to since. */
static void pass_given_up(struct producer *producer, uint32_t from, uint32_t to) {
  uint64_t head, word;
  for (; from < to; from += PRODUCER_RECORD_BYTES)
    if (record_get((uint64_t *)(producer->memory + from), &head, &word) && head != RECORD_VOID)
      take_back(producer, from);
  jump(producer, to);
}

/* The ring is full. Does the collector wait for a slot that an interrupted call has taken and not filled? Then a
   handler that interrupted that call has recorded a whole lap, or has left by longjmp. In both cases recording must
   continue: the slot is made void, and not used again while that call may still write to it. */
static void give_up_empty_slot(struct producer *producer) {
  struct ring *ring = producer->ring;
  uint32_t place = ring_tail(ring);
  uint64_t *slot = (uint64_t *)(producer->memory + place);
  if (slot == producer->cursor || atomic_load((_Atomic uint64_t *)&slot[1]) != 0 ||
      atomic_load(&ring->stopped) != place + 1)
    return;
  atomic_store_explicit((_Atomic uint64_t *)&slot[1], RECORD_VOID, memory_order_release);
  if (producer->given_up == RING_GIVEN_UP) {
    uint32_t next = next_given_up(producer, place);
    take_back(producer, next < RING_BYTES ? next : next_given_up(producer, 0));
  }
  atomic_fetch_or(ring_given_up_bits(producer->memory, place), ring_given_up_bit(place));
  producer->given_up++;
}

bool ring_room_find(struct producer *producer, bool use_reserve) {
  for (;;) {
    uint32_t at = ring_room_position(producer);
    uint32_t tail = ring_tail(producer->ring);
    HT_ASSERT(tail % PRODUCER_RECORD_BYTES == 0 && tail < RING_BYTES && at < producer->lap);
    bool ahead = tail > at; /* the collector is still in the previous lap */
    uint32_t end = ahead ? tail - PRODUCER_RECORD_BYTES : producer->lap - PRODUCER_RECORD_BYTES,
             given_up = next_given_up(producer, at);
    uint32_t behind = given_up < end ? behind_given_up(producer, given_up) : end;
    bool skip = behind + RESERVE_BYTES < end; /* else there is no room behind it, or no such slot */
    end = given_up < end ? given_up : end;
    uint32_t room = end > RESERVE_BYTES ? end - RESERVE_BYTES : 0;
    uint32_t pending = ahead ? producer->lap - tail + at : at - tail;
    if (pending >= producer->lap / 4)
      host_wake_collector();
    if (at < room) {
      /* The thread comes here again after half a lap, so that it wakes the collector in time. */
      uint32_t milestone = at + producer->lap / 2;
      producer->quick.limit = (uint64_t *)(producer->memory + (milestone < room ? milestone : room));
      HT_ASSERT(producer->cursor < producer->quick.limit && producer_fits(producer, producer->quick.limit));
      return true;
    }
    if (skip) {
      pass_given_up(producer, given_up, behind);
      continue;
    }
    if (!ahead) {
      bool busy = ownership_tick() - producer->lap_tick < LAP_BUSY_TICKS;
      bool can_turn = tail > 2 * RESERVE_BYTES;
      if (producer->lap < RING_RECORDS_BYTES && (busy || !can_turn)) {
        producer->lap = 2 * producer->lap < RING_RECORDS_BYTES ? 2 * producer->lap : RING_RECORDS_BYTES;
        atomic_store_explicit(&producer->ring->lap, producer->lap, memory_order_relaxed);
        producer->lap_tick = ownership_tick();
        continue;
      }
      if (can_turn) {
        ring_room_begin_lap(producer);
        jump(producer, 0);
        continue;
      }
    }
    producer->quick.limit = NULL;
    give_up_empty_slot(producer);
    return use_reserve && at + 5 * PRODUCER_RECORD_BYTES <= end;
  }
}

/* Signals are blocked, as a handler's events have only the small side buffer; they are delivered between two waits. */
void ring_room_wait(struct producer *producer) {
  enum { SPINS = 4096 };
  struct ring *ring = producer->ring;
  uint64_t mask;
  uint32_t seen = atomic_load(&ring->drained), tail = atomic_load(&ring->tail);
  if (host_sandboxed()) {
    for (int i = 0; i < SPINS && tail == atomic_load(&ring->tail); i++)
      os_spin_pause();
    return;
  }
  signals_block(&mask);
  atomic_store(&ring->waiting, 1);
  if (tail == atomic_load(&ring->tail)) {
    host_wake_collector();
    os_futex_wait((const uint32_t *)&ring->drained, seen, WAIT_NS, true);
  }
  signals_restore(&mask);
}

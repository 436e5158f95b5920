/* SPDX-License-Identifier: MIT */
#include "capture/host/producer_state.h"

#include "capture/host/accesses.h"
#include "capture/host/kernel/own_memory.h"
#include "capture/host/ownership.h"
#include "capture/host/stacks/stack.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  LAP_BUSY_TICKS = 8, /* after a lap completed in fewer ticks, the next one is longer */
  RESERVE_BYTES = PRODUCER_RESERVE * PRODUCER_RECORD_BYTES,
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

/* The first slot from `at` on that was given up; end: none in front of it was. */
static uint32_t next_given_up(const struct producer *producer, uint32_t at, uint32_t end) {
  if (!producer->given_up)
    return end;
  while (at < end && !ring_is_given_up(producer->memory, at))
    at += PRODUCER_RECORD_BYTES;
  return at;
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
   continue: the slot is made void, and not used again while that call may still write to it. (Tried instead: the event
   is counted as lost, and the thread takes a new ring. That is 90 lines less; but after 5,000 longjmps out of hooks,
   those of capture/test/hosts/interruptions.c, the host had 154 rings of 256 KiB more, and the trace 155 threads for
   one. To use such rings again needs what is here. That a call was left must be known in both ways.) */
static void give_up_empty_slot(struct producer *producer) {
  struct ring *ring = producer->ring;
  uint32_t place = ring_tail(ring);
  uint64_t *slot = (uint64_t *)(producer->memory + place);
  if (!ring_tail_fits(place, producer->lap) || slot == producer->cursor ||
      atomic_load((_Atomic uint64_t *)&slot[1]) != 0 || atomic_load(&ring->stopped) != place + 1)
    return;
  atomic_store_explicit((_Atomic uint64_t *)&slot[1], RECORD_VOID, memory_order_release);
  if (producer->given_up == RING_GIVEN_UP) {
    uint32_t next = next_given_up(producer, place, RING_RECORDS_BYTES);
    take_back(producer, next < RING_RECORDS_BYTES ? next : next_given_up(producer, 0, RING_RECORDS_BYTES));
  }
  atomic_fetch_or(ring_given_up_bits(producer->memory, place), ring_given_up_bit(place));
  producer->given_up++;
}

bool ring_room_find(struct producer *producer, bool use_reserve) {
  for (;;) {
    uint32_t at = ring_room_position(producer);
    uint32_t tail = ring_tail(producer->ring);
    HT_ASSERT(at < producer->lap);
    if (!ring_tail_fits(tail, producer->lap)) { /* overwritten: the collector sets it again */
      producer->quick.limit = NULL;
      host_wake_collector();
      return false;
    }
    bool ahead = tail > at; /* the collector is still in the previous lap */
    uint32_t end = ahead ? tail - PRODUCER_RECORD_BYTES : producer->lap - PRODUCER_RECORD_BYTES,
             given_up = next_given_up(producer, at, end);
    uint32_t behind = given_up < end ? behind_given_up(producer, given_up) : end;
    bool skip = behind + RESERVE_BYTES < end; /* else there is no room behind it, or no such slot */
    end = given_up;
    uint32_t room = end > RESERVE_BYTES ? end - RESERVE_BYTES : 0;
    uint32_t pending = ahead ? producer->lap - tail + at : at - tail;
    if (pending >= producer->lap / 4)
      host_wake_collector();
    if (at < room) {
      /* The thread comes here again after half a lap, so that it wakes the collector in time. */
      uint32_t milestone = at + producer->lap / 2;
      producer->quick.limit = (uint64_t *)(producer->memory + (milestone < room ? milestone : room));
      HT_ASSERT(producer->cursor < producer->quick.limit && producer_fits(producer, producer->quick.limit));
      producer->idle_waits = 0;
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

/* Where the thread may not sleep: a real-time thread may keep the collector from the only processor for as long as it
   spins. */
static void spin(struct producer *producer, uint32_t tail) {
  enum { SPINS = 4096 };
  for (int i = 0; i < SPINS && tail == atomic_load(&producer->ring->tail); i++)
    os_spin_pause();
  producer->idle_waits = tail == atomic_load(&producer->ring->tail) ? producer->idle_waits + 1 : 0;
}

bool ring_room_is_hopeless(const struct producer *producer) {
  enum { WAITS_MOST = 2500 };
  return producer->idle_waits >= WAITS_MOST && !host_may(HOST_SLEEP);
}

/* Counts the wait that began then, without what the thread waits for a processor once it is woken. */
static void count_wait(struct ring *ring, uint64_t began, bool woke_by_itself) {
  if (woke_by_itself) {
    uint32_t ended = atomic_load_explicit(&ring->waits_ended, memory_order_relaxed);
    atomic_store_explicit(&ring->waits_ended, ended + 1, memory_order_relaxed);
    return;
  }
  uint64_t now = os_stamp(), woken = atomic_load(&ring->woken);
  uint64_t all = atomic_load_explicit(&ring->waited_stamps, memory_order_relaxed);
  uint64_t ended = woken > began && woken < now ? woken : now;
  atomic_store_explicit(&ring->waited_stamps, all + (ended > began ? ended - began : 0), memory_order_relaxed);
}

/* Signals are blocked, as a handler's events have only the small side buffer; they are delivered between two waits. */
void ring_room_wait(struct producer *producer) {
  struct ring *ring = producer->ring;
  uint64_t mask;
  uint32_t seen = atomic_load(&ring->drained), tail = atomic_load(&ring->tail);
  if (!host_may(HOST_SLEEP)) {
    spin(producer, tail);
    return;
  }
  signals_block(&mask);
  atomic_store(&ring->waiting, 1);
  if (tail == atomic_load(&ring->tail)) {
    host_wake_collector(); /* which may take this thread's processor */
    uint64_t began = host_state.flags & ATTACH_COUNTER ? 0 : os_stamp();
    errno = 0;
    os_futex_wait((const uint32_t *)&ring->drained, seen, RING_WAIT_NS, true);
    if (began)
      count_wait(ring, began, errno == ETIMEDOUT);
  }
  signals_restore(&mask);
}

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

static bool owner_is_dead(const struct process *process, struct producer *producer, int me) {
  if (!host_may(HOST_THREAD))
    return false;
  int owner = atomic_load_explicit(&producer->owner, memory_order_acquire);
  bool dead = owner == me || (syscall(SYS_tgkill, process->pid, owner, 0) != 0 && errno == ESRCH);
  atomic_thread_fence(memory_order_acquire); /* the kernel has seen all that it wrote; now this thread does, too */
  return dead;
}

struct producer *producer_pool_find_dead(struct process *process, uint32_t probes, int me) {
  for (uint32_t i = 0; i < probes && i < process->producers; i++) {
    process->probe = (process->probe + 1) % process->producers;
    struct producer *producer = process->producer[process->probe];
    if (owner_is_dead(process, producer, me))
      return producer;
  }
  return NULL;
}

/* Precondition: no thread is in a hook, or about to use a producer. */
static void release_all(const struct process *process) {
  for (uint32_t i = 0; i < process->producers; i++)
    stack_memo_free(process->producer[i]->memo);
  for (uint32_t i = 0; i < process->producers; i += PRODUCER_POOL_BYTES / PRODUCER_BYTES)
    memory_unmap(process->producer[i], PRODUCER_POOL_BYTES);
}

bool producer_pool_prepare(struct process *process) {
  if (process->pool_bytes >= PRODUCER_BYTES)
    return true;
  process->pool = memory_map_wiped(PRODUCER_POOL_BYTES);
  process->pool_bytes = process->pool ? PRODUCER_POOL_BYTES : 0;
  return process->pool != NULL;
}

struct producer *producer_pool_add(struct process *process) {
  if (process->producers == PRODUCERS_MAX || (process->rings_left == 0 && !attach_bank(process)) ||
      !producer_pool_prepare(process))
    return NULL;
  struct producer *producer = (struct producer *)process->pool;
  process->pool += PRODUCER_BYTES;
  process->pool_bytes -= PRODUCER_BYTES;

  uint32_t last = process->banks - 1, rings = process->bank[last].rings, at = rings - process->rings_left--;
  struct bank *bank = process->bank[last].memory;
  producer->ring = &bank->rings[at];
  producer->memory = (char *)bank + bank_header_bytes(rings) + (uint64_t)at * RING_BYTES;
  producer->quick.next = (uintptr_t)producer->memory;
  producer->quick.limit = (uint64_t *)producer->memory;
  producer->lap = RING_ROOM_FIRST_LAP_BYTES;
  producer->index = process->producers;
  producer->own = producer->tag = producer->index < TAG_LAST ? (uint16_t)(producer->index + 1) : TAG_NONE;
  HT_ASSERT(at < rings && producer->tag != 0 && producer->tag <= TAG_NONE);
  atomic_store_explicit(&producer->ring->lap, producer->lap, memory_order_relaxed);
  atomic_store_explicit(&bank->used, at + 1, memory_order_release);
  process->producer[process->producers++] = producer;
  process->release = release_all;
  return producer;
}

/* SPDX-License-Identifier: MIT */
/* A thread's recording state, below producer.h: its fields; where the thread may write in its ring (laps, slots that
   were given up, waiting for the collector); the stamp of a step, and whether the thread exchanges tags, so that few
   steps need one, or stamps each event; the process's producers, which outlive their threads.

   Not its job: what is written, and which producer is the calling thread's (producer.h); what tags mean (ownership.h).
   Invariants: those of producer.h; slots are free from the cursor to limit, and PRODUCER_RESERVE records behind it; a
   producer keeps its ring forever. Precondition of ring_room_* and stamping_*: the thread's own producer, in state
   RECORDING; they keep errno, except ring_room_wait. producer_pool_*: the caller has locked the process; they may
   change errno. */
#pragma once

#include "capture/host/process.h"
#include "capture/wire/ring.h"
#include "core/base/assert.h"

#include <stdbool.h>
#include <stdint.h>

enum {
  PRODUCER_SIDE_RECORDS = 96,
  PRODUCER_BYTES = 2048,
  PRODUCER_POOL_BYTES = 64 << 10, /* of producers that are mapped at once */
  PRODUCER_RECORD_BYTES = 16,
  /* Records that always fit behind limit: those of one call, at most 4, the ends of resizes that have begun, and the
     JUMP record. */
  PRODUCER_RESERVE = 24,

  PRODUCER_OWNER_UNKNOWN = -1, /* never found dead, as tgkill takes it for no thread */
};

/* Above all frames: no call counts as a later call of the program. */
#define PRODUCER_NO_FRAME UINTPTR_MAX

/* A request, as calls.def has it: size, and element count or alignment; 0 where the call has none. */
struct hook_sizes {
  uint64_t size, param;
};

/* Added to next while the thread holds it. */
#define PRODUCER_HELD ((uint64_t)1 << 62)

/* The part of a producer that the common case needs. A thread without a producer has one of these in state NONE, so
   that a hook need not test for it. */
struct producer_quick {
  char early[80]; /* see producer_place */
  uint64_t next;  /* address of the next slot to take, which is free if it is below limit */
  uint64_t *limit;
  uint64_t common; /* value of ownership_load at a step of the common case; 0 in all states but IDLE, and NONE during a
                      pause: see producer_skip */
  volatile uint32_t state; /* enum producer_state */
};

/* An event of a call inside an operator new that may be a part of it (inner_calls.h). */
struct inner_event {
  const void *address;
  struct hook_sizes sizes;
  struct record_columns columns;
  uint8_t op;
  bool has_columns;
};
enum { INNER_HELD_MOST = 3 };

/* What is done to record a large object: at its acquire, and at its release. */
enum large_work { LARGE_PUT, LARGE_TOUCHED, LARGE_WORKS };

struct producer {
  union {
    struct producer_quick quick;
    struct {               /* in quick.early */
      uint64_t *jump_from; /* where a JUMP record is being written, NULL: none is */
      uint64_t *jump_to;
      uint64_t dropped;          /* events without room that no DROPPED record reports yet */
      uint64_t skipped_reported; /* calls made in pauses that DROPPED records report; the ring has the total */
      uint64_t passed_bytes;     /* of completed laps; with the position, it gives the records between two events */
      uint64_t window_bytes;     /* where the window began by which stamping_choose decides */
      struct stack_memo *memo;
      const void *deleting[2]; /* objects of the operators delete in progress: the outermost, and one inside it */
    };
  };
  uint64_t *cursor; /* where the next record goes while the thread holds next, else NULL */
  struct ring *ring;
  uint32_t own;                /* tag, or TAG_NONE while it stamps each event */
  uint32_t tick;               /* of the last stamp; behind own: one load takes both */
  _Atomic uint32_t side_count; /* records in side */
  uint16_t tag;                /* the producer's, forever; TAG_NONE: there are more threads than tags */

  uintptr_t frame;   /* stack pointer of the hook that took the producer from IDLE; PRODUCER_NO_FRAME: none did */
  char *memory;      /* the ring's */
  uint32_t lap;      /* bytes of the ring in use */
  uint32_t lap_tick; /* tick when the lap began */
  uint32_t given_up; /* slots that are given up */
  uint32_t open;     /* resizes begun and not ended: their ends may use the reserve */
  _Atomic uint32_t side_lost; /* events that found side full */
  /* Of that window: its events that were not of the common case; of these,
     those at sampled tag entries; of these, those that another thread had touched last. */
  uint32_t window_slow, window_sampled, window_foreign;
  _Atomic int owner;   /* kernel's thread id */
  uint32_t idle_waits; /* that a thread which may not sleep has spun in vain, one after another */
  uint32_t index;
  uint32_t serial;                   /* of the thread among the process's threads: producers are reused */
  uint32_t stack;                    /* of the call that took the producer from OPTIONAL */
  bool unwinding;                    /* the thread is in a walk that may allocate */
  uint64_t large_usual[LARGE_WORKS]; /* how long a unit of it took before, in sixteenths of a stamp; 0: not known */
  uint32_t large_acquires;
  uint32_t held_count;
  struct inner_event held[INNER_HELD_MOST]; /* the oldest first */
  struct producer_quick parked; /* the thread's in a pause, in state NONE; here, so that a fork child finds it wiped */
  uint64_t side[PRODUCER_SIDE_RECORDS][2];
};
_Static_assert(offsetof(struct producer, deleting[2]) <= offsetof(struct producer_quick, next),
               "quick.early is too small");
_Static_assert(sizeof(struct producer) <= PRODUCER_BYTES, "a producer does not fit PRODUCER_BYTES");

/* Is that a cursor as it may be between two calls: at a record's place, with room for the JUMP record behind it? */
static inline bool producer_fits(const struct producer *producer, const uint64_t *cursor) {
  uintptr_t at = (uintptr_t)cursor - (uintptr_t)producer->memory;
  return at % PRODUCER_RECORD_BYTES == 0 && at + PRODUCER_RECORD_BYTES <= producer->lap &&
         producer->lap <= RING_RECORDS_BYTES;
}

enum { RING_ROOM_FIRST_LAP_BYTES = 16 << 10 }; /* memory of an idle thread */

/* Bytes from the ring's beginning to the cursor. */
static inline uint32_t ring_room_position(const struct producer *producer) {
  return (uint32_t)((char *)producer->cursor - producer->memory);
}

void ring_room_begin_lap(struct producer *producer);

/* Counts events that have found no room; the next DROPPED record reports them. */
void ring_room_count_dropped(struct producer *producer, uint64_t events);

/* Advances limit, into the next lap if need be. False: the ring is full. use_reserve: the reserve may be used then. */
bool ring_room_find(struct producer *producer, bool use_reserve);

/* Waits until the collector has read some of the ring, for 20 ms at most. */
void ring_room_wait(struct producer *producer);

/* Has the thread, which may not sleep, waited in vain for so long that its events are to be dropped? */
bool ring_room_is_hopeless(const struct producer *producer);

/* Resets the counts: a thread takes the producer, or has just chosen. */
void stamping_begin_window(struct producer *producer);

/* Chooses how the thread stamps, after a slow event; sampled: at a sampled tag entry, whose previous value is
   before. */
void stamping_choose(struct producer *producer, bool sampled, uint16_t before);

/* Orders the step at address (NULL: a step without an object). Returns its stamp; 0: it inherits one. */
uint64_t stamping_stamp(struct producer *producer, const void *address);

/* For slow events at entries that are not sampled, stamping_choose is called once per this many slow events. */
enum { STAMPING_SLOW_EVENTS = 16384 };

/* In inner_calls.c: an operator new was left by longjmp; records what is held of it, before the call with that frame.
 */
void inner_abandoned(struct producer *producer, uintptr_t frame);

/* Counts a slow event of a thread, and lets the thread choose how it stamps. before: what the entry held. */
static inline void stamping_count_slow(struct producer *producer, bool sampled, uint16_t before) {
  producer->window_slow++;
  if (sampled || __builtin_expect(producer->window_slow % STAMPING_SLOW_EVENTS == 0, 0))
    stamping_choose(producer, sampled, before);
}

/* The producer of a thread that has ended, among the next `probes` producers; NULL: there is none. me: the calling
   thread's id. */
struct producer *producer_pool_find_dead(struct process *process, uint32_t probes, int me);

/* Maps memory for the next producers, if there is none left. False: there is none. */
bool producer_pool_prepare(struct process *process);

/* A new producer with its ring, not owned yet; NULL: there is no more memory, or no ring. */
struct producer *producer_pool_add(struct process *process);

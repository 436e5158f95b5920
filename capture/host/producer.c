/* SPDX-License-Identifier: MIT */
#include "capture/host/producer.h"

#include "capture/host/accesses.h"
#include "capture/host/process.h"
#include "capture/host/producer_state.h"
#include "capture/host/real/real.h"
#include "capture/host/stacks/stack.h"
#include "capture/wire/heaptape.h"
#include "core/trace/summary.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* All threads have this one while they have no producer. */
static struct producer_quick nobody = {.state = PRODUCER_NONE};

static __thread struct producer_quick *in_tls __attribute__((tls_model("initial-exec"))) = &nobody;
uintptr_t producer_place;

bool producer_is_early(void) {
  if (__builtin_expect(producer_place != 0, 1))
    return false;
  if (!real_is_relocated() || !in_tls)
    return true;
  producer_place = (uintptr_t)&in_tls - (uintptr_t)__builtin_thread_pointer();
  return false;
}

/* A thread's state outside its producer, as it may have none. */
static __thread struct {
  bool beginning;
  uint32_t excluded;
  struct producer *parked; /* its producer during a pause, when producer_mine is `nobody`, so that the fast path need
                              not test for a pause */
  uint32_t refused;        /* events lost since the thread could get no producer; 0: it has not been refused one */
} mine __attribute__((tls_model("initial-exec")));

__attribute__((constructor)) static void find_place(void) {
  producer_is_early();
}

static void have_no_producer(void) {
  producer_mine = &nobody;
}

static void put_control(struct producer *producer, uint64_t head, uint64_t word) {
  producer->cursor += 2;
  HT_ASSERT(producer_fits(producer, producer->cursor));
  record_put(producer->cursor - 2, head, word);
}

/* After a handler has left by longjmp the call that held next, or its thread has ended in it: releases next. That call
   may have been at any instruction. */
static void let_go(struct producer *producer) {
  uint64_t next = producer->quick.next;
  if (next >= PRODUCER_HELD)
    next = producer->cursor ? (uintptr_t)producer->cursor : next - PRODUCER_HELD;
  if (producer->jump_from && next == (uintptr_t)producer->jump_to)
    record_put(producer->jump_from, RECORD_JUMP | (uint64_t)((char *)producer->jump_to - producer->memory) << 8, 0);
  producer->jump_from = NULL;
  producer->open = 0;
  stack_let_go();
  producer->quick.limit = NULL; /* it may be of the lap before a jump */
  producer->quick.next = next;
  producer->cursor = NULL;
}

/* Is the thread still in a call that began in an earlier recording of the process? Its ring is no longer in use. */
static bool is_of_earlier_recording(const struct producer *producer) {
  return redirected_table() && !mine.beginning && producer != (struct producer *)producer_mine &&
         producer != mine.parked;
}

static struct process *stop_if_requested(struct producer *producer) {
  if (is_of_earlier_recording(producer))
    return NULL;
  struct process *process = attach_process();
  if (process && atomic_load_explicit(&process->bank[0].memory->stop, memory_order_relaxed))
    process_stop(process, NULL);
  else if (process && host_collector_died())
    process_stop(process, ATTACH_ENDED);
  if (!process_is_off())
    return process;
  accesses_follow(true);
  producer->quick.limit = NULL;
  if (producer == producer_now()) /* so that this alone shows the next calls that nothing is recorded */
    have_no_producer();
  return NULL;
}

/* Counts a call made in a pause. A plain store, as the ring has one writer. */
static inline void count_skipped(struct producer *producer) {
  uint64_t all = atomic_load_explicit(&producer->ring->skipped, memory_order_relaxed) + 1;
  atomic_store_explicit(&producer->ring->skipped, all, memory_order_relaxed);
  accesses_report_missing(producer->serial, 1);
}

/* Called when the tick has advanced, as it is after a change of the pauses. A resize that has begun must end first. */
static bool park_if_paused(struct producer *producer) {
  uint32_t paused = host_paused(); /* read once: a recording that starts now must not make this call a missing one */
  accesses_follow(paused);
  accesses_follow_operator();
  if (!paused || producer->open || producer != producer_now())
    return false;
  if (!(paused & PAUSED_FROM_START))
    count_skipped(producer);
  mine.parked = producer;
  bool counts = !(paused & PAUSED_FROM_START) && host_state.idle == PRODUCER_IDLE && !mine.excluded;
  producer->parked = (struct producer_quick){.state = PRODUCER_NONE};
  if (counts && !accesses_are_recorded())
    producer->parked.common = (uint64_t)(uintptr_t)&producer->ring->skipped;
  producer_mine = &producer->parked;
  return true;
}

void producer_drop(struct producer *producer) {
  ring_room_count_dropped(producer, 1);
  producer->quick.limit = NULL; /* so that the next step looks for room, and first writes how many were dropped */
}

static void put_missing(struct producer *producer) {
  if (producer->dropped)
    put_control(producer, RECORD_DROPPED | (uint64_t)MISSING_RING_FULL << 8, producer->dropped);
  uint64_t skipped = atomic_load_explicit(&producer->ring->skipped, memory_order_relaxed);
  if (skipped != producer->skipped_reported)
    put_control(producer, RECORD_DROPPED | (uint64_t)MISSING_PAUSED << 8, skipped - producer->skipped_reported);
  producer->dropped = 0;
  producer->skipped_reported = skipped;
}

/* Makes room for one call; waits for room unless the recording drops events instead. False: there is no room, or the
   recording has ended. */
static bool reserve(struct producer *producer) {
  bool drop = host_state.flags & ATTACH_DROP;
  while (!ring_room_find(producer, drop && producer->open)) {
    if (!stop_if_requested(producer))
      return false;
    if (drop || ring_room_is_hopeless(producer)) {
      ring_room_count_dropped(producer, 1);
      return false;
    }
    ring_room_wait(producer);
  }
  put_missing(producer);
  if (producer->held_count)
    producer->quick.limit = NULL;
  return stop_if_requested(producer) != NULL;
}

/* Moves the side buffer's records into the ring. Precondition: state RECORDING. Signals are blocked where possible, as
   a handler would add records; where one interrupts nevertheless, its records are moved in another round. */
static void move_side(struct producer *producer) {
  uint64_t mask;
  signals_block(&mask);
  uint32_t count = atomic_load(&producer->side_count), moved = 0;
  struct accesses_side side = {0};
  HT_ASSERT(producer->quick.state == PRODUCER_RECORDING);
  uint64_t lost = 0;
  do {
    HT_ASSERT(moved <= count && count <= PRODUCER_SIDE_RECORDS);
    uint32_t first = moved;
    for (; moved < count; moved++) {
      if (producer->cursor >= producer->quick.limit && !reserve(producer))
        break;
      put_control(producer, producer->side[moved][0], producer->side[moved][1]);
    }
    for (uint32_t i = first; accesses_are_recorded() && i < moved; i++)
      accesses_report_side_record(producer->serial, &side, producer->side[i]);
    for (; moved < count; moved++) {
      uint8_t op = (uint8_t)producer->side[moved][0];
      lost += (op & CALL_ID_MASK) < RECORD_TEXT;
    }
  } while (!atomic_compare_exchange_strong(&producer->side_count, &count, 0));
  lost += atomic_exchange(&producer->side_lost, 0);
  if (lost && !process_is_off())
    ring_room_count_dropped(producer, lost);
  signals_restore(&mask);
}

void producer_flush_side(struct producer *producer) {
  int error = errno;
  uint32_t was = producer->quick.state;
  bool is_outermost = producer->frame == PRODUCER_NO_FRAME;
  if (is_outermost)
    producer_note_frame(producer, os_stack_pointer());
  producer_hold(producer);
  if (is_outermost)
    producer_note_frame(producer, os_stack_pointer());
  if (producer->ring)
    move_side(producer);
  producer_set_state(producer, was);
  if (is_outermost)
    producer_note_frame(producer, PRODUCER_NO_FRAME);
  errno = error;
}

bool producer_step_slow(struct producer *producer, const void *address, uint64_t *stamp) {
  if (!producer->ring || park_if_paused(producer))
    return false;
  int error = errno;
  bool room = producer->cursor < producer->quick.limit || reserve(producer);
  if (room) {
    *stamp = stamping_stamp(producer, address);
    while (room && atomic_load(&producer->side_count)) {
      /* A handler interrupted in between: its records go first, with stamps that may be later than our read of the
         entry. So the step is ordered again. */
      move_side(producer);
      room = producer->cursor < producer->quick.limit || reserve(producer);
      producer->tick -= *stamp != 0; /* the entry may hold the thread's tag now, but the step must have a stamp */
      *stamp = stamping_stamp(producer, address);
    }
  }
  errno = error;
  return room;
}

/* A handler that interrupts in between lowers the limit, so that the step that follows finds its records. */
void producer_note(struct producer_entry in, uint8_t op, const void *address, uint64_t word) {
  struct producer *producer = in.producer;
  if (in.was == PRODUCER_RECORDING || !producer->ring)
    return;
  int error = errno;
  if (!producer->cursor)
    producer_hold(producer);
  atomic_signal_fence(memory_order_seq_cst);
  bool wait = !(host_state.flags & ATTACH_DROP);
  bool room = producer->cursor < producer->quick.limit || (wait && reserve(producer));
  while (room && atomic_load(&producer->side_count)) {
    move_side(producer);
    room = producer->cursor < producer->quick.limit || (wait && reserve(producer));
  }
  if (room)
    put_control(producer, op | (uint64_t)(uintptr_t)address << 8, word);
  errno = error;
}

void producer_side_event(struct producer *producer, struct producer_event event) {
  uint16_t before;
  uint64_t stamp = ownership_stamp_and_mark(event.address, 0, &before);
  uint32_t need = 1 + (event.param != NULL) + !event.stamped;
  uint32_t at = atomic_load(&producer->side_count);
  do {
    if (at + need > PRODUCER_SIDE_RECORDS) {
      atomic_fetch_add(&producer->side_lost, 1);
      return;
    }
  } while (!atomic_compare_exchange_weak(&producer->side_count, &at, at + need));
  uint64_t(*to)[2] = &producer->side[at];
  if (event.param) {
    (*to)[0] = RECORD_PARAM;
    (*to++)[1] = *event.param;
  }
  if (!event.stamped) {
    (*to)[0] = RECORD_STAMP;
    (*to++)[1] = stamp;
  }
  (*to)[0] = event.op | (uint64_t)(uintptr_t)event.address << 8;
  (*to)[1] = event.stamped ? stamp : event.word;
  producer->quick.limit = NULL; /* so that the interrupted call finds the records */
}

void producer_describe_thread(struct redirect_thread_part part[REDIRECT_THREAD_PARTS]) {
  part[0] = (struct redirect_thread_part){(uintptr_t)&in_tls, sizeof in_tls, (uintptr_t)&nobody};
  part[1] = (struct redirect_thread_part){(uintptr_t)&mine, sizeof mine, 0};
}

static void reset(struct producer *producer) {
  let_go(producer);
  if (producer->held_count) /* its thread has ended in an operator new */
    ring_room_count_dropped(producer, producer->held_count);
  producer->held_count = 0;
  producer_hold(producer);
  producer->tick = ownership_tick() - 1; /* so that the first step has a stamp */
  /* A thread that takes over a producer keeps its way of stamping, as successive threads behave in the same way. */
  if (host_state.flags & ATTACH_STAMP_EVERY)
    producer->own = TAG_NONE;
  ring_room_begin_lap(producer);
  stamping_begin_window(producer);
}

static struct producer *take_producer(struct process *process) {
  int me = host_may(HOST_THREAD) ? os_thread_id() : PRODUCER_OWNER_UNKNOWN;
  bool reused = true;
  process_lock(process);
  struct producer *producer = producer_pool_find_dead(process, 4, me);
  if (!producer && process->rings_left == 0)
    producer = producer_pool_find_dead(process, process->producers, me);
  if (!producer) {
    reused = false;
    producer = producer_pool_add(process);
  }
  if (producer)
    atomic_store_explicit(&producer->owner, me, memory_order_release);
  if (producer)
    atomic_store_explicit(&producer->ring->owner, (uint32_t)me, memory_order_relaxed);
  if (producer)
    producer->serial = process->threads++;
  process_unlock(process);
  if (!producer) {
    atomic_fetch_add(&process->bank[0].memory->orphan, 1);
    return NULL;
  }
  reset(producer);
  if (reused) {
    stack_memo_reset(producer->memo);
    if (atomic_load(&producer->side_count))
      move_side(producer);
    while (!ring_room_find(producer, true) && stop_if_requested(producer) && !ring_room_is_hopeless(producer))
      ring_room_wait(producer);
    put_missing(producer);
    put_control(producer, RECORD_THREAD, producer->serial);
  } else if (accesses_are_recorded()) {
    put_control(producer, RECORD_THREAD, producer->serial);
  }
  producer_set_state(producer, host_state.idle);
  return producer;
}

/* Gives the thread a producer, at its first event or its first in a fork child. NULL: it can have none. */
static struct producer *begin_thread(void) {
  enum { REFUSED_RETRY = 4096 };
  if (producer_is_early()) {
    real_serve_early();
    host_count_missing();
    return NULL;
  }
  if (mine.beginning || mine.excluded || process_is_off())
    return NULL;
  if (mine.refused && mine.refused++ % REFUSED_RETRY) {
    struct process *process = attach_process();
    if (process)
      atomic_fetch_add(&process->bank[0].memory->orphan, 1);
    return NULL;
  }
  int error = errno;
  uint64_t mask;
  mine.beginning = true;
  mine.parked = NULL; /* the parent's, in a fork child */
  signals_block(&mask);
  struct process *process = attach_process();
  struct producer *producer = process ? take_producer(process) : NULL;
  if (producer)
    producer_mine = &producer->quick;
  else
    have_no_producer();
  atomic_signal_fence(memory_order_seq_cst);
  if (producer && process != process_own()) { /* another recording has begun meanwhile: the next call begins in it */
    have_no_producer();
    producer = NULL;
  }
  mine.refused = process && !producer;
  mine.beginning = false;
  signals_restore(&mask);
  errno = error;
  return producer;
}

/* Did a handler leave by longjmp the call that holds the producer? Then this call's frame is at about the depth of that
   call's frame, or above. A handler's frame is below that frame by more than the size of the kernel's signal frame, or
   on a separate stack; a new-handler, and a function that an operator calls to throw, is below it by any distance. */
static bool is_abandoned(const struct producer *producer, uintptr_t frame) {
  enum { SIGNAL_FRAME_BYTES = 512 }; /* at least; the saved registers alone are more */
  uint32_t state = producer->quick.state;
  if (frame + (state == PRODUCER_NEW || state == PRODUCER_DELETE ? 1 : SIGNAL_FRAME_BYTES) <= producer->frame)
    return false;
  if (!host_may(HOST_STACK)) /* a record in the side buffer is better than a system call that may kill the process */
    return false;
  int error = errno;
  stack_t stack;
  bool on_alternate_stack = sigaltstack(NULL, &stack) != 0 || (stack.ss_flags & SS_ONSTACK);
  errno = error;
  return !on_alternate_stack;
}

/* Returns the thread's producer after the pause for which it was parked. NULL: it has none; where mine.parked is still
   set, the call is not to be recorded. */
static struct producer *unpark(void) {
  struct producer *producer = mine.parked;
  atomic_signal_fence(memory_order_seq_cst);
  if (!producer)
    return producer_now();                       /* a handler that interrupted in between may have been here */
  if (producer->quick.state == PRODUCER_WIPED) { /* a fork child */
    mine.parked = NULL;
    return NULL;
  }
  if (mine.excluded)
    return NULL;
  accesses_follow(false);
  producer_mine = &producer->quick; /* first, as a handler that finds neither would begin another thread of the trace */
  atomic_signal_fence(memory_order_seq_cst);
  mine.parked = NULL;
  producer->tick = ownership_tick() - 1;
  producer->quick.limit = NULL; /* so that the next step looks for room, and first writes how many were skipped */
  return producer;
}

/* Is the call a part of the one that holds the producer? An operator new may take memory from malloc but releases none:
   a free from its code is the end of an exception. For an operator delete, the reverse holds. */
static bool is_part(struct producer *producer, uint32_t what, const void *caller) {
  uint32_t state = producer->quick.state;
  if (producer->unwinding) {
    atomic_fetch_add_explicit(&producer->ring->nested, 1, memory_order_relaxed);
    return true;
  }
  if (state == PRODUCER_NEW || state == PRODUCER_DELETE) {
    bool releases = what & PRODUCER_RELEASES;
    return operators_are_at(caller, releases == (state == PRODUCER_DELETE));
  }
  if (!real_is_allocator_code(caller))
    return false;
  atomic_fetch_add_explicit(&producer->ring->nested, 1, memory_order_relaxed);
  return true;
}

/* The call's stack by a foreign unwinder. No handler may leave it by longjmp, as it may hold locks. */
static __attribute__((noinline)) uint32_t take_unwound(struct producer *producer, const void *caller,
                                                       const void *own_frame) {
  uint64_t mask;
  signals_block(&mask);
  producer->unwinding = true;
  uint32_t stack = stack_take(&producer->memo, caller, own_frame);
  producer->unwinding = false;
  signals_restore(&mask);
  return stack;
}

/* A hook begins where the thread is in another, or has no producer (in->producer NULL). True: it is in no other now,
   and in->producer is the thread's. False: *in is the entry. */
static bool enter_slow(struct producer_entry *in, uint32_t what, const void *caller, uintptr_t frame) {
  struct producer *producer = in->producer ? in->producer : unpark();
  in->producer = NULL;
  if (!producer && mine.parked)
    return false;
  if (!producer || producer->quick.state == PRODUCER_WIPED)
    producer = begin_thread();
  else if (producer->quick.state == PRODUCER_OFF)
    producer = NULL;
  if (!producer)
    return false;
  if (producer->quick.state != host_state.idle) {
    bool above = frame > producer->frame && is_abandoned(producer, frame); /* a part's frame is not */
    if (!above && is_part(producer, what, caller))
      return false;
    if (!above && !is_abandoned(producer, frame)) {
      *in = (struct producer_entry){producer, producer->quick.state};
      if (in->was == PRODUCER_CALLING)
        producer_set_state(producer, what & PRODUCER_STATES);
      return false;
    }
    let_go(producer);
    if (producer->held_count)
      inner_abandoned(producer, frame);
  }
  in->producer = producer;
  return true;
}

/* The cases where nothing is recorded at present come first, so that they cost the program little. */
static inline __attribute__((always_inline)) bool passes(const void *caller) {
  struct producer *parked = mine.parked;
  if (producer_now())
    return false;
  if (!parked || parked->quick.state == PRODUCER_WIPED)
    return process_is_off();
  uint32_t paused = host_paused(); /* read once, as in park_if_paused */
  if (!paused)
    return process_is_off();
  if (!(paused & PAUSED_FROM_START) && !mine.excluded && !operators_are_at(caller, true))
    count_skipped(parked);
  return true;
}

bool producer_passes(const void *caller) {
  return passes(caller);
}

/* Separate, so that calls without a stack save no registers for it. */
static __attribute__((noinline)) void note_stack(struct producer *producer, const void *caller, const void *own_frame) {
  atomic_signal_fence(memory_order_seq_cst);
  producer->stack =
      stack_is_unwound() ? take_unwound(producer, caller, own_frame) : stack_take(&producer->memo, caller, own_frame);
}

static inline __attribute__((always_inline)) struct producer_entry
begin(struct producer *producer, uint32_t what, const void *caller, uintptr_t frame, const void *own_frame) {
  producer_begin(producer, what & PRODUCER_STATES, frame);
  if (host_state.idle == PRODUCER_SLOW && stack_settings.area) {
    producer->stack = 0;
    if (!(what & (PRODUCER_RELEASES | PRODUCER_TOUCHES)))
      note_stack(producer, caller, own_frame);
  }
  return (struct producer_entry){producer, host_state.idle};
}

/* The thread is in another hook, or has no producer. */
static __attribute__((noinline)) struct producer_entry enter_other(uint32_t what, const void *caller, uintptr_t frame,
                                                                   const void *own_frame) {
  struct producer_entry in = {producer_now(), 0};
  if ((!in.producer && passes(caller)) || !enter_slow(&in, what, caller, frame))
    return in;
  return begin(in.producer, what, caller, frame, own_frame);
}

struct producer_entry producer_enter_slow(uint32_t what, const void *caller, uintptr_t frame, const void *own_frame) {
  struct producer *producer = producer_now();
  if (producer && producer->quick.state == host_state.idle)
    return begin(producer, what, caller, frame, own_frame);
  return enter_other(what, caller, frame, own_frame);
}

/* The thread's producer, even if it is paused or excluded; NULL if it can have none. */
static struct producer *producer_of_thread(void) {
  struct producer *producer = producer_now() ? producer_now() : mine.parked;
  if (!producer || producer->quick.state == PRODUCER_WIPED)
    producer = begin_thread();
  return process_is_off() ? NULL : producer;
}

/* Puts one record that belongs to no step. Precondition: state RECORDING. Waits for room unless the recording drops
   events instead. False: there was no room, or the recording has ended. */
static bool producer_put_control(struct producer *producer, uint64_t head, uint64_t word) {
  HT_ASSERT(producer->quick.state == PRODUCER_RECORDING);
  while (producer->cursor >= producer->quick.limit && !ring_room_find(producer, false)) {
    if (!stop_if_requested(producer) || host_state.flags & ATTACH_DROP || ring_room_is_hopeless(producer))
      return false;
    ring_room_wait(producer);
  }
  put_control(producer, head, word);
  return true;
}

void heaptape_lib_exclude(void) {
  mine.excluded++;
  if (mine.parked && !producer_now()) /* so that its calls are checked one by one */
    have_no_producer();
  struct producer *producer = producer_now();
  if (producer && producer->quick.state == host_state.idle)
    producer_set_state(producer, PRODUCER_OFF);
}

void heaptape_lib_include(void) {
  struct producer *producer = producer_now();
  if (mine.excluded && --mine.excluded == 0 && producer && producer->quick.state == PRODUCER_OFF)
    producer_set_state(producer, host_state.idle);
}

/* heaptape_mark: writes a program's mark into the ring. */

/* A mark's records are published one by one. They still follow each other: other threads have their own rings, and
   handlers of this thread use the side buffer. */
static bool put_mark(struct producer *producer, const char *text, size_t length) {
  enum { TEXT_BYTES = 15 };
  for (size_t at = 0; at <= length; at += TEXT_BYTES) {
    size_t count = length - at < TEXT_BYTES ? length - at : TEXT_BYTES;
    uint64_t record[2] = {0};
    memcpy((char *)record + 1, text + at, count);
    if (!producer_put_control(producer, record[0] | RECORD_TEXT, record[1]))
      return false;
  }
  return producer_put_control(producer, RECORD_MARK | (uint64_t)length << 8, ownership_stamp());
}

void heaptape_lib_mark(const char *text) {
  struct producer *producer = text ? producer_of_thread() : NULL;
  if (!producer || (producer->quick.state != host_state.idle && producer->quick.state != PRODUCER_OFF))
    return;
  int error = errno;
  uint32_t was = producer->quick.state;
  producer_begin(producer, PRODUCER_RECORDING, os_stack_pointer());
  size_t length = strnlen(text, TRACE_MARK_MAX_BYTES + 1);
  if (length > TRACE_MARK_MAX_BYTES)
    for (length = TRACE_MARK_MAX_BYTES; length > 0 && (text[length] & 0xc0) == 0x80;) /* never half a character */
      length--;
  if (!put_mark(producer, text, length))
    atomic_fetch_add_explicit(&producer->ring->marks_lost, 1, memory_order_relaxed);
  /* A step that a thread makes after it knows of the mark must not inherit an older stamp: the tick makes it take a new
     one. */
  control_advance_tick(&host_state.tables->control);
  accesses_report_mark(text, length);
  producer_set_state(producer, was);
  producer_note_frame(producer, PRODUCER_NO_FRAME);
  if (atomic_load(&producer->side_count))
    producer_flush_side(producer);
  errno = error;
}

/* SPDX-License-Identifier: MIT */
/* A producer: one thread's recording state, and the few instructions of the fast path.

   Not its job: which calls exist (hooks.c), attaching to the collector (process.h), room in
   the ring and when a thread stamps each event (producer_state.h). Invariants: a producer belongs to one running
   thread. Its memory is wiped in a fork child, where state 0 means that it is the parent's. In the common case a call
   takes slots of the ring by one instruction, which advances next, so that a handler that interrupts at any time takes
   other slots; then the call fills its slots. In all other cases the producer is in state RECORDING and holds next, so
   that no slots can be taken: cursor is where it writes, and a signal handler that interrupts that state puts its
   records into the side buffer. Slots are not taken further behind limit than PRODUCER_RESERVE records, and the JUMP
   record always fits behind them. Nothing here allocates, prints, changes errno or may be cancelled. */
#pragma once

#include "capture/host/accesses.h"
#include "capture/host/ownership.h"
#include "capture/host/producer_state.h"
#include "capture/host/real/real.h"
#include "capture/wire/redirect.h"
#include "core/trace/event.h"

/* How far ahead of the cursor a line of the ring is prefetched: the collector has read it, so it is in another core's
   cache. Saves larson 2 of 12 ns of host CPU per event, python3 1.5 of 9 (medians of 7 alternating runs). */
enum { PRODUCER_PREFETCH_WORDS = 48 };

/* What a hook keeps across the real call. producer NULL: this call is not recorded. */
struct producer_entry {
  struct producer *producer;
  uint32_t was; /* the state to return to */
};

/* The calling thread's producer, or what it has instead. Its place is not in the table that the dynamic linker fills
   in, but in producer_place, as the library may be called before it is relocated, and before the first thread's TLS has
   its initial values (by resolvers of IFUNCs, while other objects are relocated). Until producer_place is set it is 0,
   where glibc and musl have a pointer to the thread's own data; of these, what lies at the members of struct
   producer_quick is zero (in glibc on aarch64: of the vector of TLS blocks), so the thread appears to be in state
   WIPED. */
extern uintptr_t producer_place __attribute__((visibility("hidden"))); /* relative to the thread's pointer */
#if defined(__x86_64__)
#define producer_mine (*(struct producer_quick * __seg_fs *)producer_place)
#else
#define producer_mine (*(struct producer_quick **)((uintptr_t)__builtin_thread_pointer() + producer_place))
#endif

/* Is the library called so early that nothing can be recorded? Sets producer_place if not. */
bool producer_is_early(void);

/* The thread's producer; NULL: it has none, or is paused. */
static inline struct producer *producer_now(void) {
  struct producer_quick *quick = producer_mine;
  return __builtin_expect(quick->state == PRODUCER_NONE, 0) ? NULL : (struct producer *)quick;
}

/* The thread's producer, if it is in state IDLE. */
static inline struct producer *producer_if_idle(void) {
  struct producer_quick *quick = producer_mine;
  return __builtin_expect(quick->state == PRODUCER_IDLE, 1) ? (struct producer *)quick : NULL;
}

/* A handler may change next at any time, so the compiler must read it here and once. */
static inline uint64_t producer_next(const struct producer_quick *quick) {
  return *(const volatile uint64_t *)&quick->next;
}

/* A hook that takes the producer from IDLE notes its frame before and after: before, so that a handler that leaves by
   longjmp is detected; after, as a handler that interrupted in between and returned has put PRODUCER_NO_FRAME there.
   (It must not leave its own frame, which is so deep that the next handler would take this call for one that was
   left.) */
static inline __attribute__((always_inline)) void producer_note_frame(struct producer *producer, uintptr_t frame) {
  atomic_signal_fence(memory_order_seq_cst);
  producer->frame = frame;
  atomic_signal_fence(memory_order_seq_cst);
}

/* Takes hold of next, in state RECORDING. A handler that interrupts before next is held takes slots in front. */
static inline __attribute__((always_inline)) void producer_hold(struct producer *producer) {
  HT_ASSERT(!producer->cursor);
  producer->quick.state = PRODUCER_RECORDING;
  atomic_signal_fence(memory_order_seq_cst);
  producer->cursor = (uint64_t *)os_fetch_add_own(&producer->quick.next, PRODUCER_HELD);
}

/* Goes into another state than RECORDING, and releases next. The state is set before common: a handler that interrupts
   between them finds a common that was true, or leaves one that is. */
static inline __attribute__((always_inline)) void producer_set_state(struct producer *producer, uint32_t state) {
  if (producer->cursor) {
    producer->quick.next = (uint64_t)(uintptr_t)producer->cursor;
    atomic_signal_fence(memory_order_seq_cst);
    producer->cursor = NULL;
  }
  producer->quick.state = state;
  atomic_signal_fence(memory_order_seq_cst);
  producer->quick.common = state == PRODUCER_IDLE ? ownership_common(producer->tick, producer->own) : 0;
  atomic_signal_fence(memory_order_seq_cst);
}

/* The uncommon cases of the functions below. own_frame: the calling function's
   __builtin_frame_address(0), from which a walk of the stack may begin; NULL: it has none. */
struct producer_entry producer_enter_slow(uint32_t what, const void *caller, uintptr_t frame, const void *own_frame);
/* Is that call not to be recorded, as the thread is in a pause, or the recording is off? Then it is counted if it must
   be. */
bool producer_passes(const void *caller);
bool producer_step_slow(struct producer *producer, const void *address, uint64_t *stamp);

/* Moves the side buffer's records into the ring. */
void producer_flush_side(struct producer *producer);

/* A step to be recorded. It is passed by value, so that the compiler keeps its members in registers. */
struct producer_event {
  uint8_t op;
  bool stamped; /* word 1 of the record carries the stamp, and word is not used */
  const void *address;
  uint64_t word;         /* the size */
  bool small;            /* word is below RECORD_QUICK_BYTES */
  const uint64_t *param; /* NULL: none */
  bool has_quick;        /* a small one: record_quick without the size is at hand, in quick */
  uint64_t quick;
};

/* False: producer_skip is false, too. The first check of calls that are not of the common case, so that it delays them
   little. */
static inline bool producer_may_skip(void) {
  return __builtin_expect(producer_mine->state == PRODUCER_NONE, 0);
}

/* Does the thread skip a call, as there is a pause? Then the call is counted. A few instructions, as a program may be
   paused most of the time: where the thread parked for such a pause, `common` is the address of its counter. Only where
   the allocator is libc's, which calls no hook. caller: addresses where an operator may be, whose inner call reaches us
   as a second call, are left to producer_enter_slow. One addition, so that a handler's calls are counted, too. */
static inline __attribute__((always_inline)) bool producer_skip(const void *caller) {
  const struct producer_quick *quick = producer_mine;
  uint64_t *skipped = (uint64_t *)quick->common;
  if (quick->state != PRODUCER_NONE || !skipped || !host_paused() || operators_may_be_at(caller))
    return false;
  os_add_own(skipped, 1);
  return true;
}

/* Puts an event into the side buffer, stamped: for a handler that interrupted the writing of a record. */
void producer_side_event(struct producer *producer, struct producer_event event);

/* A hook with that frame begins, in a thread that is in no other hook. In state RECORDING it holds next. */
static inline __attribute__((always_inline)) void producer_begin(struct producer *producer, uint32_t state,
                                                                 uintptr_t frame) {
  producer_note_frame(producer, frame);
  if (state == PRODUCER_RECORDING)
    producer_hold(producer);
  else
    producer_set_state(producer, state);
  producer_note_frame(producer, frame);
}

/* The quick form of beginning: from state IDLE to another that is not RECORDING. No call that the hook
   makes has a frame above the noted one. */
static inline __attribute__((always_inline)) void producer_show(struct producer *producer, uint32_t state) {
  HT_ASSERT(!producer->cursor);
  atomic_signal_fence(memory_order_seq_cst);
  os_store_stack_pointer(&producer->frame);
  producer->quick.state = state;
  atomic_signal_fence(memory_order_seq_cst);
  producer->quick.common = 0;
  atomic_signal_fence(memory_order_seq_cst);
  os_store_stack_pointer(&producer->frame);
}

/* The quick form of leaving, back to state IDLE. The frame is cleared once, at the end: in state IDLE nobody reads it.
 */
static inline __attribute__((always_inline)) void producer_show_idle(struct producer *producer) {
  HT_ASSERT(!producer->cursor);
  atomic_signal_fence(memory_order_seq_cst);
  producer->quick.state = PRODUCER_IDLE;
  atomic_signal_fence(memory_order_seq_cst);
  producer->quick.common = ownership_common(producer->tick, producer->own);
  producer_note_frame(producer, PRODUCER_NO_FRAME);
}

/* A hook begins. what: the state during the real call, plus PRODUCER_RELEASES where the call releases and acquires
   nothing, PRODUCER_TOUCHES where it does neither; caller: its return address; frame: its own. */
enum { PRODUCER_RELEASES = 16, PRODUCER_TOUCHES = 32, PRODUCER_STATES = 15 };
static inline __attribute__((always_inline)) struct producer_entry producer_enter(uint32_t what, const void *caller,
                                                                                  uintptr_t frame) {
  struct producer *producer = producer_if_idle();
  if (__builtin_expect(!producer, 0))
    return producer_enter_slow(what, caller, frame, NULL);
  producer_begin(producer, what & PRODUCER_STATES, frame);
  return (struct producer_entry){producer, PRODUCER_IDLE};
}

/* Only a handler of this thread changes side_count, so a plain read between two fences is enough, which the compiler
   can make part of a comparison. */
static inline bool producer_has_side(struct producer *producer) {
  return *(const uint32_t *)&producer->side_count != 0;
}

/* A hook ends: the producer returns to its previous state. */
static inline __attribute__((always_inline)) void producer_leave(struct producer_entry in) {
  HT_ASSERT(in.was != PRODUCER_WIPED && in.producer->quick.state != host_state.idle);
  if (__builtin_expect(in.was == PRODUCER_RECORDING, 0))
    return;
  producer_set_state(in.producer, in.was);
  if (in.was == PRODUCER_IDLE || in.was == PRODUCER_SLOW)
    producer_note_frame(in.producer, PRODUCER_NO_FRAME);
  if (__builtin_expect(producer_has_side(in.producer), 0))
    producer_flush_side(in.producer);
}

/* Makes room for a call's records and orders the step at address (NULL: a step without an object). False: the event is
   dropped, and counted. *stamp: the step's stamp, 0: it inherits one. The tag is read before the limit: a handler that
   interrupts in between lowers the limit, so that its records go first. */
static inline __attribute__((always_inline)) bool producer_step(struct producer *producer, const void *address,
                                                                uint64_t *stamp) {
  if (__builtin_expect(address && producer->tick == ownership_tick() &&
                           atomic_load_explicit(ownership_tag(address), memory_order_relaxed) == producer->own,
                       1)) {
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(producer->cursor < producer->quick.limit, 1)) {
      *stamp = 0;
      return true;
    }
  }
  return producer_step_slow(producer, address, stamp);
}

/* Writes one event (or BEGIN) at `to`. stamp: of the step; 0: it inherits one. The cursor is moved first: where a
   handler interrupts after that and leaves by longjmp, the slots stay empty, and none is used twice. */
static inline __attribute__((always_inline)) void producer_put(struct producer *producer, uint64_t *to,
                                                               struct producer_event event, uint64_t stamp) {
  bool has_stamp_record = !event.stamped && __builtin_expect(stamp != 0, 0);
  uint64_t *end = to + 2 * (1 + (event.param != NULL) + has_stamp_record);
  HT_ASSERT(producer->quick.state == PRODUCER_RECORDING && producer_fits(producer, end));
  producer->cursor = end;
  os_prefetch_to_write(end + PRODUCER_PREFETCH_WORDS);
  if (event.param) {
    record_put(to, RECORD_PARAM, *event.param);
    to += 2;
  }
  if (has_stamp_record)
    record_put(to, RECORD_STAMP, stamp);
  record_put(end - 2, event.op | (uint64_t)(uintptr_t)event.address << 8, event.stamped ? stamp : event.word);
}

/* Takes the slots at *to if they are still the next ones, by one instruction that a handler can't interrupt. False: a
   handler has taken slots since next was read. */
static inline __attribute__((always_inline)) bool producer_take(struct producer_quick *quick, uint64_t *to,
                                                                bool has_param) {
  return __builtin_expect(os_replace_own(&quick->next, to, *to + (has_param ? 32 : 16)), 1);
}

/* Records a step of the common case in state IDLE, which the thread keeps: a step that needs no stamp, at a place
   without large objects, and room. quick: the calling thread's. The slots are taken after the step was checked, and
   only if no handler has recorded anything since before the check: its stamps would be in front of them, and its tags
   may be what the check saw. (A handler whose events go round the ring to exactly the same slot is not noticed.) A
   handler that interrupts later records behind them. False: nothing was written, and no slot taken. */
static inline __attribute__((always_inline)) bool producer_record_quick(struct producer_quick *quick,
                                                                        struct producer_event event) {
  uint64_t at = producer_next(quick);
  if (__builtin_expect(at >= (uintptr_t)quick->limit || ownership_load(event.address) != quick->common, 0) ||
      !producer_take(quick, &at, event.param != NULL))
    return false;
  uint64_t *to = (uint64_t *)at;
  os_prefetch_to_write(to + 2 + PRODUCER_PREFETCH_WORDS);
  if (event.param) {
    record_put(to, RECORD_PARAM, *event.param);
    to += 2;
  }
  if (event.small && !event.param)
    record_put_words(to, (uint64_t)(uintptr_t)event.address,
                     event.has_quick ? event.quick | event.word : record_quick(event.op, event.word));
  else
    record_put(to, event.op | (uint64_t)(uintptr_t)event.address << 8, event.word);
  return true;
}

/* After producer_record_quick has returned false, in state IDLE: records a step that needs no stamp, as it has no
   object, or is the first at its place. Takes the slots in the same way. False: nothing was written. */
static inline __attribute__((always_inline)) bool producer_record_unstamped(struct producer *producer,
                                                                            struct producer_event event) {
  uint64_t at = producer_next(&producer->quick);
  if (event.address && producer->own == TAG_NONE)
    return false;
  if (at >= (uintptr_t)producer->quick.limit || producer->tick != ownership_tick() ||
      (host_state.flags & ATTACH_STAMP_EVERY))
    return false;
  if (event.address && (atomic_load_explicit(&ownership_entry(event.address)->both, memory_order_relaxed) != 0 ||
                        !ownership_claim(event.address, (uint16_t)producer->own)))
    return false;
  if (!producer_take(&producer->quick, &at, event.param != NULL))
    return false;
  uint64_t *slot = (uint64_t *)at;
  if (event.param) {
    record_put(slot, RECORD_PARAM, *event.param);
    slot += 2;
  }
  record_put(slot, event.op | (uint64_t)(uintptr_t)event.address << 8, event.word);
  return true;
}

/* The common case of steps that need a stamp: the tick has not advanced, and there is room. Precondition: state
   RECORDING. False: nothing was written; call producer_record. A handler that interrupts before the limit is read
   lowers it, so that its records go first, and the event gets a stamp above theirs. */
static inline __attribute__((always_inline)) bool producer_record_stamped(struct producer *producer,
                                                                          struct producer_event event) {
  uint32_t flags = host_state.flags;
  if (!event.address || producer->tick != ownership_tick() || (flags & ATTACH_ACCESSES))
    return false;
  uint16_t before;
  uint64_t stamp;
  bool each = producer->own == TAG_NONE;
  if (each) {
    stamp = ownership_stamp_and_mark(event.address, producer->tag == TAG_NONE ? 0 : producer->tag, &before);
  } else {
    before = atomic_load_explicit(ownership_tag(event.address), memory_order_relaxed);
    bool own = before == producer->own || (before == 0 && ownership_claim(event.address, (uint16_t)producer->own));
    stamp = own ? 0 : ownership_take(event.address, (uint16_t)producer->own);
  }
  atomic_signal_fence(memory_order_seq_cst);
  uint64_t *to = producer->cursor;
  if (to >= producer->quick.limit) {
    producer->tick--; /* the entry may hold the thread's tag now, but the step must have a stamp */
    return false;
  }
  producer_put(producer, to, event, stamp);
  atomic_signal_fence(memory_order_seq_cst);
  if (!(flags & ATTACH_STAMP_EVERY) && producer->tag != TAG_NONE && (each || (stamp && before)))
    stamping_count_slow(producer, ownership_is_sampled(event.address), before);
  return true;
}

/* Writes a control record about the next step, and leaves the producer in state RECORDING. Nothing is written where
   there is no room and the recording does not wait, or where a handler interrupted the writing of a record. */
void producer_note(struct producer_entry in, uint8_t op, const void *address, uint64_t word);

/* Describes the library's parts of each thread's static TLS: their place in the calling thread, and their first
   values. */
void producer_describe_thread(struct redirect_thread_part part[REDIRECT_THREAD_PARTS]);

/* Counts a call that can't be recorded; it is reported in the trace at the next event. */
void producer_drop(struct producer *producer);

/* Orders a step where accesses are recorded: each has a stamp, which makes the forms above slow, but Valgrind executes
   one thread at a time, so that the stamp needs no fences. It is taken before the limit is read: a handler that
   interrupts in between lowers the limit, and its records go first. False: it is another case, or there is no room. */
static inline bool producer_step_simulated(struct producer_entry in, uint64_t *stamp) {
  struct producer *producer = in.producer;
  if (!accesses_are_recorded() || in.was != PRODUCER_IDLE || (host_state.flags & ATTACH_COUNTER) ||
      producer->tick != ownership_tick())
    return false;
  *stamp = os_cycles();
  atomic_signal_fence(memory_order_seq_cst);
  return producer->cursor < producer->quick.limit;
}

/* Records a step: a release or touch before the real call, an acquire after it. columns: NULL where there are none to
   record. Leaves the producer in state RECORDING; the caller sets the next one. False: dropped. */
static inline __attribute__((always_inline)) bool producer_record(struct producer_entry in, struct producer_event event,
                                                                  const struct record_columns *columns) {
  struct producer *producer = in.producer;
  if (__builtin_expect(in.was == PRODUCER_RECORDING, 0)) {
    /* A copy, so that the event itself stays in registers. */
    producer_side_event(
        producer, (struct producer_event){event.op, event.stamped, event.address, event.word, .param = event.param});
    return true;
  }
  if (!producer->cursor)
    producer_hold(producer);
  atomic_signal_fence(memory_order_seq_cst);
  uint64_t stamp;
  if (!producer_step_simulated(in, &stamp) && !producer_step(producer, event.address, &stamp))
    return false;
  if (columns) {
    producer->cursor += 2;
    record_columns_put(producer->cursor - 2, columns);
  }
  producer_put(producer, producer->cursor, event, stamp);
  atomic_signal_fence(memory_order_seq_cst);
  return true;
}

/* Reports an event to the Valgrind tool after producer_record, which returned `recorded`. An event that went into the
   side buffer is reported when it leaves that buffer. */
static inline void producer_report_event(struct producer_entry in, bool recorded, const void *acquired,
                                         uint64_t request_bytes, const void *released) {
  if (accesses_are_recorded() && recorded && in.was != PRODUCER_RECORDING)
    accesses_report_event(in.producer->serial, acquired, request_bytes, released);
}

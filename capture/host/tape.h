/* A tape: one thread's recording state, and the few instructions of the fast path.

   Not its job: which calls exist (hooks.c), meeting the collector (attach.c).
   Invariants: a tape belongs to one live thread; its memory is wiped in a fork child, where state 0 means "not mine";
   cursor and limit are changed only in state RECORDING, so a signal handler that finds that state keeps its records in
   the side buffer; all records of a call are published by one store of head. Nothing here allocates, prints, changes
   errno or may be cancelled. */
#ifndef CAPTURE_HOST_TAPE_H
#define CAPTURE_HOST_TAPE_H

#include "capture/host/order.h"
#include "core/trace/event.h"

enum tape_state {
  TAPE_WIPED = 0, /* a fork child's view of its parent's tape */
  TAPE_IDLE,
  TAPE_CALLING,   /* inside a real function */
  TAPE_NEW,       /* inside a real operator new, which may call malloc for itself, or a new-handler of the program */
  TAPE_DELETE,    /* inside a real operator delete, which may call free for itself */
  TAPE_RECORDING, /* cursor is being moved */
  TAPE_OFF,       /* excluded */
  TAPE_OPTIONAL,  /* IDLE where optional columns are recorded: each call then takes the slow way in */
};

enum {
  TAPE_SIDE_RECORDS = 96,
  TAPE_THROWS = 4, /* operators new inside one another (by new-handlers) that are known to have failed if they throw */
  TAPE_BYTES = 2048,
  /* Records that always fit behind limit: the WRAP record and the ends of resizes that have begun. A call takes at
     most 4. */
  TAPE_RESERVE = 16,
  TAPE_OWNER_UNKNOWN = -1, /* for kill(2) this is no process: the owner is never found dead */
};

/* How far ahead of the cursor a line of the ring is fetched: the collector has read it, so it lies in another core's
   cache. Saves larson 2 of 12 ns of host CPU per event, python3 1.5 of 9 (medians of 7 runs in turns). */
enum { TAPE_PREFETCH_WORDS = 48 };

struct tape {
  uint64_t *cursor, *limit; /* next word to write; a call may begin where cursor < limit */
  struct slot *slot;
  volatile uint32_t state;     /* enum tape_state */
  _Atomic uint32_t side_count; /* records in side */
  uint32_t tick;               /* of the last stamp */
  uint16_t own;                /* tag, or TAG_NONE while it stamps each event */
  uint16_t tag;                /* its own for life; TAG_NONE: more threads than tags */

  uintptr_t frame;   /* of the hook that took the tape from IDLE */
  char *memory;      /* the slot's */
  uint32_t lap;      /* bytes of the slot in use */
  uint32_t lap_tick; /* tick when the lap began */
  uint32_t paused;
  uint32_t open;              /* resizes begun and not ended: their ends may use the reserve */
  _Atomic uint32_t side_lost; /* events that found side full */
  uint64_t dropped, unseen;   /* events not yet told by a DROPPED record: for want of room, in pauses */
  uint64_t passed_bytes;      /* of laps completed: tells how many records lie between two events */
  uint64_t window_bytes;      /* where the present window began, over which it is judged how to stamp */
  uint32_t window_slow;       /* its events that were not of the common case, */
  uint32_t window_sampled;    /* those of them at sampled slots, */
  uint32_t window_foreign;    /* and those that another thread had touched last */
  _Atomic int owner;          /* kernel's thread id */
  uint32_t index;
  uint32_t stack; /* of the call that took the tape from OPTIONAL */
  struct stack_memo *memo;
  uint32_t throws; /* operators new that have begun; from TAPE_THROWS on, they are not told of */
  struct tape_throw {
    uint64_t size_bytes, param;
    uint8_t op;
    uint32_t was;
  } may_throw[TAPE_THROWS];
  uint64_t side[TAPE_SIDE_RECORDS][2];
};
_Static_assert(sizeof(struct tape) <= TAPE_BYTES, "a tape outgrew its place");

/* What a hook carries from before the real call to after it. tape NULL: this call is not recorded. */
struct tape_entry {
  struct tape *tape;
  uint32_t was; /* the state to go back to */
};

extern __thread struct tape *tape_mine __attribute__((tls_model("initial-exec")));

/* The rest of the functions below, for the cases that are not the common one. own_frame: the calling function's
   __builtin_frame_address(0), from which a walk of the stack may begin; NULL: it has none. */
struct tape_entry tape_enter_slow(uint32_t what, const void *caller, uintptr_t frame, const void *own_frame);
bool tape_step_slow(struct tape *tape, const void *address, uint64_t *stamp);
void tape_flush_side(struct tape *tape);

/* Ends the collector's sleep. */
void tape_wake_collector(void);

void tape_side_event(struct tape *tape, uint8_t op, const void *address, uint64_t word, bool stamped,
                     const uint64_t *param);

/* The common case of a hook that begins: the thread has a tape, and is in no other hook. False: tape_enter_slow. */
static inline bool tape_enter_quick(struct tape *tape, uint32_t state) {
  if (__builtin_expect(!tape || tape->state != TAPE_IDLE, 0))
    return false;
  tape->frame = os_stack_pointer();
  tape->state = state;
  return true;
}

/* A hook begins. what: the state during the real call, plus TAPE_RELEASES where the call releases and acquires nothing,
   TAPE_TOUCHES where it does neither; caller: its return address; frame: its own. */
enum { TAPE_RELEASES = 16, TAPE_TOUCHES = 32, TAPE_STATES = 15 };
static inline __attribute__((always_inline)) struct tape_entry tape_enter(uint32_t what, const void *caller,
                                                                          uintptr_t frame) {
  struct tape *tape = tape_mine;
  if (__builtin_expect(!tape || tape->state != TAPE_IDLE, 0))
    return tape_enter_slow(what, caller, frame, NULL);
  tape->frame = frame;
  tape->state = what & TAPE_STATES;
  return (struct tape_entry){tape, TAPE_IDLE};
}

/* ... and ends. */
static inline __attribute__((always_inline)) void tape_leave(struct tape_entry in) {
  in.tape->state = in.was;
  atomic_signal_fence(memory_order_seq_cst);
  if (__builtin_expect(
          atomic_load_explicit(&in.tape->side_count, memory_order_relaxed) != 0 && in.was != TAPE_RECORDING, 0))
    tape_flush_side(in.tape);
}

/* Makes room for a call's records and orders the step at address (NULL: a step without an object). False: the event is
   dropped (and counted). *stamp: 0 = inherits. The tag is looked at before the limit: a handler that comes in between
   lowers the limit, and its records go first. */
static inline __attribute__((always_inline)) bool tape_step(struct tape *tape, const void *address, uint64_t *stamp) {
  if (__builtin_expect(address && tape->tick == order_tick() &&
                           atomic_load_explicit(order_tag(address), memory_order_relaxed) == tape->own,
                       1)) {
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(*(uint64_t *volatile *)&tape->cursor < *(uint64_t *volatile *)&tape->limit, 1)) {
      *stamp = 0;
      return true;
    }
  }
  return tape_step_slow(tape, address, stamp);
}

/* Writes one event (or BEGIN) to the cursor and publishes it. stamped: word is the stamp (0 = none) and stamp is not
 * used. */
static inline __attribute__((always_inline)) void tape_put(struct tape *tape, uint64_t *to, uint8_t op,
                                                           const void *address, uint64_t word, uint64_t stamp,
                                                           const uint64_t *param) {
  if (param) {
    to[0] = RECORD_PARAM;
    to[1] = *param;
    to += 2;
  }
  if (__builtin_expect(stamp != 0, 0)) {
    to[0] = RECORD_STAMP;
    to[1] = stamp;
    to += 2;
  }
  to[0] = op | (uint64_t)(uintptr_t)address << 8;
  to[1] = word;
  to += 2;
  os_prefetch_to_write(to + TAPE_PREFETCH_WORDS);
  tape->cursor = to;
  atomic_store_explicit(&tape->slot->head, (uint32_t)(uintptr_t)to, memory_order_release);
}

/* The common case of tape_record, for a hook that began by tape_enter_quick: a step that needs no stamp, and room.
   False: nothing is done; call tape_record. */
static inline __attribute__((always_inline)) bool tape_record_quick(struct tape *tape, uint8_t op, const void *address,
                                                                    uint64_t word, const uint64_t *param) {
  tape->state = TAPE_RECORDING;
  atomic_signal_fence(memory_order_seq_cst);
  if (__builtin_expect(
          tape->tick != order_tick() || atomic_load_explicit(order_tag(address), memory_order_relaxed) != tape->own, 0))
    return false;
  atomic_signal_fence(memory_order_seq_cst);
  uint64_t *to = *(uint64_t *volatile *)&tape->cursor;
  if (__builtin_expect(to >= *(uint64_t *volatile *)&tape->limit, 0))
    return false;
  tape_put(tape, to, op, address, word, 0, param);
  atomic_signal_fence(memory_order_seq_cst);
  return true;
}

/* Brackets the call of an operator new that may be left by an exception: from in between, tape_thrown gives what has to
   be recorded then (false: nothing). One of an enclosing call that went away by longjmp is forgotten with the next call
   that is not inside another. */
static inline void tape_may_throw(struct tape_entry in, uint8_t op, uint64_t size_bytes, uint64_t param) {
  struct tape *tape = in.tape;
  if (in.was == TAPE_IDLE || in.was == TAPE_OPTIONAL)
    tape->throws = 0;
  if (tape->throws < TAPE_THROWS)
    tape->may_throw[tape->throws] = (struct tape_throw){size_bytes, param, op, in.was};
  tape->throws++;
}
static inline void tape_threw_not(struct tape_entry in) {
  in.tape->throws -= in.tape->throws > 0;
}
static inline bool tape_thrown(struct tape_throw *thrown) {
  struct tape *tape = tape_mine;
  if (!tape || tape->throws == 0 || --tape->throws >= TAPE_THROWS)
    return false;
  *thrown = tape->may_throw[tape->throws];
  return true;
}

/* Writes a control record about the next step, and leaves the tape in state RECORDING. Nothing is written where there
   is no room at once and the recording does not wait, or where a handler interrupted the writing of a record. */
void tape_note(struct tape_entry in, uint8_t op, const void *address, uint64_t word);

/* The thread's tape, even if it is paused or excluded; NULL if it can have none. */
struct tape *tape_of_thread(void);

/* Puts one record that belongs to no step; in state RECORDING. It never waits where events don't: false, then, and when
   the recording has ended. */
bool tape_put_control(struct tape *tape, uint64_t head, uint64_t word);

/* Records a step: a release or touch before the real call, an acquire after it. word: the size, or with stamped set,
   unused: the record's word 1 carries the stamp. columns: NULL where there are none to record. Leaves the tape in state
   RECORDING; the caller sets the next one. False: dropped. Inlined by force, as word and param are constants in most
   hooks, and gcc would rather share one copy.
 */
static inline __attribute__((always_inline)) bool tape_record(struct tape_entry in, uint8_t op, const void *address,
                                                              uint64_t word, bool stamped, const uint64_t *param,
                                                              const struct record_columns *columns) {
  struct tape *tape = in.tape;
  if (__builtin_expect(in.was == TAPE_RECORDING, 0)) {
    tape_side_event(tape, op, address, word, stamped, param);
    return true;
  }
  tape->state = TAPE_RECORDING;
  atomic_signal_fence(memory_order_seq_cst);
  uint64_t stamp;
  if (!tape_step(tape, address, &stamp))
    return false;
  if (columns) {
    record_columns_put(tape->cursor, columns);
    tape->cursor += 2;
  }
  if (stamped)
    tape_put(tape, tape->cursor, op, address, stamp, 0, param);
  else
    tape_put(tape, tape->cursor, op, address, word, stamp, param);
  atomic_signal_fence(memory_order_seq_cst);
  return true;
}

#endif

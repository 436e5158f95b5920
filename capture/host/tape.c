#include "capture/host/tape.h"

#include "capture/host/operators.h"
#include "capture/host/real.h"
#include "capture/host/stacks/stack.h"
#include "capture/wire/heaptape.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct tape *tape_mine __attribute__((tls_model("initial-exec")));

/* Of the thread, beside its tape: it may have none yet, or may get none. */
static __thread struct {
  bool being_born;
  uint32_t excluded;
  struct tape *parked; /* its tape, while it met a pause and tape_mine is NULL; so the fast path need not ask */
  uint32_t unborn;     /* events lost because there is no tape to be had */
} mine __attribute__((tls_model("initial-exec")));

enum {
  RECORD_BYTES = 16,
  LAP_FIRST_BYTES = 16 << 10, /* what an idle thread costs */
  LAP_BUSY_TICKS = 8,         /* a lap done in less is too short */
  RESERVE_BYTES = TAPE_RESERVE * RECORD_BYTES,
  WAIT_NS = 20000000,
};

void tape_wake_collector(void) {
  struct control *control = order.control;
  if (process_sandboxed()) /* it comes by itself, if later */
    return;
  if (atomic_load_explicit(&control->sleeping, memory_order_relaxed) && atomic_exchange(&control->sleeping, 0)) {
    atomic_fetch_add(&control->wake, 1);
    os_futex_wake((const uint32_t *)&control->wake, 1, true);
  }
}

static uint32_t position(const struct tape *tape) {
  return (uint32_t)((char *)tape->cursor - tape->memory);
}

static void publish(struct tape *tape) {
  atomic_store_explicit(&tape->slot->head, (uint32_t)(uintptr_t)tape->cursor, memory_order_release);
}

static void put_control(struct tape *tape, uint64_t op, uint64_t word) {
  tape->cursor[0] = op;
  tape->cursor[1] = word;
  tape->cursor += 2;
  publish(tape);
}

static struct process *stop_if_told(struct tape *tape) {
  struct process *process = process_get();
  if (process && atomic_load_explicit(&process->region[0].memory->stop, memory_order_relaxed))
    process_stop(process, NULL);
  else if (process && process_collector_died())
    process_stop(process, "the collector has ended; recording stops, the program goes on");
  if (!process_is_off())
    return process;
  tape->limit = NULL;
  if (tape == tape_mine) /* from the next call on, the thread is told from others without a look at the ring */
    tape_mine = NULL;
  return NULL;
}

/* Calls that a pause hides: a plain store, as the slot has one writer. */
static inline void count_unseen(struct tape *tape) {
  tape->unseen++;
  uint64_t all = atomic_load_explicit(&tape->slot->unseen, memory_order_relaxed) + 1;
  atomic_store_explicit(&tape->slot->unseen, all, memory_order_relaxed);
}

/* The thread has met a pause, which the advanced tick makes it look for. A resize that has begun must end first. */
static bool park_if_paused(struct tape *tape) {
  if (!process_paused() || tape->open || tape != tape_mine)
    return false;
  if (!(process_paused() & PAUSED_FROM_START))
    count_unseen(tape);
  mine.parked = tape;
  tape_mine = NULL;
  return true;
}

static void begin_lap(struct tape *tape) {
  tape->lap_tick = order_tick();
  tape->passed_bytes += position(tape);
}

/* Moves limit on, past the lap's end if need be; false if the ring is full. to_the_brim: the reserve may be used. */
static bool find_room(struct tape *tape, bool to_the_brim) {
  for (;;) {
    uint32_t at = position(tape);
    uint32_t tail = atomic_load_explicit(&tape->slot->tail, memory_order_acquire);
    bool ahead = tail > at; /* the collector is still in the lap before */
    uint32_t end = ahead ? tail - RECORD_BYTES : tape->lap - RECORD_BYTES;
    uint32_t room = end > RESERVE_BYTES ? end - RESERVE_BYTES : 0;
    uint32_t pending = ahead ? tape->lap - tail + at : at - tail;
    if (pending >= tape->lap / 4)
      tape_wake_collector();
    if (at < room) {
      /* Coming here again after half a lap wakes the collector in time. */
      uint32_t milestone = at + tape->lap / 2;
      tape->limit = (uint64_t *)(tape->memory + (milestone < room ? milestone : room));
      return true;
    }
    if (!ahead) {
      bool busy = order_tick() - tape->lap_tick < LAP_BUSY_TICKS;
      bool can_turn = tail > 2 * RESERVE_BYTES;
      if (tape->lap < SLOT_BYTES && (busy || !can_turn)) {
        tape->lap *= 2;
        tape->lap_tick = order_tick();
        continue;
      }
      if (can_turn) {
        tape->cursor[0] = RECORD_WRAP;
        tape->cursor[1] = 0;
        begin_lap(tape);
        tape->cursor = (uint64_t *)tape->memory;
        publish(tape);
        continue;
      }
    }
    tape->limit = NULL;
    return to_the_brim && at + 5 * RECORD_BYTES <= end;
  }
}

/* Signals are blocked meanwhile, as a handler's events would have nowhere to go but the small side buffer; between two
 * waits those that came are delivered. */
static void wait_for_collector(struct tape *tape) {
  enum { SPINS = 4096 };
  struct slot *slot = tape->slot;
  uint64_t mask;
  uint32_t seen = atomic_load(&slot->drained), tail = atomic_load(&slot->tail);
  if (process_sandboxed()) {
    for (int i = 0; i < SPINS && tail == atomic_load(&slot->tail); i++)
      os_spin_pause();
    return;
  }
  process_block_signals(&mask);
  atomic_store(&slot->waiting, 1);
  if (tail == atomic_load(&slot->tail)) {
    tape_wake_collector();
    os_futex_wait((const uint32_t *)&slot->drained, seen, WAIT_NS, true);
  }
  process_restore_signals(&mask);
}

static void count_dropped(struct tape *tape, uint64_t events) {
  tape->dropped += events;
  atomic_fetch_add_explicit(&tape->slot->dropped, events, memory_order_relaxed);
}

static void tell_missing(struct tape *tape) {
  if (tape->dropped)
    put_control(tape, RECORD_DROPPED | (uint64_t)MISSING_RING_FULL << 8, tape->dropped);
  if (tape->unseen)
    put_control(tape, RECORD_DROPPED | (uint64_t)MISSING_PAUSED << 8, tape->unseen);
  tape->dropped = tape->unseen = 0;
}

/* Room for one call, waiting for it or not as the recording was told. False: none, or the recording has ended. */
static bool reserve(struct tape *tape) {
  bool drop = order.flags & ATTACH_DROP;
  while (!find_room(tape, drop && tape->open)) {
    if (!stop_if_told(tape))
      return false;
    if (drop) {
      count_dropped(tape, 1);
      return false;
    }
    wait_for_collector(tape);
  }
  tell_missing(tape);
  return stop_if_told(tape) != NULL;
}

static void begin_window(struct tape *tape) {
  tape->window_bytes = tape->passed_bytes + position(tape);
  tape->window_slow = tape->window_sampled = tape->window_foreign = 0;
}

/* Were so many events of the window at least half of all? An event is one or two records, hence five halves. */
static bool is_half(const struct tape *tape, uint64_t events) {
  return tape->passed_bytes + position(tape) - tape->window_bytes <= events * RECORD_BYTES * 5 / 2;
}

/* Where at least half of all events find a slot that another thread touched last, stamping each event is cheaper than
   exchanging tags; where it is less than a third, it no longer is. Both is judged by the sampled slots, which tell of
   that in either way of stamping. (Before there were any, a thread that stamped each event had to try tags from time to
   time, for longer and longer; these trials cost xmalloc a tenth.) Where a program's objects lie in too few slots for a
   sample, all slow events are counted instead, and tags are tried now and then. */
static void judge(struct tape *tape, bool sampled, uint16_t before) {
  enum { ENOUGH = 64, TOO_LONG = 16384 };
  bool each = tape->own == TAG_NONE;
  tape->window_slow++;
  if (sampled) {
    tape->window_sampled++;
    tape->window_foreign += before != 0 && (before & ~TAG_SHARED) != tape->tag;
  }
  if (each && tape->window_sampled >= ENOUGH) {
    if (tape->window_foreign < ENOUGH / 3)
      tape->own = tape->tag;
  } else if (!each && tape->window_foreign >= ENOUGH / 2) {
    if (is_half(tape, ENOUGH / 2 * TAG_SAMPLED))
      tape->own = TAG_NONE;
  } else if (tape->window_slow >= (each ? 16 * TOO_LONG : TOO_LONG)) {
    if (each)
      tape->own = tape->tag;
    else if (tape->window_sampled < ENOUGH && is_half(tape, TOO_LONG))
      tape->own = TAG_NONE;
  } else {
    return;
  }
  begin_window(tape);
}

static uint64_t stamp_of(struct tape *tape, const void *address) {
  bool every = order.flags & ATTACH_STAMP_EVERY;
  uint32_t tick = order_tick();
  bool fresh = tick == tape->tick;
  if (!address) {
    if (fresh && !every)
      return 0;
    tape->tick = tick;
    return order_stamp();
  }
  if (tape->own == TAG_NONE) {
    tape->tick = tick;
    uint16_t before;
    uint64_t stamp = order_stamp_and_mark(address, tape->tag == TAG_NONE ? 0 : tape->tag, &before);
    if (!every && tape->tag != TAG_NONE)
      judge(tape, order_is_sampled(address), before);
    return stamp;
  }
  uint16_t tag = atomic_load_explicit(order_tag(address), memory_order_relaxed);
  if (tag == tape->own && fresh)
    return 0;
  tape->tick = tick;
  uint64_t stamp = order_take(address, tape->own);
  if (tag != tape->own && tag != 0)
    judge(tape, order_is_sampled(address), tag);
  return stamp;
}

/* Moves the side buffer's records to the ring; in state RECORDING. Signals are blocked, where that can be done, as a
   handler would add to it; one that comes all the same has its records moved in another round. */
static void move_side(struct tape *tape) {
  uint64_t mask;
  process_block_signals(&mask);
  uint32_t count = atomic_load(&tape->side_count), moved = 0;
  uint64_t lost = 0;
  do {
    for (; moved < count; moved++) {
      if (tape->cursor >= tape->limit && !reserve(tape))
        break;
      tape->cursor[0] = tape->side[moved][0];
      tape->cursor[1] = tape->side[moved][1];
      tape->cursor += 2;
    }
    publish(tape);
    for (; moved < count; moved++) {
      uint8_t op = (uint8_t)tape->side[moved][0];
      lost += (op & CALL_ID_MASK) < RECORD_TEXT;
    }
  } while (!atomic_compare_exchange_strong(&tape->side_count, &count, 0));
  lost += atomic_exchange(&tape->side_lost, 0);
  if (lost && !process_is_off())
    count_dropped(tape, lost);
  process_restore_signals(&mask);
}

void tape_flush_side(struct tape *tape) {
  int error = errno;
  uint32_t was = tape->state;
  tape->state = TAPE_RECORDING;
  atomic_signal_fence(memory_order_seq_cst);
  if (tape->slot)
    move_side(tape);
  tape->state = was;
  errno = error;
}

bool tape_step_slow(struct tape *tape, const void *address, uint64_t *stamp) {
  if (!tape->slot || park_if_paused(tape))
    return false;
  int error = errno;
  bool room = tape->cursor < tape->limit || reserve(tape);
  if (room) {
    *stamp = stamp_of(tape, address);
    while (room && atomic_load(&tape->side_count)) {
      /* A handler came in between: its records first. Ours is then newer than theirs, and its own stamp must be too. */
      move_side(tape);
      room = tape->cursor < tape->limit || reserve(tape);
      if (*stamp)
        *stamp = order_stamp();
    }
  }
  errno = error;
  return room;
}

/* A handler that comes in between lowers the limit, so the step itself looks again. */
void tape_note(struct tape_entry in, uint8_t op, const void *address, uint64_t word) {
  struct tape *tape = in.tape;
  if (in.was == TAPE_RECORDING || !tape->slot)
    return;
  int error = errno;
  tape->state = TAPE_RECORDING;
  atomic_signal_fence(memory_order_seq_cst);
  bool wait = !(order.flags & ATTACH_DROP);
  bool room = tape->cursor < tape->limit || (wait && reserve(tape));
  while (room && atomic_load(&tape->side_count)) {
    move_side(tape);
    room = tape->cursor < tape->limit || (wait && reserve(tape));
  }
  if (room) {
    tape->cursor[0] = op | (uint64_t)(uintptr_t)address << 8;
    tape->cursor[1] = word;
    tape->cursor += 2;
    publish(tape);
  }
  errno = error;
}

void tape_side_event(struct tape *tape, uint8_t op, const void *address, uint64_t word, bool stamped,
                     const uint64_t *param) {
  uint16_t before;
  uint64_t stamp = order_stamp_and_mark(address, 0, &before);
  uint32_t need = 1 + (param != NULL) + !stamped;
  uint32_t at = atomic_load(&tape->side_count);
  do {
    if (at + need > TAPE_SIDE_RECORDS) {
      atomic_fetch_add(&tape->side_lost, 1);
      return;
    }
  } while (!atomic_compare_exchange_weak(&tape->side_count, &at, at + need));
  uint64_t(*to)[2] = &tape->side[at];
  if (param) {
    (*to)[0] = RECORD_PARAM;
    (*to++)[1] = *param;
  }
  if (!stamped) {
    (*to)[0] = RECORD_STAMP;
    (*to++)[1] = stamp;
  }
  (*to)[0] = op | (uint64_t)(uintptr_t)address << 8;
  (*to)[1] = stamped ? stamp : word;
  tape->limit = NULL; /* makes the interrupted call look */
}

static bool owner_is_dead(const struct process *process, struct tape *tape, int me) {
  if (process_sandboxed())
    return false;
  int owner = atomic_load_explicit(&tape->owner, memory_order_acquire);
  return owner == me || (syscall(SYS_tgkill, process->pid, owner, 0) != 0 && errno == ESRCH);
}

/* The tape of a dead thread among the next few, or among all. */
static struct tape *find_dead(struct process *process, uint32_t looks, int me) {
  for (uint32_t i = 0; i < looks && i < process->tapes; i++) {
    process->probe = (process->probe + 1) % process->tapes;
    struct tape *tape = process->tape[process->probe];
    if (owner_is_dead(process, tape, me))
      return tape;
  }
  return NULL;
}

static struct tape *new_tape(struct process *process) {
  enum { POOL_BYTES = 64 << 10 };
  if (process->tapes == TAPES_MAX || (process->slots_left == 0 && !process_add_region(process)))
    return NULL;
  if (process->pool_bytes < TAPE_BYTES) {
    if (process_sandboxed())
      return NULL;
    process->pool = process_map_wiped(POOL_BYTES);
    process->pool_bytes = process->pool ? POOL_BYTES : 0;
    if (!process->pool)
      return NULL;
  }
  struct tape *tape = (struct tape *)process->pool;
  process->pool += TAPE_BYTES;
  process->pool_bytes -= TAPE_BYTES;

  uint32_t last = process->regions - 1, slots = process->region[last].slots, at = slots - process->slots_left--;
  struct region *region = process->region[last].memory;
  tape->slot = &region->slots[at];
  tape->memory = (char *)region + region_header_bytes(slots) + (uint64_t)at * SLOT_BYTES;
  tape->cursor = tape->limit = (uint64_t *)tape->memory;
  tape->lap = LAP_FIRST_BYTES;
  tape->index = process->tapes;
  tape->own = tape->tag = tape->index < TAG_LAST ? (uint16_t)(tape->index + 1) : TAG_NONE;
  tape->slot->base = (uint32_t)(uintptr_t)tape->memory;
  publish(tape);
  atomic_store_explicit(&region->used, at + 1, memory_order_release);
  process->tape[process->tapes++] = tape;
  return tape;
}

static void reset(struct tape *tape) {
  tape->open = 0;
  tape->tick = order_tick() - 1; /* so that the first step has a stamp */
  /* A thread that takes over a tape goes on in its way of stamping: threads that follow one another do alike. */
  if (order.flags & ATTACH_STAMP_EVERY)
    tape->own = TAG_NONE;
  begin_lap(tape);
  begin_window(tape);
}

static struct tape *take_tape(struct process *process) {
  int me = process_sandboxed() ? TAPE_OWNER_UNKNOWN : os_thread_id();
  bool reused = true;
  process_lock(process);
  struct tape *tape = find_dead(process, 4, me);
  if (!tape && process->slots_left == 0)
    tape = find_dead(process, process->tapes, me);
  if (!tape) {
    reused = false;
    tape = new_tape(process);
  }
  if (tape)
    atomic_store_explicit(&tape->owner, me, memory_order_release);
  if (tape)
    atomic_store_explicit(&tape->slot->owner, (uint32_t)me, memory_order_relaxed);
  process_unlock(process);
  if (!tape) {
    atomic_fetch_add(&process->region[0].memory->orphan, 1);
    return NULL;
  }
  reset(tape);
  if (reused) {
    stack_memo_reset(tape->memo);
    tape->state = TAPE_RECORDING;
    if (atomic_load(&tape->side_count))
      move_side(tape);
    while (!find_room(tape, true) && stop_if_told(tape))
      wait_for_collector(tape);
    tell_missing(tape);
    put_control(tape, RECORD_THREAD, 0);
  }
  tape->state = order.idle;
  return tape;
}

/* The thread's first event, or a fork child's. */
static struct tape *birth(void) {
  enum { UNBORN_RETRY = 4096 };
  if (mine.being_born || mine.excluded || process_is_off())
    return NULL;
  if (mine.unborn && mine.unborn++ % UNBORN_RETRY) {
    struct process *process = process_get();
    if (process)
      atomic_fetch_add(&process->region[0].memory->orphan, 1);
    return NULL;
  }
  int error = errno;
  uint64_t mask;
  mine.being_born = true;
  process_block_signals(&mask);
  struct process *process = process_get();
  tape_mine = process ? take_tape(process) : NULL;
  mine.unborn = process && !tape_mine;
  mine.being_born = false;
  process_restore_signals(&mask);
  errno = error;
  return tape_mine;
}

/* Was the call that left the tape busy abandoned, by a handler that went away with longjmp? Then a later call stands at
   about its depth or above; a handler stands below it by more than the frame that the kernel makes, or on a stack of
   its own. A new-handler, and what an operator calls to throw, stand below it by any distance. */
static bool is_abandoned(const struct tape *tape, uintptr_t frame) {
  enum { SIGNAL_FRAME_BYTES = 512 }; /* at least; the saved registers alone are more */
  if (frame + (tape->state == TAPE_NEW || tape->state == TAPE_DELETE ? 1 : SIGNAL_FRAME_BYTES) <= tape->frame)
    return false;
  if (process_sandboxed()) /* rather a record in the side buffer than a call that may kill */
    return false;
  int error = errno;
  stack_t stack;
  bool apart = sigaltstack(NULL, &stack) != 0 || (stack.ss_flags & SS_ONSTACK);
  errno = error;
  return !apart;
}

/* The thread's tape again, as the pause is over that it was parked for. NULL where it has none: while mine.parked is
   set the call is not to be recorded. */
static struct tape *unpark(void) {
  struct tape *tape = mine.parked;
  if (!tape)
    return NULL;
  if (tape->state == TAPE_WIPED) { /* a fork child */
    mine.parked = NULL;
    return NULL;
  }
  if (mine.excluded)
    return NULL;
  mine.parked = NULL;
  tape_mine = tape;
  tape->tick = order_tick() - 1;
  tape->limit = NULL; /* the next step finds room anew, and tells first what was not seen */
  return tape;
}

/* Is the call a part of the one in which the tape is? An operator new may take memory from malloc, but frees none: a
   free from its code is an exception's end. And the other way round. */
static bool is_part(struct tape *tape, uint32_t what, const void *caller) {
  uint32_t state = tape->state;
  if (state == TAPE_NEW || state == TAPE_DELETE) {
    bool releases = what & TAPE_RELEASES;
    return operators_are_at(caller, releases == (state == TAPE_DELETE));
  }
  if (!real_is_allocator_code(caller))
    return false;
  atomic_fetch_add_explicit(&tape->slot->nested, 1, memory_order_relaxed);
  return true;
}

static __attribute__((noinline)) struct tape_entry enter_rest(uint32_t what, const void *caller, uintptr_t frame,
                                                              const void *own_frame) {
  struct tape *tape = tape_mine ? tape_mine : unpark();
  if (!tape && !mine.parked)
    tape = birth();
  else if (tape && tape->state == TAPE_WIPED)
    tape = birth();
  else if (!tape)
    return (struct tape_entry){NULL, 0};
  else if (tape->state == TAPE_OFF)
    tape = NULL;
  if (!tape)
    return (struct tape_entry){NULL, 0};
  if (tape->state != order.idle) {
    if (is_part(tape, what, caller))
      return (struct tape_entry){NULL, 0};
    if (!is_abandoned(tape, frame)) {
      struct tape_entry in = {tape, tape->state};
      if (in.was == TAPE_CALLING)
        tape->state = what & TAPE_STATES;
      return in;
    }
  }
  tape->frame = frame;
  tape->state = what & TAPE_STATES;
  if (order.idle == TAPE_OPTIONAL && stack_settings.area) {
    atomic_signal_fence(memory_order_seq_cst);
    tape->stack = what & (TAPE_RELEASES | TAPE_TOUCHES) ? 0 : stack_take(&tape->memo, caller, own_frame);
  }
  return (struct tape_entry){tape, order.idle};
}

/* First what a program pays that is not recorded at present, so that it is little. */
struct tape_entry tape_enter_slow(uint32_t what, const void *caller, uintptr_t frame, const void *own_frame) {
  struct tape *parked = mine.parked;
  if (!tape_mine) {
    if (parked && parked->state != TAPE_WIPED && process_paused()) {
      if (!(process_paused() & PAUSED_FROM_START) && !mine.excluded && !operators_are_at(caller, true))
        count_unseen(parked);
      return (struct tape_entry){NULL, 0};
    }
    if (process_is_off())
      return (struct tape_entry){NULL, 0};
  }
  return enter_rest(what, caller, frame, own_frame);
}

struct tape *tape_of_thread(void) {
  struct tape *tape = tape_mine ? tape_mine : mine.parked;
  if (!tape || tape->state == TAPE_WIPED)
    tape = birth();
  return process_is_off() ? NULL : tape;
}

bool tape_put_control(struct tape *tape, uint64_t head, uint64_t word) {
  while (tape->cursor >= tape->limit && !find_room(tape, false)) {
    if (!stop_if_told(tape) || order.flags & ATTACH_DROP)
      return false;
    wait_for_collector(tape);
  }
  put_control(tape, head, word);
  return true;
}

void heaptape_lib_exclude(void) {
  mine.excluded++;
  if (tape_mine && tape_mine->state == order.idle)
    tape_mine->state = TAPE_OFF;
}

void heaptape_lib_include(void) {
  if (mine.excluded && --mine.excluded == 0 && tape_mine && tape_mine->state == TAPE_OFF)
    tape_mine->state = order.idle;
}

/* SPDX-License-Identifier: MIT */
#include "tests/model/order_model.h"
#include "tests/model/state_set.h"

#include <string.h>

enum { THREADS = ORDER_MAX_THREADS, ADDRESSES = ORDER_MAX_ADDRESSES };
enum { DEAD = THREADS, NOBODY = THREADS + 1 };         /* as the thread of an address's last event */
enum { TAG_NONE = THREADS, TAG_SHARED = THREADS + 1 }; /* beside the threads' own numbers */
enum { AVAILABLE, BUSY, HELD };                        /* an address: the allocator's, in a call, the program's */
enum { ACQUIRE, FREE, MOVE, TOUCH };                   /* the step being logged; MOVE is the release half of realloc */

/* What the thread does next. A step that no other thread can see is merged into the one before it: logging, the real
   free after a logged release and handing the address to the program only ever enable other steps. */
enum {
  IDLE,
  CHECK,
  EXCHANGE,
  STAMP,
  RECHECK,
  EACH_STAMP,
  EACH_LOOK,
  EACH_MARK,
  EACH_LATE_STAMP,
  LATE_EXCHANGE,
  MOVING,
  MOVE_DROP_OLD,
  MOVE_TAKE_NEW,
  CLAIM,
  LOOKED,  /* the record is to be written; the step inherits its stamp */
  STAMPED, /* ... and the step has one */
};

/* Stamps are ranks; 0 = none yet. A step that is not held takes its slot last, and only if no handler has recorded
   anything; one that is held finds a handler's records in the side buffer. */
struct thread {
  uint8_t next, step, address, old_address, stamp;
  uint8_t held;
  uint8_t later; /* stamp of a handler's records in the ring, or in the side buffer; 0: none has come */
};

struct address {
  uint8_t status;
  uint8_t by, stamp;                /* thread and stamp of the last acquire or release */
  uint8_t touch_stamp[THREADS + 1]; /* since then, the greatest of each thread's touches; DEAD: of all dead ones */
};

struct state {
  struct thread thread[THREADS];
  struct address address[ADDRESSES];
  uint8_t tag[ADDRESSES];
};

struct exploration {
  const struct order_config *config;
  struct state_set set;
  uint32_t current;
  bool illegal;
  uint32_t illegal_from;
};

/* Renumbers the stamps densely from 1, keeping their order. */
static void rank_stamps(const struct order_config *config, struct state *state) {
  uint8_t *all[2 * THREADS + ADDRESSES * (THREADS + 2)];
  bool used[256] = {false};
  unsigned count = 0;
  for (unsigned t = 0; t < config->threads; t++) {
    all[count++] = &state->thread[t].stamp;
    all[count++] = &state->thread[t].later;
  }
  for (unsigned a = 0; a < config->addresses; a++) {
    all[count++] = &state->address[a].stamp;
    for (unsigned t = 0; t <= THREADS; t++)
      all[count++] = &state->address[a].touch_stamp[t];
  }
  for (unsigned i = 0; i < count; i++)
    used[*all[i]] = true;
  uint8_t rank[256] = {0};
  for (unsigned value = 1, next = 1; value < 256; value++)
    if (used[value])
      rank[value] = (uint8_t)next++;
  for (unsigned i = 0; i < count; i++)
    *all[i] = rank[*all[i]];
}

/* Will the thread's stamp never be read again before it gets a new one? */
static bool stamp_is_dead(const struct thread *thread) {
  return thread->next == EXCHANGE || thread->next == STAMP || thread->next == EACH_STAMP ||
         thread->next == EACH_LATE_STAMP;
}

/* Threads' stamps only grow, so a stamp that all other threads have passed can make nothing illegal any more. */
static bool all_have_passed(const struct order_config *config, const struct state *state, unsigned by, uint8_t stamp) {
  for (unsigned t = 0; t < config->threads; t++)
    if (t != by && !stamp_is_dead(&state->thread[t]) && state->thread[t].stamp <= stamp)
      return false;
  return true;
}

/* Forgets values that have no influence, so that states that differ only in these become one. */
static void forget(const struct order_config *config, struct state *state) {
  for (unsigned a = 0; a < config->addresses; a++) {
    struct address *address = &state->address[a];
    if (address->by != NOBODY && all_have_passed(config, state, address->by, address->stamp)) {
      address->by = NOBODY;
      address->stamp = 0;
    }
    for (unsigned t = 0; t <= THREADS; t++)
      if (all_have_passed(config, state, t, address->touch_stamp[t]))
        address->touch_stamp[t] = 0;
  }
  for (unsigned t = 0; t < config->threads; t++)
    if (stamp_is_dead(&state->thread[t]))
      state->thread[t].stamp = 0;
}

static void put(state_key *key, unsigned bits, unsigned value) {
  *key = *key << bits | value;
}

static unsigned take(state_key *key, unsigned bits) {
  unsigned value = (unsigned)(*key & ((1u << bits) - 1));
  *key >>= bits;
  return value;
}

/* The state with its threads renamed by order[]: order[i] becomes thread i. */
static state_key encode(const struct order_config *config, const struct state *state, const uint8_t *order) {
  uint8_t name[NOBODY + 1] = {0, 1, 2, DEAD, NOBODY};
  for (unsigned i = 0; i < config->threads; i++)
    name[order[i]] = (uint8_t)i;
  state_key key = 0;
  for (unsigned i = 0; i < config->threads; i++) {
    const struct thread *thread = &state->thread[order[i]];
    put(&key, 4, thread->next);
    put(&key, 2, thread->step);
    put(&key, 2, thread->address);
    put(&key, 2, thread->old_address);
    put(&key, 4, thread->stamp);
    if (config->handlers) {
      put(&key, 1, thread->held);
      put(&key, 4, thread->later);
    }
  }
  for (unsigned a = 0; a < config->addresses; a++) {
    const struct address *address = &state->address[a];
    put(&key, 2, address->status);
    put(&key, 3, name[address->by]);
    put(&key, 4, address->stamp);
    if (config->touches) {
      for (unsigned i = 0; i < config->threads; i++)
        put(&key, 4, address->touch_stamp[order[i]]);
      put(&key, 4, address->touch_stamp[DEAD]);
    }
  }
  for (unsigned s = 0; s < config->entries; s++)
    put(&key, 3, name[state->tag[s]]);
  return key;
}

static struct state decode(const struct order_config *config, state_key key) {
  struct state state = {0};
  for (unsigned s = config->entries; s-- > 0;)
    state.tag[s] = (uint8_t)take(&key, 3);
  for (unsigned a = config->addresses; a-- > 0;) {
    struct address *address = &state.address[a];
    if (config->touches) {
      address->touch_stamp[DEAD] = (uint8_t)take(&key, 4);
      for (unsigned i = config->threads; i-- > 0;)
        address->touch_stamp[i] = (uint8_t)take(&key, 4);
    }
    address->stamp = (uint8_t)take(&key, 4);
    address->by = (uint8_t)take(&key, 3);
    address->status = (uint8_t)take(&key, 2);
  }
  for (unsigned i = config->threads; i-- > 0;) {
    struct thread *thread = &state.thread[i];
    if (config->handlers) {
      thread->later = (uint8_t)take(&key, 4);
      thread->held = (uint8_t)take(&key, 1);
    }
    thread->stamp = (uint8_t)take(&key, 4);
    thread->old_address = (uint8_t)take(&key, 2);
    thread->address = (uint8_t)take(&key, 2);
    thread->step = (uint8_t)take(&key, 2);
    thread->next = (uint8_t)take(&key, 4);
  }
  return state;
}

/* Threads differ only in their names, so one renaming stands for all. */
static state_key canonical(const struct order_config *config, const struct state *state) {
  static const uint8_t orders[][THREADS] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  unsigned renamings = config->threads == 3 ? 6 : config->threads;
  state_key least = encode(config, state, orders[0]);
  for (unsigned i = 1; i < renamings; i++) {
    state_key key = encode(config, state, orders[i]);
    if (key < least)
      least = key;
  }
  return least;
}

static void reach(struct exploration *exploration, struct state state) {
  forget(exploration->config, &state);
  rank_stamps(exploration->config, &state);
  state_set_add(&exploration->set, canonical(exploration->config, &state), exploration->current);
}

static void found_illegal(struct exploration *exploration) {
  if (!exploration->illegal) {
    exploration->illegal = true;
    exploration->illegal_from = exploration->current;
  }
}

static unsigned entry_of(const struct order_config *config, unsigned address) {
  return address % config->entries;
}

/* A stamp is later than every one before it. 200 is above all ranks; rank_stamps brings it down. */
static void stamp_now(struct state *state, unsigned t) {
  state->thread[t].stamp = 200;
}

/* The property. Events on one address are totally ordered in real time, except touches among themselves. Whenever the
   thread changes, the stamp must strictly grow: then the merge has them in that order. Within a thread, file order
   does this. */
static bool order_holds(const struct order_config *config, const struct state *state, unsigned t, bool touch) {
  const struct address *address = &state->address[state->thread[t].address];
  uint8_t stamp = state->thread[t].stamp;
  if (address->by != NOBODY && address->by != t && stamp <= address->stamp)
    return false;
  for (unsigned other = 0; !touch && config->touches && other <= THREADS; other++)
    if (other != t && address->touch_stamp[other] != 0 && stamp <= address->touch_stamp[other])
      return false;
  return true;
}

static void note_event(struct state *state, unsigned t, bool touch) {
  struct address *address = &state->address[state->thread[t].address];
  if (touch) {
    address->touch_stamp[t] = state->thread[t].stamp;
    return;
  }
  address->by = (uint8_t)t;
  address->stamp = state->thread[t].stamp;
  memset(address->touch_stamp, 0, sizeof address->touch_stamp);
}

/* ORDER_RELEASE_AFTER_CALL only: is the address's last release still unlogged? */
static bool release_pending(const struct order_config *config, const struct state *state, unsigned a) {
  for (unsigned t = 0; t < config->threads; t++)
    if (state->thread[t].next != IDLE && state->thread[t].step == FREE && state->thread[t].address == a)
      return config->variant == ORDER_RELEASE_AFTER_CALL;
  return false;
}

/* The late release really came before all that was logged for the address meanwhile. */
static void log_late_release(struct exploration *exploration, struct state state, unsigned t) {
  struct address *address = &state.address[state.thread[t].address];
  bool overtaken = address->status == HELD;
  if (overtaken && state.thread[t].stamp >= address->stamp)
    found_illegal(exploration);
  if (!overtaken)
    note_event(&state, t, false);
  state.thread[t] = (struct thread){.stamp = state.thread[t].stamp};
  reach(exploration, state);
}

/* Logs the thread's step with its present stamp, checks it, and makes the following steps that no thread can see. */
static void log_step(struct exploration *exploration, struct state state, unsigned t) {
  const struct order_config *config = exploration->config;
  struct thread *thread = &state.thread[t];
  struct address *address = &state.address[thread->address];
  if (config->variant == ORDER_RELEASE_AFTER_CALL && thread->step == FREE) {
    log_late_release(exploration, state, t);
    return;
  }
  bool touch = thread->step == TOUCH;
  if (!release_pending(config, &state, thread->address) && !order_holds(config, &state, t, touch)) {
    found_illegal(exploration);
    return;
  }
  note_event(&state, t, touch);
  if (thread->later)
    thread->stamp = thread->later;
  thread->held = thread->later = 0;
  if (thread->step == MOVE) {
    thread->next = MOVING;
  } else {
    if (thread->step == ACQUIRE)
      address->status = HELD;
    else if (thread->step == FREE)
      address->status = AVAILABLE;
    *thread = (struct thread){.stamp = thread->stamp};
  }
  reach(exploration, state);
}

static void go(struct exploration *exploration, struct state state, unsigned t, unsigned next) {
  state.thread[t].next = (uint8_t)next;
  reach(exploration, state);
}

/* The step is ordered. Where handlers come, its record is still to be written. */
static void order_step(struct exploration *exploration, struct state state, unsigned t, unsigned how) {
  if (exploration->config->handlers)
    go(exploration, state, t, how);
  else
    log_step(exploration, state, t);
}

/* The step is held from here on. A handler's records are in front of it. */
static void hold(struct state *state, unsigned t) {
  struct thread *thread = &state->thread[t];
  if (!thread->held && thread->later) {
    thread->stamp = thread->later;
    thread->later = 0;
  }
  thread->held = 1;
}

/* Writes the record, unless a handler has come: its records go first, and the step is ordered again. */
static void write_record(struct exploration *exploration, struct state state, unsigned t) {
  struct thread *thread = &state.thread[t];
  enum order_variant variant = exploration->config->variant;
  bool stamped = thread->next == STAMPED, again = thread->later != 0;
  if (!thread->held && variant == ORDER_TAKE_THEN_LOOK) {
    log_step(exploration, state, t);
    return;
  }
  if (again) {
    again = variant != (thread->held ? ORDER_SIDE_INHERITED : ORDER_LOOK_THEN_TAKE) || stamped;
    thread->stamp = thread->later;
    thread->later = 0;
    thread->held = 1;
  }
  if (again && stamped && variant == ORDER_SIDE_RESTAMPED) {
    stamp_now(&state, t);
    again = false;
  }
  if (!again) {
    log_step(exploration, state, t);
    return;
  }
  go(exploration, state, t, stamped ? EXCHANGE : CHECK);
  if (stamped && exploration->config->stamp_each)
    go(exploration, state, t, EACH_STAMP);
}

/* Is the thread between the taking of a slot, or of the ring, and the writing of its record? */
static bool may_be_interrupted(const struct thread *thread) {
  return thread->next != IDLE && thread->next != MOVING && thread->next != MOVE_DROP_OLD &&
         thread->next != MOVE_TAKE_NEW;
}

/* A handler comes, and records an event that has a stamp: at an entry that it takes by this, if the step is not held,
   or marks, or finds marked. */
static void interrupt(struct exploration *exploration, struct state state, unsigned t) {
  struct thread *thread = &state.thread[t];
  const struct order_config *config = exploration->config;
  thread->later = 200;
  reach(exploration, state);
  for (unsigned s = 0; s < config->entries; s++) {
    struct state after = state;
    after.tag[s] = TAG_SHARED;
    if (thread->held || config->stamp_each)
      reach(exploration, after);
    after.tag[s] = (uint8_t)t;
    if (!thread->held)
      reach(exploration, after);
  }
}

/* The thread's real call has returned an available address, or it passes in one that the program holds. */
static void begin(struct exploration *exploration, struct state state, unsigned t, unsigned step, unsigned a) {
  state.thread[t].step = (uint8_t)step;
  state.thread[t].address = (uint8_t)a;
  if (step != TOUCH)
    state.address[a].status = BUSY;
  if (step == FREE && exploration->config->variant == ORDER_RELEASE_AFTER_CALL)
    state.address[a].status = AVAILABLE;
  go(exploration, state, t, CHECK);
  state.thread[t].held = 1;
  if (exploration->config->handlers)
    go(exploration, state, t, CHECK);
}

static bool touched_by_any(const struct order_config *config, const struct state *state, unsigned a) {
  for (unsigned t = 0; t < config->threads; t++)
    if (state->thread[t].next != IDLE && state->thread[t].step == TOUCH && state->thread[t].address == a)
      return true;
  return false;
}

static void end_and_rebirth(struct exploration *exploration, struct state state, unsigned t) {
  for (unsigned a = 0; a < exploration->config->addresses; a++) {
    struct address *address = &state.address[a];
    if (address->by == t)
      address->by = DEAD;
    if (address->touch_stamp[t] > address->touch_stamp[DEAD])
      address->touch_stamp[DEAD] = address->touch_stamp[t];
    address->touch_stamp[t] = 0;
  }
  stamp_now(&state, t);
  if (exploration->config->variant == ORDER_REBIRTH_UNSTAMPED)
    state.thread[t].stamp = 0;
  reach(exploration, state);
}

static void choose(struct exploration *exploration, const struct state *state, unsigned t) {
  const struct order_config *config = exploration->config;
  for (unsigned a = 0; a < config->addresses; a++) {
    if (state->address[a].status == AVAILABLE)
      begin(exploration, *state, t, ACQUIRE, a);
    if (state->address[a].status != HELD)
      continue;
    if (config->touches)
      begin(exploration, *state, t, TOUCH, a);
    if (touched_by_any(config, state, a))
      continue;
    begin(exploration, *state, t, FREE, a);
    if (config->moves)
      begin(exploration, *state, t, MOVE, a);
  }
  if (config->deaths)
    end_and_rebirth(exploration, *state, t);
}

/* Inside realloc: in place, or to a new address taken before or after the old one is given back. */
static void move(struct exploration *exploration, const struct state *state, unsigned t) {
  const struct thread *thread = &state->thread[t];
  struct state after = *state;
  after.thread[t].old_address = 0;
  if (thread->next == MOVING)
    begin(exploration, after, t, ACQUIRE, thread->address);
  if (thread->next == MOVE_DROP_OLD) {
    after.address[thread->old_address].status = AVAILABLE;
    begin(exploration, after, t, ACQUIRE, thread->address);
    return;
  }
  for (unsigned a = 0; a < exploration->config->addresses; a++) {
    if (state->address[a].status != AVAILABLE)
      continue;
    if (thread->next == MOVE_TAKE_NEW) {
      begin(exploration, after, t, ACQUIRE, a);
      continue;
    }
    struct state taken = *state;
    taken.address[a].status = BUSY;
    taken.thread[t].old_address = thread->address;
    taken.thread[t].address = (uint8_t)a;
    go(exploration, taken, t, MOVE_DROP_OLD);
  }
  if (thread->next == MOVING) {
    after.address[thread->address].status = AVAILABLE;
    after.thread[t].address = 0;
    go(exploration, after, t, MOVE_TAKE_NEW);
  }
}

static void check(struct exploration *exploration, const struct state *state, unsigned t, uint8_t tag) {
  const struct order_config *config = exploration->config;
  if (tag == t)
    order_step(exploration, *state, t, LOOKED);
  if (tag == TAG_NONE)
    go(exploration, *state, t, CLAIM);
  struct state held = *state;
  if (config->handlers)
    hold(&held, t);
  if ((tag != t && tag != TAG_NONE) || config->ticks)
    go(exploration, held, t, EXCHANGE);
  if (!config->stamp_each)
    return;
  unsigned first = EACH_STAMP;
  if (config->variant == ORDER_MARK_THEN_STAMP)
    first = EACH_MARK;
  else if (config->variant == ORDER_LOOK_THEN_STAMP)
    first = EACH_LOOK;
  go(exploration, held, t, first);
}

/* The three steps of stamping each event, in the variant's order. */
static void each(struct exploration *exploration, struct state state, unsigned t) {
  uint8_t *tag = &state.tag[entry_of(exploration->config, state.thread[t].address)];
  enum order_variant variant = exploration->config->variant;
  switch (state.thread[t].next) {
  case EACH_STAMP:
    stamp_now(&state, t);
    if (variant == ORDER_NO_MARK)
      order_step(exploration, state, t, STAMPED);
    else
      go(exploration, state, t, variant == ORDER_LOOK_THEN_STAMP ? EACH_MARK : EACH_LOOK);
    return;
  case EACH_LOOK:
    if (variant == ORDER_LOOK_THEN_STAMP)
      go(exploration, state, t, *tag == TAG_SHARED ? EACH_LATE_STAMP : EACH_STAMP);
    else if (*tag == TAG_SHARED)
      order_step(exploration, state, t, STAMPED);
    else
      go(exploration, state, t, EACH_MARK);
    return;
  case EACH_MARK:
    *tag = TAG_SHARED;
    if (variant == ORDER_MARK_THEN_STAMP)
      go(exploration, state, t, EACH_LATE_STAMP);
    else
      order_step(exploration, state, t, STAMPED);
    return;
  default: /* EACH_LATE_STAMP */
    stamp_now(&state, t);
    log_step(exploration, state, t);
  }
}

/* All that thread t can do next. */
static void advance(struct exploration *exploration, const struct state *from, unsigned t) {
  struct state state = *from;
  uint8_t *tag = &state.tag[entry_of(exploration->config, state.thread[t].address)];
  enum order_variant variant = exploration->config->variant;
  if (exploration->config->handlers && may_be_interrupted(&state.thread[t]))
    interrupt(exploration, state, t);
  switch (state.thread[t].next) {
  case IDLE:
    choose(exploration, from, t);
    return;
  case CHECK:
    check(exploration, from, t, *tag);
    return;
  case EXCHANGE:
    if (variant == ORDER_STAMP_THEN_EXCHANGE) {
      stamp_now(&state, t);
      go(exploration, state, t, LATE_EXCHANGE);
      return;
    }
    *tag = (uint8_t)t;
    go(exploration, state, t, STAMP);
    return;
  case STAMP:
    stamp_now(&state, t);
    if (variant == ORDER_NO_RECHECK)
      log_step(exploration, state, t);
    else
      go(exploration, state, t, RECHECK);
    return;
  case RECHECK:
    if (*tag == t)
      order_step(exploration, state, t, STAMPED);
    else
      go(exploration, state, t, EXCHANGE);
    if (*tag != t && exploration->config->stamp_each) /* gives up the race for the entry */
      go(exploration, state, t, EACH_STAMP);
    return;
  case LATE_EXCHANGE:
    *tag = (uint8_t)t;
    log_step(exploration, state, t);
    return;
  case CLAIM:
    if (*tag != TAG_NONE && variant != ORDER_CLAIM_STORES) {
      if (exploration->config->handlers)
        hold(&state, t);
      go(exploration, state, t, EXCHANGE);
      return;
    }
    *tag = (uint8_t)t;
    order_step(exploration, state, t, LOOKED);
    return;
  case LOOKED:
  case STAMPED:
    write_record(exploration, state, t);
    return;
  case MOVING:
  case MOVE_DROP_OLD:
  case MOVE_TAKE_NEW:
    move(exploration, from, t);
    return;
  default:
    each(exploration, *from, t);
  }
}

static void print_state(const struct order_config *config, const struct state *state, FILE *report) {
  static const char *const next[] = {"idle",       "check",     "exchange",  "stamp",           "recheck",
                                     "each-stamp", "each-look", "each-mark", "each-late-stamp", "late-exchange",
                                     "moving",     "drop-old",  "take-new",  "claim",           "looked",
                                     "stamped"};
  static const char *const step[] = {"acquire", "free", "move", "touch"};
  static const char *const status[] = {"available", "busy", "held"};
  for (unsigned t = 0; t < config->threads; t++) {
    const struct thread *thread = &state->thread[t];
    fprintf(report, "T%u %s", t, next[thread->next]);
    if (thread->next != IDLE)
      fprintf(report, " (%s %u)", step[thread->step], thread->address);
    fprintf(report, "%s stamp %u", thread->held ? " held" : "", thread->stamp);
    fprintf(report, thread->later ? ", handler's %u; " : "; ", thread->later);
  }
  for (unsigned a = 0; a < config->addresses; a++)
    fprintf(report, "address %u %s, last by %u at %u; ", a, status[state->address[a].status], state->address[a].by,
            state->address[a].stamp);
  for (unsigned s = 0; s < config->entries; s++)
    fprintf(report, "tag %u%s", state->tag[s], s + 1 < config->entries ? ", " : "\n");
}

/* Threads are renamed from line to line, as each state stands for all its renamings. */
static void print_way(const struct exploration *exploration, FILE *report) {
  uint32_t way[256];
  unsigned length = 0;
  for (uint32_t i = exploration->illegal_from; length < 256; i = exploration->set.parent[i]) {
    way[length++] = i;
    if (i == 0)
      break;
  }
  while (length-- > 0) {
    struct state state = decode(exploration->config, exploration->set.key[way[length]]);
    print_state(exploration->config, &state, report);
  }
}

struct order_result order_explore(const struct order_config *config, FILE *report) {
  struct exploration exploration = {.config = config};
  struct state start = {0};
  for (unsigned s = 0; s < config->entries; s++)
    start.tag[s] = TAG_NONE;
  for (unsigned a = 0; a < config->addresses; a++)
    start.address[a].by = NOBODY;
  state_set_open(&exploration.set);
  reach(&exploration, start);
  for (; exploration.current < exploration.set.count && !exploration.illegal; exploration.current++) {
    struct state state = decode(config, exploration.set.key[exploration.current]);
    for (unsigned t = 0; t < config->threads; t++)
      advance(&exploration, &state, t);
  }
  uint32_t last = exploration.illegal ? exploration.illegal_from : exploration.set.count - 1;
  struct order_result result = {!exploration.illegal, exploration.illegal, exploration.set.count, 0};
  for (uint32_t i = last; i != 0; i = exploration.set.parent[i])
    result.depth++;
  if (exploration.illegal && report)
    print_way(&exploration, report);
  state_set_close(&exploration.set);
  return result;
}

/* SPDX-License-Identifier: MIT */
#include "tests/model/weak_machine.h"
#include "core/test/usual.h"
#include "tests/model/state_set.h"

enum { VALUE_BITS = 3 };

/* Part 2i is operation i's reading, or all of one that accesses no memory; part 2i + 1 is its writing. In a state,
   parts have consecutive bits. */
struct state {
  uint64_t done[WEAK_THREADS]; /* bit 2i, 2i + 1: operation i's parts */
  uint8_t memory[WEAK_PLACES];
};

struct exploration {
  const struct weak_run *run;
  struct state_set set;
  uint32_t current;
  bool found;
  uint32_t found_at;
};

static bool reads(const struct weak_op *op) {
  return op->kind == WEAK_LOAD || op->kind == WEAK_EXCHANGE;
}

static bool writes(const struct weak_op *op) {
  return op->kind == WEAK_STORE || op->kind == WEAK_EXCHANGE;
}

static bool in_memory(const struct weak_op *op) {
  return reads(op) || writes(op);
}

static bool branches(const struct weak_op *op) {
  return reads(op) && op->expect != WEAK_ANY && !op->no_branch;
}

static bool has_part(const struct weak_op *op, bool writing) {
  return writing ? writes(op) : op->kind != WEAK_STORE;
}

static bool is_done(const struct state *state, unsigned thread, unsigned op, bool writing) {
  return state->done[thread] >> (2 * op + writing) & 1;
}

/* Must part `writing` of the later operation wait for part `before_writes` of the earlier one? ARMv8's rules for
   memory. */
static bool memory_waits(const struct weak_op *before, bool before_writes, const struct weak_op *op, bool writing) {
  if (before->acquire && !before_writes)
    return true;
  if ((writing && op->release) || (before_writes && before->sequential && op->sequential))
    return true;
  if (writing && !before_writes && branches(before)) /* a store does not go ahead of a branch */
    return true;
  if (before->place != op->place || op->place == WEAK_PRIVATE)
    return false;
  return writing || (before_writes && op->kind == WEAK_EXCHANGE); /* a load takes a store's value before: read_value */
}

static bool armv8_waits(const struct weak_op *before, bool before_writes, const struct weak_op *op, bool writing) {
  if (before->kind == WEAK_FLUSH)
    return true;
  switch (op->kind) {
  case WEAK_FLUSH:
    return before->kind == WEAK_COMPLETE || (branches(before) && !before_writes);
  case WEAK_STAMP:
    return false;
  case WEAK_BARRIER:
  case WEAK_COMPLETE:
    return before->kind != WEAK_STAMP;
  default:
    if (op->after_stamp && before->kind == WEAK_STAMP)
      return true;
    if (before->kind == WEAK_BARRIER || before->kind == WEAK_COMPLETE)
      return true;
    return in_memory(before) && memory_waits(before, before_writes, op, writing);
  }
}

/* Only a load goes ahead of a store. LFENCE waits for all operations except stores; only LFENCE orders the reading of
   the counter. */
static bool x86_waits(const struct weak_op *before, bool before_writes, const struct weak_op *op, bool writing) {
  if (before->kind == WEAK_LFENCE)
    return true;
  if (op->kind == WEAK_LFENCE)
    return before->kind != WEAK_STORE;
  if (!in_memory(op) || !in_memory(before))
    return false;
  bool plain_store = before_writes && before->kind == WEAK_STORE && !before->sequential;
  return !(plain_store && op->kind == WEAK_LOAD && !writing);
}

static bool waits(const struct weak_run *run, const struct state *state, unsigned thread, unsigned number,
                  bool writing) {
  const struct weak_op *ops = run->thread[thread].op, *op = &ops[number];
  for (unsigned i = 0; i < number; i++)
    for (int before_writes = 0; before_writes < 2; before_writes++) {
      if (!has_part(&ops[i], before_writes) || is_done(state, thread, i, before_writes))
        continue;
      if (run->machine == WEAK_ARMV8 ? armv8_waits(&ops[i], before_writes, op, writing)
                                     : x86_waits(&ops[i], before_writes, op, writing))
        return true;
    }
  return writing && reads(op) && !is_done(state, thread, number, false);
}

/* Has another thread read the place for an exchange, and not written it yet? */
static bool is_reserved(const struct weak_run *run, const struct state *state, unsigned thread, unsigned place) {
  for (unsigned t = 0; t < run->threads; t++)
    for (unsigned i = 0; t != thread && i < run->thread[t].count; i++)
      if (run->thread[t].op[i].kind == WEAK_EXCHANGE && run->thread[t].op[i].place == place &&
          is_done(state, t, i, false) && !is_done(state, t, i, true))
        return true;
  return false;
}

/* The value that the operation would read now: its thread's last write, whether other threads see it or not. -1: the
   exchange before it has not read. */
static int read_value(const struct weak_run *run, const struct state *state, unsigned thread, unsigned number) {
  const struct weak_op *ops = run->thread[thread].op;
  unsigned place = ops[number].place;
  if (place == WEAK_PRIVATE)
    return 0;
  for (unsigned i = number; i-- > 0;)
    if (writes(&ops[i]) && ops[i].place == place && !is_done(state, thread, i, true))
      return ops[i].kind == WEAK_STORE || is_done(state, thread, i, false) ? ops[i].value : -1;
  return state->memory[place];
}

/* A thread sees the values of one place in the order in which they came. So where a later load has read already and an
   earlier one hasn't, another thread's write makes the processor repeat the later one: another order. */
static bool is_overtaken(const struct weak_run *run, const struct state *state, unsigned writer, unsigned place) {
  for (unsigned t = 0; t < run->threads; t++) {
    bool waiting = false;
    for (unsigned i = 0; t != writer && i < run->thread[t].count; i++) {
      const struct weak_op *op = &run->thread[t].op[i];
      if (op->place != place || !in_memory(op))
        continue;
      if (waiting && reads(op) && is_done(state, t, i, false))
        return true;
      waiting = reads(op) && !writes(op) ? waiting || !is_done(state, t, i, false) : false;
    }
  }
  return false;
}

static bool is_at(const struct weak_place_of_stamp *stamp, unsigned thread, unsigned op) {
  return stamp->thread == thread && stamp->op == op;
}

/* Whether it matters when this is performed: to another thread, or to the requested order. */
static bool is_unseen(const struct weak_run *run, unsigned thread, unsigned number) {
  const struct weak_op *op = &run->thread[thread].op[number];
  if (op->kind == WEAK_STAMP)
    return !run->has_order || !(is_at(&run->early, thread, number) || is_at(&run->late, thread, number));
  return !in_memory(op) || op->place == WEAK_PRIVATE;
}

/* Performs a part, if it may be performed now and fits the request. */
static bool perform(const struct weak_run *run, struct state *state, unsigned thread, unsigned number, bool writing) {
  const struct weak_op *op = &run->thread[thread].op[number];
  if (!has_part(op, writing) || is_done(state, thread, number, writing) || waits(run, state, thread, number, writing))
    return false;
  if (in_memory(op) && op->kind != WEAK_LOAD && is_reserved(run, state, thread, op->place))
    return false;
  if (!writing && reads(op)) {
    int value = read_value(run, state, thread, number);
    if (value < 0 || (op->expect == WEAK_IS && value != op->expected) ||
        (op->expect == WEAK_IS_NOT && value == op->expected))
      return false;
  }
  if (run->has_order && is_at(&run->late, thread, number) && !is_done(state, run->early.thread, run->early.op, false))
    return false;
  if (writing) {
    if (is_overtaken(run, state, thread, op->place))
      return false;
    state->memory[op->place] = op->value;
  }
  state->done[thread] |= (uint64_t)1 << (2 * number + writing);
  return true;
}

/* Parts for which the moment does not matter are performed at once: they prevent nothing. */
static void perform_unseen(const struct weak_run *run, struct state *state) {
  for (bool more = true; more;) {
    more = false;
    for (unsigned t = 0; t < run->threads; t++)
      for (unsigned i = 0; i < run->thread[t].count; i++)
        more |= is_unseen(run, t, i) && perform(run, state, t, i, false);
  }
}

static state_key encode(const struct weak_run *run, const struct state *state) {
  state_key key = 0;
  unsigned bits = 0;
  for (unsigned t = 0; t < run->threads; t++)
    for (unsigned i = 0; i < run->thread[t].count; i++)
      for (int writing = 0; writing < 2; writing++)
        if (has_part(&run->thread[t].op[i], writing)) {
          key = key << 1 | is_done(state, t, i, writing);
          bits++;
        }
  for (unsigned place = 0; place < WEAK_PLACES; place++, bits += VALUE_BITS)
    key = key << VALUE_BITS | state->memory[place];
  if (bits > 8 * sizeof key)
    abort();
  return key;
}

static struct state decode(const struct weak_run *run, state_key key) {
  struct state state = {0};
  for (unsigned place = WEAK_PLACES; place-- > 0; key >>= VALUE_BITS)
    state.memory[place] = key & (WEAK_VALUES - 1);
  for (unsigned t = run->threads; t-- > 0;)
    for (unsigned i = run->thread[t].count; i-- > 0;)
      for (int writing = 2; writing-- > 0;)
        if (has_part(&run->thread[t].op[i], writing)) {
          state.done[t] |= (uint64_t)(key & 1) << (2 * i + (unsigned)writing);
          key >>= 1;
        }
  return state;
}

static bool is_complete(const struct weak_run *run, const struct state *state) {
  for (unsigned t = 0; t < run->threads; t++)
    for (unsigned i = 0; i < run->thread[t].count; i++)
      for (int writing = 0; writing < 2; writing++)
        if (has_part(&run->thread[t].op[i], writing) && !is_done(state, t, i, writing))
          return false;
  return !run->has_end || state->memory[run->end_place] == run->end_value;
}

static void reach(struct exploration *exploration, struct state state) {
  perform_unseen(exploration->run, &state);
  if (!exploration->found && is_complete(exploration->run, &state)) {
    exploration->found = true;
    exploration->found_at = exploration->set.count;
  }
  state_set_add(&exploration->set, encode(exploration->run, &state), exploration->current);
}

static void advance(struct exploration *exploration, const struct state *from) {
  const struct weak_run *run = exploration->run;
  for (unsigned t = 0; t < run->threads; t++)
    for (unsigned i = 0; i < run->thread[t].count; i++)
      for (int writing = 0; writing < 2; writing++) {
        struct state state = *from;
        if (!exploration->found && perform(run, &state, t, i, writing))
          reach(exploration, state);
      }
}

static void print_new(const struct weak_run *run, const struct state *from, const struct state *to, FILE *report) {
  static const char *const kinds[] = {"load", "store", "exchange", "stamp", "DMB", "DSB", "ISB", "LFENCE"};
  for (unsigned t = 0; t < run->threads; t++)
    for (unsigned i = 0; i < run->thread[t].count; i++)
      for (int writing = 0; writing < 2; writing++)
        if (is_done(to, t, i, writing) && !is_done(from, t, i, writing) && !is_unseen(run, t, i)) {
          const struct weak_op *op = &run->thread[t].op[i];
          fprintf(report, "  thread %u, operation %u: %s", t, i, kinds[op->kind]);
          if (in_memory(op))
            fprintf(report, " %s place %u %s", writing ? "writes" : "reads", op->place, writing ? "with" : "then");
          if (in_memory(op))
            fprintf(report, " %u", writing ? op->value : to->memory[op->place]);
          fputc('\n', report);
        }
}

static void print_way(const struct exploration *exploration, FILE *report) {
  uint32_t way[2 * WEAK_THREADS * WEAK_OPS + 1];
  unsigned length = 0;
  for (uint32_t i = exploration->found_at;; i = exploration->set.parent[i]) {
    way[length++] = i;
    if (i == 0)
      break;
  }
  while (--length > 0) {
    struct state from = decode(exploration->run, exploration->set.key[way[length]]);
    struct state to = decode(exploration->run, exploration->set.key[way[length - 1]]);
    print_new(exploration->run, &from, &to, report);
  }
}

struct weak_result weak_explore(const struct weak_run *run, FILE *report) {
  struct exploration exploration = {.run = run};
  struct state start = {0};
  memcpy(start.memory, run->memory, sizeof start.memory);
  state_set_open(&exploration.set);
  reach(&exploration, start);
  for (; exploration.current < exploration.set.count && !exploration.found; exploration.current++) {
    struct state state = decode(run, exploration.set.key[exploration.current]);
    advance(&exploration, &state);
  }
  struct weak_result result = {exploration.found, exploration.set.count};
  if (exploration.found && report)
    print_way(&exploration, report);
  state_set_close(&exploration.set);
  return result;
}

/* SPDX-License-Identifier: MIT */
#include "tests/model/weak_protocol.h"

#include <stdlib.h>

static unsigned append(const struct weak_builder *builder, unsigned thread, struct weak_op op) {
  struct weak_thread *to = &builder->run->thread[thread];
  if (to->count == WEAK_OPS)
    abort();
  to->op[to->count] = op;
  return to->count++;
}

static void load(const struct weak_builder *builder, unsigned thread, unsigned place, enum weak_expect expect,
                 unsigned value) {
  append(builder, thread,
         (struct weak_op){.kind = WEAK_LOAD, .place = (uint8_t)place, .expect = expect, .expected = (uint8_t)value});
}

static void load_acquire(const struct weak_builder *builder, unsigned thread, unsigned place, enum weak_expect expect,
                         unsigned value) {
  load(builder, thread, place, expect, value);
  builder->run->thread[thread].op[builder->run->thread[thread].count - 1].acquire = true;
}

static void store(const struct weak_builder *builder, unsigned thread, unsigned place, unsigned value, bool release) {
  append(builder, thread,
         (struct weak_op){.kind = WEAK_STORE, .place = (uint8_t)place, .value = (uint8_t)value, .release = release});
}

static unsigned stamp_on_x86(const struct weak_builder *builder, unsigned thread) {
  if (builder->variant != WEAK_NO_FIRST_LFENCE)
    append(builder, thread, (struct weak_op){.kind = WEAK_LFENCE});
  unsigned stamp = append(builder, thread, (struct weak_op){.kind = WEAK_STAMP});
  if (builder->variant != WEAK_NO_SECOND_LFENCE)
    append(builder, thread, (struct weak_op){.kind = WEAK_LFENCE});
  return stamp;
}

/* ownership_stamp where the processor's counter can't be used. What it reads is greater, the later it reads. */
static unsigned stamp_of_counter(const struct weak_builder *builder, unsigned thread) {
  bool ordered = builder->variant == WEAK_COUNTED;
  return append(builder, thread,
                (struct weak_op){.kind = WEAK_EXCHANGE, .place = COUNTER, .acquire = ordered, .release = ordered});
}

/* core/base/os.h: os_stamp. */
unsigned weak_stamp(const struct weak_builder *builder, unsigned thread) {
  enum weak_variant variant = builder->variant;
  if (variant == WEAK_COUNTED || variant == WEAK_PLAIN_COUNTED)
    return stamp_of_counter(builder, thread);
  if (builder->run->machine == WEAK_X86)
    return stamp_on_x86(builder, thread);
  if (variant != WEAK_NO_COMPLETE)
    append(builder, thread, (struct weak_op){.kind = variant == WEAK_BARRIER_ALONE ? WEAK_BARRIER : WEAK_COMPLETE});
  if (variant != WEAK_NO_FLUSH)
    append(builder, thread, (struct weak_op){.kind = WEAK_FLUSH});
  unsigned stamp = append(builder, thread, (struct weak_op){.kind = WEAK_STAMP});
  if (variant != WEAK_NO_ORDERED_LOAD)
    append(builder, thread,
           (struct weak_op){.kind = WEAK_LOAD,
                            .place = WEAK_PRIVATE,
                            .acquire = variant != WEAK_UNORDERED_LOAD,
                            .after_stamp = variant != WEAK_LOAD_BEFORE_READING});
  return stamp;
}

static void exchange(const struct weak_builder *builder, unsigned thread, bool claims) {
  bool ordered = builder->variant != WEAK_PLAIN_EXCHANGE;
  uint8_t own = (uint8_t)(thread + 1);
  if (claims && builder->variant == WEAK_CLAIM_STORES)
    store(builder, thread, ENTRY, own, false);
  else
    append(builder, thread,
           (struct weak_op){.kind = WEAK_EXCHANGE,
                            .place = ENTRY,
                            .value = own,
                            .expect = claims ? WEAK_IS : WEAK_ANY,
                            .expected = UNTOUCHED,
                            .acquire = ordered,
                            .release = ordered});
}

/* One turn of ownership_take. */
static unsigned take(const struct weak_builder *builder, unsigned thread, enum weak_expect found) {
  exchange(builder, thread, false);
  unsigned stamp = weak_stamp(builder, thread);
  if (builder->variant == WEAK_NO_RECHECK)
    return stamp;
  if (builder->variant == WEAK_PLAIN_RECHECK)
    load(builder, thread, ENTRY, found, thread + 1);
  else
    load_acquire(builder, thread, ENTRY, found, thread + 1);
  return stamp;
}

/* ownership_stamp_and_mark. */
static unsigned stamp_each(const struct weak_builder *builder, unsigned thread, bool marks) {
  unsigned stamp = weak_stamp(builder, thread);
  load(builder, thread, ENTRY, marks ? WEAK_IS_NOT : WEAK_IS, SHARED);
  if (marks)
    store(builder, thread, ENTRY, SHARED, builder->variant != WEAK_PLAIN_MARK);
  return stamp;
}

void weak_step(const struct weak_builder *builder, unsigned thread, enum weak_step step, unsigned *stamp) {
  switch (step) {
  case STEP_INHERITS:
    load(builder, thread, ENTRY, WEAK_IS, thread + 1);
    return;
  case STEP_CLAIMS:
    load(builder, thread, ENTRY, WEAK_IS, UNTOUCHED);
    exchange(builder, thread, true);
    return;
  case STEP_TAKES_TWICE:
    take(builder, thread, WEAK_IS_NOT);
    *stamp = take(builder, thread, WEAK_IS);
    return;
  case STEP_TAKES:
    *stamp = take(builder, thread, WEAK_IS);
    return;
  case STEP_GIVES_UP:
    take(builder, thread, WEAK_IS_NOT);
    *stamp = stamp_each(builder, thread, true);
    return;
  case STEP_MARKS:
  case STEP_FINDS_MARKED:
    *stamp = stamp_each(builder, thread, step == STEP_MARKS);
    return;
  default:
    return;
  }
}

void weak_hand_on(const struct weak_builder *builder, unsigned thread) {
  store(builder, thread, BATON, 1, true);
}

void weak_wait_for(const struct weak_builder *builder, unsigned thread) {
  load_acquire(builder, thread, BATON, WEAK_IS, 1);
}

void weak_read_tick(const struct weak_builder *builder, unsigned thread, uint8_t tick) {
  load(builder, thread, TICK, WEAK_IS, tick);
}

/* control_advance_tick. */
static void advance_tick(const struct weak_builder *builder, unsigned thread) {
  append(builder, thread,
         (struct weak_op){.kind = WEAK_EXCHANGE, .place = TICK, .value = 1, .acquire = true, .release = true});
}

unsigned weak_mark(const struct weak_builder *builder, unsigned thread) {
  if (builder->variant == WEAK_TICK_BEFORE_MARK)
    advance_tick(builder, thread);
  unsigned stamp = weak_stamp(builder, thread);
  if (builder->variant != WEAK_TICK_BEFORE_MARK)
    advance_tick(builder, thread);
  return stamp;
}

unsigned weak_cut(const struct weak_builder *builder, unsigned thread) {
  unsigned stamp = weak_stamp(builder, thread);
  if (builder->variant == WEAK_STOP_BEFORE_TICK)
    store(builder, thread, STOP, 1, true);
  advance_tick(builder, thread);
  if (builder->variant != WEAK_STOP_BEFORE_TICK)
    store(builder, thread, STOP, 1, builder->variant != WEAK_PLAIN_STOP);
  return stamp;
}

void weak_find_stopped(const struct weak_builder *builder, unsigned thread) {
  load(builder, thread, STOP, WEAK_IS, 1);
}

/* capture/wire/ring.h: record_put. */
void weak_write_record(const struct weak_builder *builder, unsigned thread, uint8_t number, bool after_tail) {
  if (after_tail)
    load_acquire(builder, thread, TAIL, WEAK_IS, 1);
  store(builder, thread, WORD_FIRST, number, false);
  store(builder, thread, WORD_SECOND, number, builder->variant != WEAK_PLAIN_RECORD);
}

/* record_get. */
void weak_read_record(const struct weak_builder *builder, unsigned thread, uint8_t number, bool whole) {
  if (builder->variant == WEAK_PLAIN_DRAIN)
    load(builder, thread, WORD_SECOND, WEAK_IS, number);
  else
    load_acquire(builder, thread, WORD_SECOND, WEAK_IS, number);
  load(builder, thread, WORD_FIRST, whole ? WEAK_IS : WEAK_IS_NOT, number);
  builder->run->thread[thread].op[builder->run->thread[thread].count - 1].no_branch = true;
}

void weak_drain_record(const struct weak_builder *builder, unsigned thread) {
  store(builder, thread, WORD_FIRST, 0, false);
  store(builder, thread, WORD_SECOND, 0, false);
  store(builder, thread, TAIL, 1, builder->variant != WEAK_PLAIN_TAIL);
}

/* SPDX-License-Identifier: MIT */
#include "tests/model/weak_protocol.h"

#undef HT_DEBUG /* its assertions read, too */

#include "core/test/usual.h"

static inline uint64_t append_instruction(const char *text);

#define os_stamp os_stamp_of_this_machine
#if defined(__x86_64__)
#include <x86intrin.h>
#undef __rdtsc
#define __rdtsc() append_instruction("rdtsc")
#define _mm_lfence() append_instruction("lfence")
#endif
#include "core/base/os.h"
#undef os_stamp

static uint64_t os_stamp(void);
static uint64_t trace(enum weak_kind kind, const volatile void *at, uint64_t value, memory_order order);
static bool trace_replace(const volatile void *at, uint64_t expected, uint64_t value, memory_order order);

/* The code that records and that replays is compiled here with these in place of C11's. */
#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#define atomic_load_explicit(at, order) trace(WEAK_LOAD, at, 0, order)
#define atomic_load(at) atomic_load_explicit(at, memory_order_seq_cst)
#define atomic_store_explicit(at, value, order) ((void)trace(WEAK_STORE, at, value, order))
#define atomic_store(at, value) atomic_store_explicit(at, value, memory_order_seq_cst)
#define atomic_exchange_explicit(at, value, order) trace(WEAK_EXCHANGE, at, value, order)
#define atomic_exchange(at, value) atomic_exchange_explicit(at, value, memory_order_seq_cst)
#define atomic_fetch_add_explicit(at, value, order) trace(WEAK_EXCHANGE, at, 1, order)
#define atomic_fetch_add(at, value) atomic_fetch_add_explicit(at, value, memory_order_seq_cst)
#define atomic_compare_exchange_strong_explicit(at, old, value, order, other) trace_replace(at, *(old), value, order)
#define atomic_compare_exchange_strong(at, old, value) trace_replace(at, *(old), value, memory_order_seq_cst)

#include "capture/host/ownership.h"
#include "replay/engine/watermark.h"

static struct tables tables;
static struct ring ring;
static struct watermark watermark;
static uint64_t slot[2];
static const void *const object = (const void *)4096; /* its entry is not a sampled one */
struct host_state host_state = {.tables = &tables};

void watermark_wake(struct watermark *due) {
  (void)due;
}

/* The code is being traced: its operations are appended to a thread. */
static struct {
  const struct weak_builder *builder;
  unsigned thread, stamp; /* stamp: the number of the last one's operation */
  enum weak_expect expect;
  uint8_t expected; /* the value a load must read, in the model, */
  uint64_t found;   /* and the value it reads */
  bool ends_there;  /* operations after the load belong to another step */
  bool over;
} tracing;

/* How variants differ from the code: operations of that kind at that place are left out, or order nothing. */
static const struct change {
  enum weak_variant variant;
  enum weak_kind kind;
  uint8_t place;
  bool plain;
} changes[] = {
    {WEAK_NO_COMPLETE, WEAK_COMPLETE, 0, false},
    {WEAK_NO_FLUSH, WEAK_FLUSH, 0, false},
    {WEAK_NO_ORDERED_LOAD, WEAK_LOAD, WEAK_PRIVATE, false},
    {WEAK_UNORDERED_LOAD, WEAK_LOAD, WEAK_PRIVATE, true},
    {WEAK_NO_FIRST_LFENCE, WEAK_LFENCE, 0, false},
    {WEAK_NO_SECOND_LFENCE, WEAK_LFENCE, 1, false},
    {WEAK_PLAIN_COUNTED, WEAK_EXCHANGE, COUNTER, true},
    {WEAK_NO_RECHECK, WEAK_LOAD, ENTRY, false},
    {WEAK_PLAIN_RECHECK, WEAK_LOAD, ENTRY, true},
    {WEAK_PLAIN_EXCHANGE, WEAK_EXCHANGE, ENTRY, true},
    {WEAK_PLAIN_CLAIM, WEAK_EXCHANGE, ENTRY, true},
    {WEAK_PLAIN_MARK, WEAK_STORE, ENTRY, true},
    {WEAK_PLAIN_TICK, WEAK_EXCHANGE, TICK, true},
    {WEAK_PLAIN_RECORD, WEAK_STORE, WORD_SECOND, true},
    {WEAK_PLAIN_DRAIN, WEAK_LOAD, WORD_SECOND, true},
    {WEAK_PLAIN_TAIL, WEAK_STORE, TAIL, true},
    {WEAK_PLAIN_ROOM, WEAK_LOAD, TAIL, true},
    {WEAK_PLAIN_PUBLISHING, WEAK_STORE, WATERMARK, true},
    {WEAK_PLAIN_WAITING, WEAK_LOAD, WATERMARK, true},
};

static bool changed;

bool weak_is_changed(enum weak_variant variant) {
  bool was = changed, listed = false;
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
    listed |= changes[i].variant == variant;
  changed = false;
  return was || !listed;
}

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

static void store(const struct weak_builder *builder, unsigned thread, unsigned place, unsigned value, bool release) {
  append(builder, thread,
         (struct weak_op){.kind = WEAK_STORE, .place = (uint8_t)place, .value = (uint8_t)value, .release = release});
}

/* Appends the code's operation, as the variant has it. */
static void append_traced(struct weak_op op) {
  enum weak_variant variant = tracing.builder->variant;
  bool claims = op.kind == WEAK_EXCHANGE && op.expect == WEAK_IS;
  if (tracing.over)
    return;
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    const struct change *change = &changes[i];
    bool orders = op.kind > WEAK_EXCHANGE || op.acquire || op.release;
    if (change->variant != variant || change->kind != op.kind || change->place != op.place || !orders ||
        claims != (variant == WEAK_PLAIN_CLAIM))
      continue;
    changed = true;
    if (!change->plain)
      return;
    op.acquire = op.release = op.sequential = false;
  }
  if (variant == WEAK_BARRIER_ALONE && op.kind == WEAK_COMPLETE)
    op.kind = WEAK_BARRIER;
  if (variant == WEAK_CLAIM_STORES && claims)
    op = (struct weak_op){.kind = WEAK_STORE, .place = op.place, .value = op.value};
  if (variant == WEAK_LOAD_BEFORE_READING)
    op.after_stamp = false;
  unsigned number = append(tracing.builder, tracing.thread, op);
  if (op.kind == WEAK_STAMP || (op.kind == WEAK_EXCHANGE && op.place == COUNTER))
    tracing.stamp = number;
}

static inline uint64_t append_instruction(const char *text) {
  static const struct {
    const char *text;
    struct weak_op op;
  } known[] = {
      {"dsb ish", {.kind = WEAK_COMPLETE}},
      {"dmb ish", {.kind = WEAK_BARRIER}},
      {"isb", {.kind = WEAK_FLUSH}},
      {"mrs %0, cntvct_el0", {.kind = WEAK_STAMP}},
      {"lfence", {.kind = WEAK_LFENCE}},
      {"rdtsc", {.kind = WEAK_STAMP}},
      {"ldar xzr, [%0]", {.kind = WEAK_LOAD, .place = WEAK_PRIVATE, .acquire = true}},
      {"ldr xzr, [%0]", {.kind = WEAK_LOAD, .place = WEAK_PRIVATE}},
  };
  static unsigned made_of_stamp; /* number of instructions seen of those that compute the load's address from it */
  static const char *const making[] = {"eor %0, %1, %1", "add %0, sp, %0"};
  if (made_of_stamp < 2 && strcmp(text, making[made_of_stamp]) == 0) {
    made_of_stamp++;
    return 0;
  }
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(text, known[i].text) == 0) {
      struct weak_op op = known[i].op;
      const struct weak_thread *thread = &tracing.builder->run->thread[tracing.thread];
      if (op.kind == WEAK_LFENCE) /* the place distinguishes the second from the first */
        op.place = thread->count > 0 && thread->op[thread->count - 1].kind == WEAK_STAMP;
      if (op.kind == WEAK_LOAD)
        op.after_stamp = made_of_stamp == 2;
      made_of_stamp = 0;
      append_traced(op);
      return 0;
    }
  abort();
}

static void append_instructions(const char *text) {
  char copy[128];
  strcpy(copy, text);
  for (char *at = strtok(copy, "\n\t"); at; at = strtok(NULL, "\n\t"))
    append_instruction(at);
}

static uint64_t os_stamp(void) {
  if (tracing.builder->run->machine == WEAK_X86) {
#if defined(__x86_64__)
    os_stamp_of_this_machine();
#else
    append_instructions("lfence\n\trdtsc\n\tlfence");
#endif
  } else {
    append_instructions(OS_STAMP_ARMV8);
    append_instructions(OS_STAMP_ARMV8_END);
  }
  return 1;
}

static uint8_t place_of(const volatile void *at) {
  const struct {
    const volatile void *at;
    uint8_t place;
  } places[] = {{ownership_tag(object), ENTRY},
                {&tables.control.tick, TICK},
                {&tables.control.counter, COUNTER},
                {&slot[1], WORD_SECOND},
                {&ring.tail, TAIL},
                {&watermark.value, WATERMARK},
                {&watermark.wake_at, WATERMARK_WAKE_AT}};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (places[i].at == at)
      return places[i].place;
  abort();
}

/* The record's first word, if it has been written since. */
static void append_first_word(void) {
  if (slot[0])
    append_traced((struct weak_op){.kind = WEAK_STORE, .place = WORD_FIRST, .value = (uint8_t)slot[0]});
  slot[0] = 0;
}

static struct weak_op op_of(enum weak_kind kind, const volatile void *at, uint64_t value, memory_order order) {
  bool both = order == memory_order_acq_rel || order == memory_order_seq_cst;
  return (struct weak_op){.kind = kind,
                          .place = place_of(at),
                          .value = (uint8_t)(value & TAG_SHARED ? SHARED : value),
                          .acquire = kind != WEAK_STORE && (both || order == memory_order_acquire),
                          .release = kind != WEAK_LOAD && (both || order == memory_order_release),
                          .sequential = order == memory_order_seq_cst};
}

static uint64_t trace(enum weak_kind kind, const volatile void *at, uint64_t value, memory_order order) {
  struct weak_op op = op_of(kind, at, value, order);
  append_first_word();
  if (kind == WEAK_LOAD) {
    op.expect = tracing.expect;
    op.expected = tracing.expected;
  }
  append_traced(op);
  tracing.over |= kind == WEAK_LOAD && tracing.ends_there;
  return kind == WEAK_LOAD ? tracing.found : 0;
}

static bool trace_replace(const volatile void *at, uint64_t expected, uint64_t value, memory_order order) {
  struct weak_op op = op_of(WEAK_EXCHANGE, at, value, order);
  op.expect = WEAK_IS;
  op.expected = (uint8_t)expected;
  append_traced(op);
  return true;
}

static void begin(const struct weak_builder *builder, unsigned thread) {
  tracing.builder = builder;
  tracing.thread = thread;
  tracing.over = tracing.ends_there = false;
  bool counted = builder->variant == WEAK_COUNTED || builder->variant == WEAK_PLAIN_COUNTED;
  host_state.flags = counted ? ATTACH_COUNTER : 0;
}

/* The same, where the code loads from memory: it must read that value, and the code is given `found`. */
static void begin_load(const struct weak_builder *builder, unsigned thread, enum weak_expect expect, uint8_t expected,
                       uint64_t found) {
  begin(builder, thread);
  tracing.expect = expect;
  tracing.expected = expected;
  tracing.found = found;
}

unsigned weak_stamp(const struct weak_builder *builder, unsigned thread) {
  begin(builder, thread);
  ownership_stamp();
  return tracing.stamp;
}

/* One turn of ownership_take. */
static unsigned take(const struct weak_builder *builder, unsigned thread, enum weak_expect found) {
  uint8_t own = (uint8_t)(thread + 1);
  begin_load(builder, thread, found, own, found == WEAK_IS ? own : TAG_LAST);
  tracing.ends_there = true;
  ownership_take(object, own);
  return tracing.stamp;
}

static unsigned stamp_each(const struct weak_builder *builder, unsigned thread, bool marks) {
  uint16_t before;
  begin_load(builder, thread, marks ? WEAK_IS_NOT : WEAK_IS, SHARED, marks ? 0 : TAG_SHARED);
  ownership_stamp_and_mark(object, (uint16_t)(thread + 1), &before);
  return tracing.stamp;
}

void weak_step(const struct weak_builder *builder, unsigned thread, enum weak_step step, unsigned *stamp) {
  switch (step) {
  case STEP_INHERITS:
    load(builder, thread, ENTRY, WEAK_IS, thread + 1);
    return;
  case STEP_CLAIMS:
    load(builder, thread, ENTRY, WEAK_IS, UNTOUCHED);
    begin(builder, thread);
    ownership_claim(object, (uint16_t)(thread + 1));
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
  append(builder, thread,
         (struct weak_op){.kind = WEAK_LOAD, .place = BATON, .expect = WEAK_IS, .expected = 1, .acquire = true});
}

void weak_read_tick(const struct weak_builder *builder, unsigned thread, uint8_t tick) {
  load(builder, thread, TICK, WEAK_IS, tick);
}

static void advance_tick(const struct weak_builder *builder, unsigned thread) {
  begin(builder, thread);
  control_advance_tick(&tables.control);
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

void weak_write_record(const struct weak_builder *builder, unsigned thread, uint8_t number, bool after_tail) {
  if (after_tail) {
    begin_load(builder, thread, WEAK_IS, 1, 1);
    ring_tail(&ring);
  }
  begin(builder, thread);
  record_put(slot, (uint64_t)number << 8, number);
  append_first_word();
}

void weak_read_record(const struct weak_builder *builder, unsigned thread, uint8_t number, bool whole) {
  uint64_t head, word;
  begin_load(builder, thread, WEAK_IS, number, number);
  record_get(slot, &head, &word);
  load(builder, thread, WORD_FIRST, whole ? WEAK_IS : WEAK_IS_NOT, number);
  builder->run->thread[thread].op[builder->run->thread[thread].count - 1].no_branch = true;
}

void weak_drain_record(const struct weak_builder *builder, unsigned thread) {
  store(builder, thread, WORD_FIRST, 0, false);
  store(builder, thread, WORD_SECOND, 0, false);
  weak_set_tail(builder, thread);
}

void weak_set_tail(const struct weak_builder *builder, unsigned thread) {
  begin(builder, thread);
  ring_set_tail(&ring, 1);
}

void weak_set(const struct weak_builder *builder, unsigned thread, uint8_t place) {
  append(builder, thread,
         (struct weak_op){.kind = WEAK_STORE, .place = place, .value = 1, .release = true, .sequential = true});
}

void weak_look(const struct weak_builder *builder, unsigned thread, uint8_t place) {
  append(builder, thread,
         (struct weak_op){
             .kind = WEAK_LOAD, .place = place, .expect = WEAK_IS, .expected = 0, .acquire = true, .sequential = true});
}

void weak_publish(const struct weak_builder *builder, unsigned thread, bool fenced) {
  begin_load(builder, thread, WEAK_IS, 0, UINT64_MAX);
  if (fenced)
    watermark_publish_fenced(&watermark, 1);
  else
    watermark_publish(&watermark, 1);
}

void weak_pass_watermark(const struct weak_builder *builder, unsigned thread) {
  begin_load(builder, thread, WEAK_IS, 1, 1);
  watermark_value(&watermark);
  load(builder, thread, BATON, WEAK_IS, 0);
}

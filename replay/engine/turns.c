/* SPDX-License-Identifier: MIT */
#include "replay/engine/turns.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/base/split_mix.h"

#include <inttypes.h>

void wait_counted(struct replay_thread *self, struct gate *gate, uint64_t value, bool fenced) {
  struct worker *worker = self->worker;
  uint64_t begin_cycles = os_cycles(), begin_ns = os_thread_cpu_ns();
  gate_wait(gate, value, fenced);
  worker->waits++;
  worker->wait_cycles += os_cycles() - begin_cycles;
  worker->wait_cpu_ns += os_thread_cpu_ns() - begin_ns;
}

uint32_t wait_target(const uint64_t *word, uint64_t *ops) {
  uint32_t thread = word_wait_thread(*word);
  *ops = word_wait_ops(*word);
  if (thread >= engine.workload.header.threads || *ops > engine.workload.op_counts[thread])
    engine_fail(word, "waits for op %" PRIu64 " of thread %" PRIu32 ", which has no such op", *ops, thread);
  return thread;
}

static void wait_for_turn(struct replay_thread *self, uint64_t granted) {
  if (gate_value(&self->granted) < granted)
    wait_counted(self, &self->granted, granted, true);
}

static enum replay_order order;

/* Number of the thread that has the turn; at first thread 0. Written by the thread that passes the turn on. */
static uint32_t holder;

/* ORDER_RECORDED. Read by the thread that has the turn. */
static struct workload_stream schedule;
enum { SCHEDULE_WORDS = 2048 };

/* ORDER_RANDOM: the live threads, in no particular order, but the same in each run. Changed by the thread that has the
   turn. */
static struct {
  uint64_t random_state;
  uint32_t *threads;
  uint32_t count;
} live;

int turns_setup(enum replay_order chosen, uint64_t seed) {
  static uint64_t buffer[SCHEDULE_WORDS];
  order = chosen;
  workload_stream_open_buffered(&schedule, &engine.workload, engine.workload.header.threads, buffer, SCHEDULE_WORDS);
  if (order != ORDER_RANDOM)
    return 0;
  live.random_state = seed;
  live.threads = os_map((engine.workload.header.threads + 1ull) * sizeof *live.threads, true);
  return live.threads ? 0 : -1;
}

static uint64_t random_below(uint64_t below) {
  return split_mix(live.random_state += SPLIT_MIX_STEP) % below;
}

static bool may_run(const struct replay_thread *thread) {
  return gate_value(&engine.completed[thread->awaited_thread]) >= thread->awaited_ops;
}

/* Picks a live thread whose next op waits for nothing, each with the same chance; NULL if there is none. Picks at
   random until one may run; after many failed picks, where nearly all wait, takes the first that may. */
static struct replay_thread *pick_thread(void) {
  for (uint32_t attempt = 0; attempt < 2 * live.count; attempt++) {
    struct replay_thread *thread = &engine.threads[live.threads[random_below(live.count)]];
    if (may_run(thread))
      return thread;
  }
  for (uint32_t index = 0; index < live.count; index++) {
    struct replay_thread *thread = &engine.threads[live.threads[index]];
    if (may_run(thread))
      return thread;
  }
  return NULL;
}

static void grant(struct replay_thread *thread, uint64_t more) {
  holder = thread->number;
  gate_publish_fenced(&thread->granted, gate_value(&thread->granted) + more);
}

void turns_thread_starts(struct replay_thread *thread) {
  if (order != ORDER_RANDOM)
    return;
  thread->turn_index = live.count;
  live.threads[live.count++] = thread->number;
}

void turns_begin(struct replay_thread *self) {
  if (order != ORDER_RANDOM || self->number == 0)
    return;
  wait_for_turn(self, ++self->turns);
}

/* Passes the turn to a thread picked at random, and waits for the turn to come back. */
static void pass_at_random(struct replay_thread *self) {
  HT_ASSERT(holder == self->number);
  struct replay_thread *next = pick_thread();
  if (!next)
    engine_fail(NULL, "the workload's threads all wait for one another");
  if (next == self)
    return;
  grant(next, 1);
  wait_for_turn(self, ++self->turns);
}

/* Self has the turn if it was granted any ops and has used them up: passes it to the schedule's next thread. */
static void pass_by_schedule(struct replay_thread *self, uint64_t completed) {
  if (completed == 0 && self->number != 0)
    return;
  HT_ASSERT(holder == self->number);
  uint64_t run;
  if (!workload_stream_next(&schedule, &run))
    return;
  uint64_t thread = (uint32_t)run, ops = run >> 32;
  if (thread >= engine.workload.header.threads || ops == 0)
    engine_fail(NULL, "bad run in the schedule");
  grant(&engine.threads[thread], ops);
}

uint64_t turns_next(struct replay_thread *self, uint64_t completed) {
  if (order == ORDER_RANDOM) {
    pass_at_random(self);
    return completed + 1 + random_below(TURN_OPS);
  }
  pass_by_schedule(self, completed);
  if (gate_value(&self->granted) <= completed)
    wait_for_turn(self, completed + 1);
  return gate_value(&self->granted);
}

bool turns_wait(struct replay_thread *self, const uint64_t *word) {
  if (order != ORDER_RANDOM)
    return false; /* the recorded order implies it */
  self->awaited_thread = wait_target(word, &self->awaited_ops);
  bool waits = !may_run(self);
  if (waits)
    pass_at_random(self);
  self->awaited_ops = 0;
  return waits;
}

void turns_end(struct replay_thread *self, uint64_t completed) {
  if (order != ORDER_RANDOM) {
    pass_by_schedule(self, completed);
    return;
  }
  HT_ASSERT(holder == self->number && live.count > 0 && live.threads[self->turn_index] == self->number);
  uint32_t last = live.threads[--live.count];
  live.threads[self->turn_index] = last;
  engine.threads[last].turn_index = self->turn_index;
  if (live.count == 0)
    return;
  struct replay_thread *next = pick_thread();
  if (!next)
    engine_fail(NULL, "the workload's threads all wait for one another");
  grant(next, 1);
}

#include "replay/order/turns.h"

#include "core/base/os.h"
#include "replay/engine/threads.h"
#include "replay/order/order.h"

static enum replay_order order;

/* Whoever has the turn reads it on. */
static struct stream schedule;
enum { SCHEDULE_WORDS = 2048 };

/* ORDER_RANDOM. Changed by whoever has the turn. */
static struct {
  uint64_t state;
  uint32_t *threads; /* that live, in no order that means anything, but in the same one each time */
  uint32_t count;
} lots;

int turns_setup(enum replay_order chosen, uint64_t seed) {
  static uint64_t buffer[SCHEDULE_WORDS];
  order = chosen;
  stream_open(&schedule, &engine.map, engine.map.header.threads, buffer, SCHEDULE_WORDS);
  if (order != ORDER_RANDOM)
    return 0;
  lots.state = seed;
  lots.threads = os_map((engine.map.header.threads + 1ull) * sizeof *lots.threads, true);
  return lots.threads ? 0 : -1;
}

/* SplitMix64. */
static uint64_t draw(uint64_t below) {
  uint64_t mixed = lots.state += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
  return (mixed ^ mixed >> 31) % below;
}

static bool may_run(const struct replay_thread *thread) {
  return gate_value(&engine.completed[thread->awaited_thread]) >= thread->awaited_ops;
}

/* A thread that waits for nothing, each with the same chance; NULL if there is none. Those drawn in vain are few unless
   nearly all wait, then the rest of the row is gone through from there. */
static struct replay_thread *draw_thread(void) {
  for (uint32_t attempt = 0; attempt < 2 * lots.count; attempt++) {
    struct replay_thread *thread = &engine.threads[lots.threads[draw(lots.count)]];
    if (may_run(thread))
      return thread;
  }
  for (uint32_t index = 0; index < lots.count; index++) {
    struct replay_thread *thread = &engine.threads[lots.threads[index]];
    if (may_run(thread))
      return thread;
  }
  return NULL;
}

static void grant(struct replay_thread *thread, uint64_t more) {
  gate_publish_fenced(&thread->granted, gate_value(&thread->granted) + more);
}

void turns_thread_starts(struct replay_thread *thread) {
  if (order != ORDER_RANDOM)
    return;
  thread->lot = lots.count;
  lots.threads[lots.count++] = thread->number;
}

void turns_begin(struct replay_thread *self) {
  if (order != ORDER_RANDOM || self->number == 0)
    return;
  order_wait_turn(self, ++self->turns);
  threads_reap();
}

/* Gives the turn to whom the lot falls, and waits for it to come back. */
static void draw_turn(struct replay_thread *self) {
  struct replay_thread *next = draw_thread();
  if (!next)
    engine_fail(NULL, "the workload's threads all wait for one another");
  if (next == self)
    return;
  grant(next, 1);
  order_wait_turn(self, ++self->turns);
  threads_reap();
}

/* The turn lies with self if it has used up what it was granted, and was granted anything. */
static void pass_on(struct replay_thread *self, uint64_t completed) {
  if (completed == 0 && self->number != 0)
    return;
  if (schedule.at == schedule.end && !stream_refill(&schedule))
    return;
  uint64_t thread = (uint32_t)*schedule.at, ops = *schedule.at >> 32;
  schedule.at++;
  if (thread >= engine.map.header.threads || ops == 0)
    engine_fail(NULL, "bad run in the schedule");
  grant(&engine.threads[thread], ops);
}

uint64_t turns_next(struct replay_thread *self, uint64_t completed) {
  if (order == ORDER_RANDOM) {
    draw_turn(self);
    return completed + 1 + draw(TURN_OPS);
  }
  pass_on(self, completed);
  if (gate_value(&self->granted) <= completed)
    order_wait_turn(self, completed + 1);
  threads_reap();
  return gate_value(&self->granted);
}

void turns_wait(struct replay_thread *self, const uint64_t *word) {
  if (order != ORDER_RANDOM)
    return; /* the recorded order implies it */
  self->awaited_thread = order_wait_target(word, &self->awaited_ops);
  if (!may_run(self))
    draw_turn(self);
  self->awaited_ops = 0;
}

void turns_end(struct replay_thread *self, uint64_t completed) {
  if (order != ORDER_RANDOM) {
    pass_on(self, completed);
    return;
  }
  uint32_t last = lots.threads[--lots.count];
  lots.threads[self->lot] = last;
  engine.threads[last].lot = self->lot;
  if (lots.count == 0)
    return;
  struct replay_thread *next = draw_thread();
  if (!next)
    engine_fail(NULL, "the workload's threads all wait for one another");
  grant(next, 1);
}

/* SPDX-License-Identifier: MIT */
#include "replay/engine/order.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/base/split_mix.h"

#include <inttypes.h>

static enum replay_order order;

/* ---- Waiting, and turns ---- */

/* Waits until the watermark is at least value, and adds the cost to the thread's worker, so that waiting is not part of
   the replay's time; for waits that are not over at once. fenced: whether the watermark is (watermark.h). */
static void wait_counted(struct replay_thread *self, struct watermark *watermark, uint64_t value, bool fenced) {
  struct worker *worker = self->worker;
  uint64_t begin_cycles = os_cycles(), begin_ns = os_thread_cpu_ns();
  watermark_wait(watermark, value, fenced);
  worker->waits++;
  worker->wait_cycles += os_cycles() - begin_cycles;
  worker->wait_cpu_ns += os_thread_cpu_ns() - begin_ns;
}

/* The thread that a WAIT names, and its ops. Ends the process if either does not exist. */
static uint32_t wait_target(const uint64_t *word, uint64_t *ops) {
  uint32_t thread = word_wait_thread(*word);
  *ops = word_wait_ops(*word);
  if (thread >= engine.workload.header.threads || *ops > engine.workload.op_counts[thread])
    engine_fail(word, "waits for op %" PRIu64 " of thread %" PRIu32 ", which has no such op", *ops, thread);
  return thread;
}

static void wait_for_turn(struct replay_thread *self, uint64_t granted) {
  if (watermark_value(&self->granted) < granted)
    wait_counted(self, &self->granted, granted, true);
}

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
} turns;

static int turns_setup(uint64_t seed) {
  static uint64_t buffer[SCHEDULE_WORDS];
  workload_stream_open_buffered(&schedule, &engine.workload, engine.workload.header.threads, buffer, SCHEDULE_WORDS);
  if (order != ORDER_RANDOM)
    return 0;
  turns.random_state = seed;
  turns.threads = os_map((engine.workload.header.threads + 1ull) * sizeof *turns.threads, true);
  return turns.threads ? 0 : -1;
}

static uint64_t random_below(uint64_t below) {
  return split_mix_next(&turns.random_state) % below;
}

static bool may_run(const struct replay_thread *thread) {
  return watermark_value(&engine.completed[thread->awaited_thread]) >= thread->awaited_ops;
}

/* Picks a live thread whose next op waits for nothing, each with the same chance; NULL if there is none. Picks at
   random until one may run; after many failed picks, where nearly all wait, takes the first that may. */
static struct replay_thread *pick_thread(void) {
  for (uint32_t attempt = 0; attempt < 2 * turns.count; attempt++) {
    struct replay_thread *thread = &engine.threads[turns.threads[random_below(turns.count)]];
    if (may_run(thread))
      return thread;
  }
  for (uint32_t index = 0; index < turns.count; index++) {
    struct replay_thread *thread = &engine.threads[turns.threads[index]];
    if (may_run(thread))
      return thread;
  }
  return NULL;
}

static void grant(struct replay_thread *thread, uint64_t more) {
  holder = thread->number;
  watermark_publish_fenced(&thread->granted, watermark_value(&thread->granted) + more);
}

static void turns_thread_starts(struct replay_thread *thread) {
  if (order != ORDER_RANDOM)
    return;
  thread->turn_index = turns.count;
  turns.threads[turns.count++] = thread->number;
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
  if (watermark_value(&self->granted) <= completed)
    wait_for_turn(self, completed + 1);
  return watermark_value(&self->granted);
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
  HT_ASSERT(holder == self->number && turns.count > 0 && turns.threads[self->turn_index] == self->number);
  uint32_t last = turns.threads[--turns.count];
  turns.threads[self->turn_index] = last;
  engine.threads[last].turn_index = self->turn_index;
  if (turns.count == 0)
    return;
  struct replay_thread *next = pick_thread();
  if (!next)
    engine_fail(NULL, "the workload's threads all wait for one another");
  grant(next, 1);
}

/* ---- The window and the pace ---- */

static uint64_t window;

/* Positions of the slowest live thread, as last found: only rises. Read at each MARK, therefore in a separate cache
   line. */
static struct { _Alignas(64) _Atomic uint64_t position; } slowest;

/* Live threads, in no order. Read without the lock: missing a thread or reading it twice makes the window a little
   wider for one search. */
static struct {
  pthread_mutex_t lock;
  _Atomic uint32_t count;
  _Atomic uint32_t *threads;
} live = {.lock = PTHREAD_MUTEX_INITIALIZER};

int order_setup(const struct run_spec *spec) {
  order = spec->order;
  window = spec->window > WORKLOAD_MARK_INTERVAL ? spec->window : WORKLOAD_MARK_INTERVAL;
  live.threads = os_map((engine.workload.header.threads + 1ull) * sizeof *live.threads, true);
  return live.threads ? turns_setup(spec->seed) : -1;
}

void order_thread_starts(struct replay_thread *thread, uint64_t position) {
  watermark_init(&thread->position, position);
  turns_thread_starts(thread);
  pthread_mutex_lock(&live.lock);
  thread->live_index = atomic_load(&live.count);
  atomic_store(&live.threads[thread->live_index], thread->number);
  atomic_store(&live.count, thread->live_index + 1);
  pthread_mutex_unlock(&live.lock);
}

void order_thread_ends(struct replay_thread *thread) {
  watermark_publish(&thread->position, UINT64_MAX);
  pthread_mutex_lock(&live.lock);
  HT_ASSERT(atomic_load(&live.threads[thread->live_index]) == thread->number);
  uint32_t last = atomic_load(&live.count) - 1;
  uint32_t moved = atomic_load(&live.threads[last]);
  atomic_store(&live.threads[thread->live_index], moved);
  engine.threads[moved].live_index = thread->live_index;
  atomic_store(&live.count, last);
  pthread_mutex_unlock(&live.lock);
}

void order_wait(struct replay_thread *self, const uint64_t *word) {
  uint64_t ops;
  uint32_t thread = wait_target(word, &ops);
  struct worker *worker = self->worker;
  uint32_t entry = thread % SEEN_ENTRIES;
  if (worker->seen[entry].thread == thread && worker->seen[entry].ops >= ops)
    return;
  struct watermark *watermark = &engine.completed[thread];
  if (watermark_value(watermark) < ops)
    wait_counted(self, watermark, ops, false);
  worker->seen[entry].thread = thread;
  worker->seen[entry].ops = watermark_value(watermark);
}

/* Returns the live thread that is furthest behind; NULL if no thread is live. */
static struct replay_thread *find_slowest(uint64_t *position) {
  struct replay_thread *found = NULL;
  *position = UINT64_MAX;
  uint32_t count = atomic_load_explicit(&live.count, memory_order_relaxed);
  for (uint32_t index = 0; index < count; index++) {
    struct replay_thread *thread = &engine.threads[atomic_load_explicit(&live.threads[index], memory_order_relaxed)];
    uint64_t at = watermark_value(&thread->position);
    if (at < *position) {
      *position = at;
      found = thread;
    }
  }
  return found;
}

/* Out of line: else each MARK would save registers for it. */
static __attribute__((noinline)) void wait_for_window(struct replay_thread *self, uint64_t position) {
  for (;;) {
    uint64_t behind;
    struct replay_thread *thread = find_slowest(&behind);
    uint64_t known = atomic_load_explicit(&slowest.position, memory_order_relaxed);
    while (behind > known && !atomic_compare_exchange_weak(&slowest.position, &known, behind))
      ;
    if (!thread || thread == self || position <= window || behind >= position - window)
      return;
    /* Waits until half the window is free again: if threads were woken at each step of the slowest, they would do
       nothing else. Never until less than a MARK interval is left: the slowest thread's next op may be that far beyond
       its MARK, hence beyond ours, and wait for one of our ops. */
    uint64_t slack = window / 2 > WORKLOAD_MARK_INTERVAL ? window / 2 : WORKLOAD_MARK_INTERVAL;
    wait_counted(self, &thread->position, position - slack, false);
  }
}

void order_mark(struct replay_thread *self, uint64_t position) {
  watermark_publish(&self->position, position);
  if (order == ORDER_WINDOW && position > atomic_load_explicit(&slowest.position, memory_order_relaxed) + window)
    wait_for_window(self, position);
}

static struct {
  double speed;
  uint64_t first_ns; /* recorded time of the first op */
  uint64_t begin_ns;
} pace;

void pace_recorded_span(uint64_t *first_ns, uint64_t *last_ns) {
  struct workload_stream line;
  uint64_t buffer[512], word, words = 0;
  *first_ns = *last_ns = 0;
  workload_stream_open_buffered(&line, &engine.workload, engine.workload.header.threads + 1, buffer,
                                sizeof buffer / sizeof *buffer);
  /* Groups of position, time, live bytes, live objects. */
  for (; workload_stream_next(&line, &word); words++) {
    if (words % 4 == 1)
      *last_ns = word;
    if (words == 1)
      *first_ns = word;
  }
}

bool pace_times_known(void) {
  uint64_t first_ns, last_ns;
  pace_recorded_span(&first_ns, &last_ns);
  return last_ns > 0;
}

int pace_setup(double speed) {
  uint64_t last_ns;
  pace_recorded_span(&pace.first_ns, &last_ns);
  pace.speed = speed;
  return last_ns > 0 ? 0 : -1;
}

void pace_begin(void) {
  pace.begin_ns = os_monotonic_ns();
}

void pace_wait(struct replay_thread *self, uint64_t time_ns) {
  double after_ns = time_ns > pace.first_ns ? (double)(time_ns - pace.first_ns) / pace.speed : 0;
  uint64_t due_ns = pace.begin_ns + (uint64_t)after_ns, now_ns = os_monotonic_ns();
  struct worker *worker = self->worker;
  if (now_ns < due_ns) {
    atomic_fetch_add(&engine.result->pacing_threads, 1);
    os_sleep_until_ns(due_ns);
    atomic_fetch_sub(&engine.result->pacing_threads, 1);
    now_ns = os_monotonic_ns();
    worker->pace.sleeps++;
  }
  uint64_t late_ns = now_ns - due_ns;
  worker->pace.times++;
  worker->pace.late_ns += late_ns;
  worker->pace.late_max_ns = late_ns > worker->pace.late_max_ns ? late_ns : worker->pace.late_max_ns;
}

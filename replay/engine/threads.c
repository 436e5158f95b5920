/* SPDX-License-Identifier: MIT */
#include "replay/engine/threads.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/system/process.h"
#include "replay/calls/call.h"
#include "replay/engine/order.h"
#include "replay/engine/recorded_clock.h"
#include "replay/engine/watermark.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

/* Sanitizers need more. */
#ifndef STACK_KIB
#define STACK_KIB 256
#endif

enum {
  STACK_BYTES = STACK_KIB << 10,
  STACK_PREFAULT_BYTES = 32 << 10, /* its top, with thread control block and first frames */
  LIVE_LIMIT = 32768,              /* threads at the same time; the kernel's own limit is near */
  BUFFERS_BYTES = 16 << 20,
  SMALLEST_BUFFER_BYTES = 4 << 10,
  GUARD_BYTES = 64, /* at each buffer's end, for the loop's guard word; a whole line, so that reads stay aligned to
                       lines */
  LARGEST_BUFFER_BYTES = 64 << 10,
};

/* Exported by heaptape's recording library; null elsewhere. Declared here, as replay must not include capture. */
__attribute__((weak, visibility("default"))) void heaptape_lib_exclude(void);
__attribute__((weak, visibility("default"))) void heaptape_lib_include(void);

static void (*thread_body)(struct replay_thread *self);

static struct {
  pthread_mutex_t lock;
  uint8_t *stacks;
  uint64_t *buffers; /* of the workers' streams */
  uint32_t buffer_bytes;
  struct worker *workers;
  uint32_t *idle; /* numbers of workers that were used and are free now */
  uint32_t idle_count, used, limit;
  cpu_set_t allowed;
  uint32_t processors; /* in it; 0: threads run anywhere */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
  pthread_mutex_t lock;
  struct replay_thread *_Atomic first;
} ended = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void pause_recording(void) {
  if (heaptape_lib_exclude)
    heaptape_lib_exclude();
}

static void resume_recording(void) {
  if (heaptape_lib_include)
    heaptape_lib_include();
}

/* Keeps all streams' buffers together near BUFFERS_BYTES, whatever the number of threads. */
static uint32_t stream_buffer_bytes(uint32_t workers) {
  uint32_t share = BUFFERS_BYTES / workers;
  return share > LARGEST_BUFFER_BYTES    ? LARGEST_BUFFER_BYTES
         : share < SMALLEST_BUFFER_BYTES ? SMALLEST_BUFFER_BYTES
                                         : share & ~4095u;
}

static uint8_t *stack_of(const struct worker *worker) {
  return pool.stacks + (size_t)(worker - pool.workers) * STACK_BYTES;
}

static uint64_t *buffer_of(const struct worker *worker) {
  return pool.buffers + (size_t)(worker - pool.workers) * (pool.buffer_bytes / sizeof *pool.buffers);
}

/* --threads-to-cores. Where there are more processors than cpu_set_t holds, threads run anywhere. */
static void find_processors(void) {
  if (engine.spec->threads_to_cores && sched_getaffinity(0, sizeof pool.allowed, &pool.allowed) == 0)
    pool.processors = (uint32_t)CPU_COUNT(&pool.allowed);
}

static cpu_set_t processor_of(uint32_t thread) {
  uint32_t before = thread % pool.processors;
  size_t processor = 0;
  while (!CPU_ISSET(processor, &pool.allowed) || before-- > 0)
    processor++;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(processor, &only);
  return only;
}

static int own_setup(void) {
  size_t bytes = (engine.pass->worker_bytes + 63) & ~(size_t)63;
  uint8_t *all = os_map((size_t)pool.limit * bytes, true);
  if (!all)
    return -1;
  for (uint32_t number = 0; number < pool.limit; number++)
    pool.workers[number].own = all + number * bytes;
  return 0;
}

int threads_setup(void (*body)(struct replay_thread *self)) {
  thread_body = body;
  find_processors();
  uint32_t threads = engine.workload.header.threads;
  pool.limit = threads < 1 ? 1 : threads < LIVE_LIMIT ? threads : LIVE_LIMIT;
  pool.stacks = os_map((size_t)pool.limit * STACK_BYTES, true);
  pool.buffer_bytes = stream_buffer_bytes(pool.limit);
  pool.buffers = os_map((size_t)pool.limit * pool.buffer_bytes, true);
  pool.workers = os_map((size_t)pool.limit * sizeof *pool.workers, true);
  pool.idle = os_map((size_t)pool.limit * sizeof *pool.idle, true);
  engine.threads = os_map((threads + 1ull) * sizeof *engine.threads, true);
  if (!pool.stacks || !pool.buffers || !pool.workers || !pool.idle || !engine.threads)
    return -1;
  memset(pool.idle, 0, pool.limit * sizeof *pool.idle);
  if (engine.pass->worker_bytes > 0 && own_setup() != 0)
    return -1;
  for (uint32_t number = 0; number < threads; number++) {
    struct replay_thread *thread = &engine.threads[number];
    thread->number = number;
    watermark_init(&thread->position, 0);
    watermark_init(&thread->granted, 0);
    watermark_init(&engine.completed[number], 0);
  }
  return 0;
}

static struct worker *take_worker(void) {
  struct worker *worker = NULL;
  pthread_mutex_lock(&pool.lock);
  if (pool.idle_count > 0)
    worker = &pool.workers[pool.idle[--pool.idle_count]];
  else if (pool.used < pool.limit)
    worker = &pool.workers[pool.used++];
  pthread_mutex_unlock(&pool.lock);
  return worker;
}

static void give_worker_back(struct worker *worker) {
  pthread_mutex_lock(&pool.lock);
  HT_ASSERT(pool.idle_count < pool.used && pool.used <= pool.limit);
  pool.idle[pool.idle_count++] = (uint32_t)(worker - pool.workers);
  pthread_mutex_unlock(&pool.lock);
}

void threads_reap(void) {
  if (!atomic_load_explicit(&ended.first, memory_order_relaxed))
    return;
  pthread_mutex_lock(&ended.lock);
  pause_recording();
  for (struct replay_thread *thread = atomic_load(&ended.first); thread; thread = thread->next_ended) {
    pthread_join(thread->handle, NULL);
    give_worker_back(thread->worker);
  }
  resume_recording();
  /* Not before: a thread that finds the list empty may rely on all ended threads being gone. */
  atomic_store(&ended.first, NULL);
  pthread_mutex_unlock(&ended.lock);
}

/* Keeps a thread's waits if it is among those that waited longest. */
static void note_waits(const struct replay_waits *waits) {
  struct replay_waits *kept = engine.result->most_waits, *least = kept;
  pthread_mutex_lock(&pool.lock);
  engine.result->life_cycles += waits->life_cycles;
  for (int index = 1; index < WAITS_KEPT; index++)
    least = kept[index].cycles < least->cycles ? &kept[index] : least;
  if (waits->cycles > least->cycles)
    *least = *waits;
  pthread_mutex_unlock(&pool.lock);
}

static uint64_t other_cpu_ns(const struct worker *worker) {
  return worker->wait_cpu_ns + worker->start_cpu_ns + watermark_wake_cpu_ns();
}

static void open_stream(struct replay_thread *self) {
  workload_stream_open_buffered(&self->worker->stream, &engine.workload, self->number, buffer_of(self->worker),
                                (uint32_t)((pool.buffer_bytes - GUARD_BYTES) / sizeof *pool.buffers));
}

static void run_stream(struct replay_thread *self) {
  struct worker *worker = self->worker;
  uint64_t other_ns = other_cpu_ns(worker);
  struct replay_waits waits = {worker->waits, worker->wait_cycles, os_cycles(), self->number};
  open_stream(self);
  turns_begin(self);
  if (engine.spec->order == ORDER_RANDOM)
    threads_reap(); /* self has the turn */
  if (engine.pass->thread_begins)
    engine.pass->thread_begins(self);
  uint64_t begin_ns = os_thread_cpu_ns();
  thread_body(self);
  uint64_t cpu_ns = os_thread_cpu_ns() - begin_ns;
  other_ns = other_cpu_ns(worker) - other_ns;
  worker->cpu_ns += cpu_ns > other_ns ? cpu_ns - other_ns : 0;
  waits.count = worker->waits - waits.count;
  waits.cycles = worker->wait_cycles - waits.cycles;
  waits.life_cycles = os_cycles() - waits.life_cycles;
  note_waits(&waits);
}

static void leave(void) {
  if (atomic_fetch_sub(&engine.result->live_threads, 1) == 1)
    os_futex_wake((const uint32_t *)&engine.result->live_threads, INT_MAX, false);
}

static void *thread_main(void *argument) {
  struct replay_thread *self = argument;
  run_stream(self);
  order_thread_ends(self);
  pthread_mutex_lock(&ended.lock);
  self->next_ended = atomic_load(&ended.first);
  atomic_store(&ended.first, self);
  pthread_mutex_unlock(&ended.lock);
  /* Not before: whichever thread gets the turn joins this thread before it continues. */
  if (order_by_turns(engine.spec->order))
    turns_end(self, watermark_value(&engine.completed[self->number]));
  leave();
  /* The program's recording already has, as calls, what libc frees when a thread exits. */
  pause_recording();
  if (engine.pass->thread_ends)
    engine.pass->thread_ends(self);
  return NULL;
}

static void touch_os_pages(void *memory, size_t bytes) {
  /* Where the parent counts system calls, every madvise of the replay is counted as the allocator's. */
  bool may_advise = !engine.pass->samples_memory;
  if (may_advise && madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
    return;
  for (size_t offset = 0; offset < bytes; offset += 4096)
    ((volatile uint8_t *)memory)[offset] = 0;
}

/* Faults a stack's top and a stream's buffer in beforehand, so that these faults are not counted as the allocator's. */
static void prefault(struct worker *worker) {
  if (worker->prefaulted)
    return;
  worker->prefaulted = true;
  uint64_t faults = faults_of_thread();
  touch_os_pages(stack_of(worker) + STACK_BYTES - STACK_PREFAULT_BYTES, STACK_PREFAULT_BYTES);
  touch_os_pages(buffer_of(worker), pool.buffer_bytes);
  worker->engine_faults += faults_of_thread() - faults;
}

static void start(uint32_t number, const uint64_t *word, uint64_t position) {
  if (number == 0 || number >= engine.workload.header.threads)
    engine_fail(word, "starts thread %" PRIu32 ", which does not exist or is the first", number);
  struct replay_thread *thread = &engine.threads[number];
  if (atomic_exchange(&thread->started, true))
    engine_fail(word, "starts thread %" PRIu32 " a second time", number);
  threads_reap();
  thread->worker = take_worker();
  if (!thread->worker)
    engine_fail(word, "more than %d threads at the same time", LIVE_LIMIT);
  prefault(thread->worker);
  order_thread_starts(thread, position);
  atomic_fetch_add(&engine.result->live_threads, 1);
  pthread_attr_t attributes;
  pause_recording();
  pthread_attr_init(&attributes);
  if (pool.processors > 0) {
    cpu_set_t only = processor_of(number);
    pthread_attr_setaffinity_np(&attributes, sizeof only, &only);
  }
  pthread_attr_setstack(&attributes, stack_of(thread->worker), STACK_BYTES);
  int status = pthread_create(&thread->handle, &attributes, thread_main, thread);
  pthread_attr_destroy(&attributes);
  resume_recording();
  if (status != 0)
    engine_fail(word, "can't start thread %" PRIu32 ": %s", number, strerror(status));
}

void threads_start(struct replay_thread *starter, const uint64_t *word, uint64_t position) {
  uint64_t begin_ns = os_thread_cpu_ns();
  start(word_wait_thread(*word), word, position);
  starter->worker->start_cpu_ns += os_thread_cpu_ns() - begin_ns;
}

/* Gives thread 0 its worker. */
static struct replay_thread *prepare_first(void) {
  struct replay_thread *self = &engine.threads[0];
  self->worker = take_worker();
  if (pool.processors > 0) {
    cpu_set_t only = processor_of(0);
    sched_setaffinity(0, sizeof only, &only);
  }
  prefault(self->worker);
  return self;
}

static void release_live(void) {
  for (uint32_t slot = 0; slot < engine.workload.header.slots; slot++) {
    if (engine.objects[slot].pointer)
      allocator.free(engine.objects[slot].pointer);
    engine.objects[slot] = (struct object){0};
  }
}

void threads_warm_up(uint64_t rounds, void (*body)(struct replay_thread *self)) {
  if (rounds == 0)
    return;
  struct replay_thread *self = prepare_first();
  struct worker *worker = self->worker, before = *worker;
  for (uint64_t round = 0; round < rounds; round++) {
    open_stream(self);
    body(self);
    release_live();
    watermark_init(&engine.completed[0], 0);
    watermark_init(&self->position, 0);
    recorded_clock_begin_again();
  }
  *worker = before; /* its counts are of the measured round */
  give_worker_back(worker);
}

void threads_run_all(void) {
  struct replay_thread *self = prepare_first();
  atomic_store(&self->started, true);
  order_thread_starts(self, 0);
  atomic_store(&engine.result->live_threads, 1);
  if (engine.workload.header.threads > 0)
    run_stream(self);
  order_thread_ends(self);
  if (order_by_turns(engine.spec->order))
    turns_end(self, watermark_value(&engine.completed[0]));
  leave();
  uint32_t live;
  while ((live = atomic_load(&engine.result->live_threads)) > 0)
    os_futex_wait((const uint32_t *)&engine.result->live_threads, live, 0, false);
  threads_reap();
}

void threads_visit_workers(void (*visit)(const struct worker *worker)) {
  for (uint32_t number = 0; number < pool.used; number++)
    visit(&pool.workers[number]);
}

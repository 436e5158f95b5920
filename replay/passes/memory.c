/* SPDX-License-Identifier: MIT */
#include "replay/passes/memory.h"

#include "core/base/assert.h"
#include "replay/engine/faults.h"
#include "replay/engine/proc_status.h"
#include "replay/memory/memory_map.h"

#include <fcntl.h>

enum { EVEN_SAMPLES = 2048 };

static int status_fd = -1;

static struct {
  struct replay_result *result;
  _Atomic int64_t live_bytes;
  _Atomic uint64_t next_position, next_maximum;
  uint64_t interval, map_interval, next_map;
  pthread_mutex_t lock;
  bool busy; /* one thread samples at a time */
} sampler = {.lock = PTHREAD_MUTEX_INITIALIZER};

int memory_read(uint64_t *rss_anon_bytes, uint64_t *vm_size_bytes) {
  struct proc_status status;
  if (proc_status_read(status_fd, &status) != 0)
    return -1;
  *rss_anon_bytes = status.rss_anon_bytes;
  *vm_size_bytes = status.vm_size_bytes;
  return 0;
}

int memory_setup(struct replay_result *result, bool sampling) {
  status_fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (status_fd < 0)
    return -1;
  sampler.result = result;
  uint64_t ops = engine.workload.header.ops;
  sampler.interval = ops / EVEN_SAMPLES ? ops / EVEN_SAMPLES : 1;
  sampler.map_interval = (ops + MAP_POSITIONS - 1) / MAP_POSITIONS; /* rounded up: there is no room for more */
  if (result->setup.pass == PASS_BLAME)
    sampler.map_interval = UINT64_MAX / 2; /* position 0 only: the blame pass adds the others */
  atomic_store(&sampler.next_position, sampler.interval);
  atomic_store(&sampler.next_maximum, 64 << 10);
  return sampling ? memory_map_setup(result) : 0;
}

/* Rows are in rising order of positions; a thread that was overtaken between its op and its sample adds nothing.
   at_end: all threads have ended; before that the row of the last op is not added to the map, as it is taken again. */
static void add_row(uint64_t position, bool at_end) {
  struct replay_result *result = sampler.result;
  uint64_t rows = result->rows;
  HT_ASSERT(rows < 2 || result->timeline[rows - 2].position < result->timeline[rows - 1].position);
  if (rows > 0 && result->timeline[rows - 1].position >= position)
    return;
  if (rows == TIMELINE_ROWS) {
    result->rows_lost++;
    return;
  }
  struct replay_row *row = &result->timeline[rows];
  row->position = position;
  row->live_bytes = (uint64_t)atomic_load(&sampler.live_bytes);
  if (memory_read(&row->rss_anon_bytes, &row->vm_size_bytes) == 0)
    result->rows++;
  if (at_end ? result->setup.pass != PASS_BLAME
             : position >= sampler.next_map && position < engine.workload.header.ops) {
    memory_map_add(position, row->rss_anon_bytes);
    sampler.next_map = position + sampler.map_interval;
  }
}

void memory_begin(void) {
  add_row(0, false);
}

void memory_end(void) {
  HT_ASSERT(!sampler.busy);
  struct replay_result *result = sampler.result;
  uint64_t done = atomic_load(&result->done);
  if (result->rows > 0 && result->timeline[result->rows - 1].position == done)
    result->rows--; /* taken again, now that all threads have ended */
  if (result->rows == TIMELINE_ROWS)
    result->rows--;
  add_row(done, true);
  result->live_bytes_end = (uint64_t)atomic_load(&sampler.live_bytes);
  struct proc_status status;
  if (proc_status_read(status_fd, &status) == 0)
    result->vm_hwm_bytes = status.vm_hwm_bytes;
}

static __attribute__((noinline)) void sample(struct worker *worker) {
  uint64_t faults = faults_of_thread();
  pthread_mutex_lock(&sampler.lock);
  HT_ASSERT(!sampler.busy);
  sampler.busy = true;
  uint64_t position = atomic_load(&sampler.result->done);
  uint64_t live_bytes = (uint64_t)atomic_load(&sampler.live_bytes);
  add_row(position, false);
  if (position >= atomic_load(&sampler.next_position))
    atomic_store(&sampler.next_position, position + sampler.interval);
  if (live_bytes >= atomic_load(&sampler.next_maximum))
    atomic_store(&sampler.next_maximum, live_bytes + live_bytes / 100 + 1);
  sampler.busy = false;
  pthread_mutex_unlock(&sampler.lock);
  worker->engine_faults += faults_of_thread() - faults;
}

void memory_after_op(struct worker *worker, int64_t live_change) {
  uint64_t done = atomic_fetch_add(&sampler.result->done, 1) + 1;
  int64_t live = atomic_fetch_add(&sampler.live_bytes, live_change) + live_change;
  uint64_t peak = atomic_load_explicit(&sampler.result->live_bytes_peak, memory_order_relaxed);
  while (live > 0 && (uint64_t)live > peak &&
         !atomic_compare_exchange_weak(&sampler.result->live_bytes_peak, &peak, (uint64_t)live))
    ;
  if (done >= atomic_load_explicit(&sampler.next_position, memory_order_relaxed) ||
      (live > 0 && (uint64_t)live >= atomic_load_explicit(&sampler.next_maximum, memory_order_relaxed)))
    sample(worker);
}

/* SPDX-License-Identifier: MIT */
#include "replay/passes/memory.h"

#include "core/base/assert.h"
#include "core/system/process.h"
#include "replay/calls/call.h"
#include "replay/engine/loaded.h"
#include "replay/engine/loop.h"
#include "replay/engine/recorded_clock.h"
#include "replay/engine/state.h"
#include "replay/memory/fragmentation.h"
#include "replay/parent/run.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>

enum { EVEN_SAMPLES = 2048, WALL_READINGS = 4096 };

static int status_fd = -1;

static struct {
  struct memory_figures *figures;
  _Atomic int64_t live_bytes;
  _Atomic uint64_t next_position, next_maximum;
  uint64_t interval, map_interval, next_map;
  pthread_mutex_t lock;
  uint64_t last_rss_bytes, last_faults; /* of the sample before */
  uint64_t wall_at_ns, wall_end_ns, wall_step_ns;
  bool with_map;
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

void memory_setup(bool with_map) {
  struct memory_figures *figures = sampler.figures = engine.figures;
  status_fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  uint64_t ops = engine.workload.header.ops;
  sampler.interval = ops / EVEN_SAMPLES ? ops / EVEN_SAMPLES : 1;
  sampler.with_map = with_map;
  sampler.map_interval = with_map
                             ? (ops + MAP_POSITIONS - 1) / MAP_POSITIONS /* rounded up: there is no room for more */
                             : UINT64_MAX / 2;                           /* position 0 only */
  pace_recorded_span(&sampler.wall_at_ns, &sampler.wall_end_ns);
  figures->wall_from_ns = sampler.wall_at_ns;
  figures->wall_ns = sampler.wall_end_ns - sampler.wall_at_ns;
  sampler.wall_step_ns = figures->wall_ns / WALL_READINGS + WORKLOAD_TIME_INTERVAL_NS;
  atomic_store(&sampler.next_position, sampler.interval);
  atomic_store(&sampler.next_maximum, 64 << 10);
  if (status_fd < 0 || memory_map_setup(figures) != 0)
    engine_fail(NULL, "/proc/self/status: %s", strerror(errno));
}

void memory_read_start(void) {
  memory_read(&sampler.figures->rss_anon_start_bytes, &sampler.figures->vm_size_start_bytes);
  sampler.last_rss_bytes = sampler.figures->rss_anon_start_bytes;
  sampler.last_faults = faults_of_process();
}

/* What RSS grew by beyond an OS page for each fault is of huge pages, unless it is little: the kernel's counters may be
   off by some OS pages. */
static void count_huge_pages(uint64_t rss_anon_bytes) {
  uint64_t faults = faults_of_process();
  int64_t beyond =
      (int64_t)(rss_anon_bytes - sampler.last_rss_bytes - (faults - sampler.last_faults) * os_page_bytes());
  if (beyond > HUGE_PAGE_BYTES / 8)
    sampler.figures->huge_pages += ((uint64_t)beyond + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES;
  sampler.last_rss_bytes = rss_anon_bytes;
  sampler.last_faults = faults;
}

static void wall_time_until(uint64_t time_ns, uint64_t rss_anon_bytes) {
  struct memory_figures *figures = sampler.figures;
  double part_ns = (double)figures->wall_ns / WALL_PARTS;
  double at = (double)(sampler.wall_at_ns - figures->wall_from_ns) / part_ns;
  double to = (double)(time_ns - figures->wall_from_ns) / part_ns;
  for (unsigned part = (unsigned)at; part < WALL_PARTS && part < to; part++) {
    double from = at > part ? at - part : 0, until = to < part + 1 ? to - part : 1;
    figures->wall_byte_ns[part] += (double)rss_anon_bytes * part_ns * (until - from);
  }
  sampler.wall_at_ns = time_ns;
}

void memory_time_passes(uint64_t time_ns) {
  pthread_mutex_lock(&sampler.lock);
  uint64_t rss_anon_bytes, vm_size_bytes, end_ns;
  if (time_ns >= atomic_load(&recorded_clock_ns) + IDLE_GAP_NS)
    recorded_clock_pause();
  while (recorded_clock_wait_ends(time_ns, &end_ns)) {
    if (end_ns > sampler.wall_at_ns && memory_read(&rss_anon_bytes, &vm_size_bytes) == 0)
      wall_time_until(end_ns, rss_anon_bytes);
    recorded_clock_wake(end_ns);
  }
  if (time_ns >= sampler.wall_at_ns + sampler.wall_step_ns && memory_read(&rss_anon_bytes, &vm_size_bytes) == 0)
    wall_time_until(time_ns < sampler.wall_end_ns ? time_ns : sampler.wall_end_ns, rss_anon_bytes);
  pthread_mutex_unlock(&sampler.lock);
}

/* Rows are in rising order of positions; a thread that was overtaken between its op and its sample adds nothing.
   at_end: all threads have ended; before that the row of the last op is not added to the map, as it is taken again. */
static void add_row(uint64_t position, bool at_end) {
  struct memory_figures *result = sampler.figures;
  uint64_t rows = result->rows;
  HT_ASSERT(rows < 2 || result->timeline[rows - 2].position < result->timeline[rows - 1].position);
  if (rows > 0 && result->timeline[rows - 1].position >= position)
    return;
  if (rows == TIMELINE_ROWS) {
    result->rows_lost++;
    return;
  }
  struct memory_row *row = &result->timeline[rows];
  row->position = position;
  row->live_bytes = (uint64_t)atomic_load(&sampler.live_bytes);
  if (memory_read(&row->rss_anon_bytes, &row->vm_size_bytes) == 0) {
    result->rows++;
    count_huge_pages(row->rss_anon_bytes);
  }
  if (at_end ? sampler.with_map : position >= sampler.next_map && position < engine.workload.header.ops) {
    memory_map_add(position, row->rss_anon_bytes);
    sampler.next_map = position + sampler.map_interval;
  }
}

void memory_begin(void) {
  add_row(0, false);
}

void memory_last_row(void) {
  HT_ASSERT(!sampler.busy);
  struct memory_figures *result = sampler.figures;
  uint64_t done = atomic_load(&engine.result->done);
  if (result->rows > 0 && result->timeline[result->rows - 1].position == done)
    result->rows--; /* taken again, now that all threads have ended */
  if (result->rows == TIMELINE_ROWS)
    result->rows--;
  memory_time_passes(sampler.wall_end_ns);
  add_row(done, true);
  if (sampler.wall_end_ns > sampler.wall_at_ns && result->rows > 0)
    wall_time_until(sampler.wall_end_ns, result->timeline[result->rows - 1].rss_anon_bytes);
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
  uint64_t position = atomic_load(&engine.result->done);
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
  uint64_t done = atomic_fetch_add(&engine.result->done, 1) + 1;
  int64_t live = atomic_fetch_add(&sampler.live_bytes, live_change) + live_change;
  uint64_t peak = atomic_load_explicit(&sampler.figures->live_bytes_peak, memory_order_relaxed);
  while (live > 0 && (uint64_t)live > peak &&
         !atomic_compare_exchange_weak(&sampler.figures->live_bytes_peak, &peak, (uint64_t)live))
    ;
  if (done >= atomic_load_explicit(&sampler.next_position, memory_order_relaxed) ||
      (live > 0 && (uint64_t)live >= atomic_load_explicit(&sampler.next_maximum, memory_order_relaxed)))
    sample(worker);
}

/* Weak references, as in call.c: a failing dlsym would allocate. Names and numbers are those of the libraries' manuals.
 */
__attribute__((weak)) int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
__attribute__((weak)) void MallocExtension_ReleaseFreeMemory(void);
__attribute__((weak)) void mi_collect(bool force);
__attribute__((weak)) int scalable_allocation_command(int command, void *reserved);

enum { TBB_CLEAN_ALL_BUFFERS = 0 };

/* Returns whether the function is of the library under test. libc's malloc_trim exists beside any of them. */
static bool belongs(const void *function) {
  Dl_info mine, of_malloc;
  return function && dladdr(function, &mine) && dladdr((void *)allocator.malloc, &of_malloc) &&
         mine.dli_fbase == of_malloc.dli_fbase;
}

/* Returns the call's name; NULL: no purge call is known for this allocator. */
static const char *purge(void) {
  if (belongs((void *)mallctl)) {
    /* The thread's cache first: arenas can't purge what is in it. 4096: all arenas. */
    mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
    return "mallctl thread.tcache.flush, arena.4096.purge";
  }
  if (belongs((void *)mi_collect)) {
    mi_collect(true);
    return "mi_collect(true)";
  }
  if (belongs((void *)MallocExtension_ReleaseFreeMemory)) {
    MallocExtension_ReleaseFreeMemory();
    return "MallocExtension_ReleaseFreeMemory()";
  }
  /* It is in another library than malloc, which only forwards to it. */
  if (scalable_allocation_command && !engine.result->malloc_is_of_libc) {
    scalable_allocation_command(TBB_CLEAN_ALL_BUFFERS, NULL);
    return "scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS)";
  }
  if (belongs((void *)malloc_trim)) {
    malloc_trim(0);
    return "malloc_trim(0)";
  }
  return NULL;
}

static void free_all(void) {
  for (uint32_t slot = 0; slot < engine.workload.header.slots; slot++) {
    struct object *object = &engine.objects[slot];
    if (object->pointer && object->size_bytes != OBJECT_MISSING)
      call_free(object->pointer);
    *object = (struct object){NULL, 0};
  }
}

void memory_held(void) {
  struct memory_figures *result = sampler.figures;
  memory_read(&result->rss_anon_end_bytes, &result->vm_size_end_bytes);
  atomic_store(&engine.result->phase, PHASE_EMPTYING);
  free_all();
  memory_read(&result->freed.rss_anon_bytes, &result->freed.vm_size_bytes);
  const char *name = purge();
  memory_read(&result->purged.rss_anon_bytes, &result->purged.vm_size_bytes);
  atomic_store(&engine.result->phase, PHASE_DONE);
  if (name)
    snprintf(result->purge_call, sizeof result->purge_call, "%s", name);
}

static void setup(void) {
  memory_setup(!engine.spec->no_map);
  memory_read_start();
}

static void begin(void) {
  memory_begin();
  file_pages_fault_in();
}

static void end(void) {
  memory_last_row();
  memory_held();
}

static const struct loop_hooks hooks = {.before_op = memory_before_op, .after_op = memory_step_after_op};
PASS_LOOPS(memory, hooks, hooks)

static int measure_baseline(struct baseline *baseline, const struct run_spec *spec, struct error *error) {
  struct run_spec only = run_spec_without_allocator(spec);
  only.baseline_only = true;
  only.null_allocator = false;
  struct run run;
  int status = run_engine(&run, &only, error);
  if (status == 0) {
    const struct memory_figures *figures = run.figures;
    *baseline = (struct baseline){figures->rss_anon_start_bytes, figures->vm_size_start_bytes};
  }
  run_free(&run);
  return status;
}

int memory_launch(struct run *run, const struct run_spec *spec, struct error *error) {
  struct baseline *baseline = &run->baseline, measured;
  bool known = baseline->rss_anon_bytes != UINT64_MAX && baseline->vm_size_bytes != UINT64_MAX;
  if (!known && !spec->baseline_only) {
    if (measure_baseline(&measured, spec, error) != 0)
      return -1;
    if (baseline->rss_anon_bytes == UINT64_MAX)
      baseline->rss_anon_bytes = measured.rss_anon_bytes;
    if (baseline->vm_size_bytes == UINT64_MAX)
      baseline->vm_size_bytes = measured.vm_size_bytes;
  }
  return run_process(run, spec, NULL, error);
}

uint64_t memory_counted(const struct run *run) {
  const struct memory_figures *figures = run->figures;
  uint64_t most = 0;
  for (uint64_t row = 0; row < figures->rows; row++)
    most = figures->timeline[row].rss_anon_bytes > most ? figures->timeline[row].rss_anon_bytes : most;
  return most;
}

static const struct pass pass_memory = {
    .turn = 30,
    .name = "memory",
    .summary = "RSS and live bytes by position, system calls, page faults, fragmentation, what is held at the end",
    .order = ORDER_RECORDED,
    .repeats = TWICE,
    .by_default = true,
    .exact = true,
    .samples_memory = true,
    .loops = {memory_freely, memory_by_turns},
    .figures_bytes = sizeof(struct memory_figures),
    .setup = setup,
    .begin = begin,
    .time_passes = memory_time_passes,
    .end = end,
    .launch = memory_launch,
    .report = memory_report,
    .counts = "resident bytes",
    .counted = memory_counted,
};
REGISTER_PASS(pass_memory);

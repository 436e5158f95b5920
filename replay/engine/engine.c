/* SPDX-License-Identifier: MIT */
#include "replay/engine/state.h"

#include "core/base/os.h"
#include "core/isolated/isolated_heap.h"
#include "core/system/process.h"
#include "replay/calls/call.h"
#include "replay/calls/touch.h"
#include "replay/engine/loaded.h"
#include "replay/engine/loop.h"
#include "replay/engine/threads.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static loop_body *stream_loop;

static struct replay_result *map_result(int fd) {
  struct stat about;
  if (fstat(fd, &about) != 0)
    return NULL;
  void *memory = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void map_objects(void) {
  uint64_t bytes = (engine.workload.header.slots + 1ull) * sizeof *engine.objects;
  engine.objects = os_map(bytes, true);
  if (!engine.objects)
    engine_fail(NULL, "no memory for %u slots: %s", engine.workload.header.slots, strerror(errno));
  /* Huge OS pages where the kernel allows them for shared memory: a random slot costs a TLB miss otherwise. */
  madvise(engine.objects, bytes, MADV_HUGEPAGE);
  memset(engine.objects, 0, bytes);
}

static void run_thread(struct replay_thread *self) {
  engine_running = self;
  stream_loop(self);
  engine_running = NULL;
}

static loop_body *choose_loop(void) {
  loop_body *const *loops = engine.pass->loops;
  if (order_by_turns(engine.spec->order))
    return loops[LOOP_BY_TURNS];
  return engine.workload.header.threads == 1 && loops[LOOP_ALONE] ? loops[LOOP_ALONE] : loops[LOOP_FREELY];
}

static void set_up(void) {
  const struct run_spec *spec = engine.spec;
  if (engine.workload.header.threads > engine.result->thread_count)
    engine_fail(NULL, "was changed before it was replayed");
  engine.op_limit = spec->op_limit ? spec->op_limit : UINT64_MAX;
  engine.completed = engine.result->completed;
  touch_setup(spec->touch, spec->touch_bound_bytes);
  stream_loop = choose_loop();
  map_objects();
  engine.isolated = engine.workload.header.regions > 0;
  if (spec->warm_rounds && (engine.workload.header.threads > 1 || engine.isolated))
    engine_fail(NULL, "has %s: only a workload of one thread, as it was recorded, can be replayed warm",
                engine.isolated ? "isolated objects" : "several threads");
  if (engine.isolated && isolated_setup(REGION_LIMIT, true) != 0)
    engine_fail(NULL, "no address space for the isolated heap: %s", strerror(errno));
  engine.paced = spec->order == ORDER_PACED;
  if (engine.paced && pace_setup(spec->speed) != 0)
    engine_fail(NULL, "has no recorded times, which the paced order needs");
  watermark_setup((struct crowd){&engine.result->live_threads, &engine.result->blocked_threads, os_processors()});
  if (threads_setup(run_thread) != 0 || order_setup(spec) != 0)
    engine_fail(NULL, "no memory for %u threads: %s", engine.workload.header.threads, strerror(errno));
  if (!spec->null_allocator) {
    engine.result->malloc_is_of_libc = call_setup_process(spec->as_malloc);
    malloc_library_report(&engine.result->malloc);
  } else if (call_setup_null(spec->as_malloc) != 0)
    engine_fail(NULL, "no address space for the null allocator: %s", strerror(errno));
  entry_points_require();
}

static void add_pace(const struct replay_pace *pace) {
  struct replay_pace *all = &engine.result->pace;
  all->times += pace->times;
  all->sleeps += pace->sleeps;
  all->late_ns += pace->late_ns;
  if (pace->late_max_ns > all->late_max_ns)
    all->late_max_ns = pace->late_max_ns;
}

static void add_worker(const struct worker *worker) {
  struct replay_result *result = engine.result;
  result->ops += worker->ops;
  result->skipped += worker->skipped;
  result->failed_calls += worker->failed_calls;
  result->waits += worker->waits;
  result->wait_cycles += worker->wait_cycles;
  result->cpu_ns += worker->cpu_ns;
  add_pace(&worker->pace);
  result->page_faults -= worker->engine_faults;
  for (int id = 0; id < CALL_LIMIT; id++)
    result->substituted[id] += worker->substituted[id];
  if (engine.pass->add_worker)
    engine.pass->add_worker(worker);
}

/* Warm rounds make the calls, and measure nothing. */
static const struct loop_hooks nothing = {.call = NULL};
PASS_LOOP(warm_alone, nothing, LOOP_ALONE)

static void run_hook(void (*hook)(void)) {
  if (hook)
    hook();
}

static void replay(void) {
  struct replay_result *result = engine.result;
  const struct pass *pass = engine.pass;
  run_hook(pass->begin);
  pace_begin();
  result->clock_follows = !engine.spec->real_clock && !engine.paced && recorded_clock_possible();
  result->clock_steps = engine.clock_steps = result->clock_follows && !pace_times_known();
  if (!result->clock_follows)
    recorded_clock_stay_real();
  else if (pass->time_passes && !result->clock_steps)
    recorded_clock_waits_follow();
  threads_warm_up(engine.spec->warm_rounds, warm_alone);
  uint64_t begin_ns = os_monotonic_ns(); /* before the faults are counted: its page of the kernel faults, too */
  uint64_t faults = faults_of_process(), major_faults = major_faults_of_process();
  atomic_store(&result->phase, PHASE_REPLAY);
  run_hook(pass->first_op);
  threads_run_all();
  run_hook(pass->last_op);
  atomic_store(&result->phase, PHASE_DONE);
  allocator_stats_read(&result->allocator_stats);
  result->wall_ns = os_monotonic_ns() - begin_ns;
  result->page_faults = faults_of_process() - faults;
  result->page_faults_major = major_faults_of_process() - major_faults;
  run_hook(pass->end);
  threads_visit_workers(add_worker);
}

int engine_main(int result_fd, int workload_fd) {
  engine.result = map_result(result_fd);
  if (!engine.result)
    return 1;
  struct replay_result *result = engine.result;
  result->startup_page_faults = faults_of_process();
  engine.spec = &result->spec;
  engine.pass = pass_of_turn(result->pass);
  if (engine.pass->samples_memory)
    result->startup_huge_pages = proc_huge_pages();
  engine.figures = result_figures(result);
  run_hook(engine.pass->process_begins);
  atomic_store(&result->phase, PHASE_SETUP);
  result->brk_at_setup = (uint64_t)(uintptr_t)sbrk(0);
  preload_report(result);
  engine_watch_for_signals();
  if (workload_open_fd(&engine.workload, workload_fd, result->path, &result->error) != 0) {
    atomic_store(&result->failed, 2);
    return 1;
  }
  result->file_first = (uint64_t)(uintptr_t)engine.workload.bytes;
  result->file_last = result->file_first + engine.workload.file_bytes;
  set_up();
  run_hook(engine.pass->setup);
  if (!engine.spec->baseline_only)
    replay();
  atomic_store(&result->phase, PHASE_DONE);
  /* Not exit(): destructors of the allocator are not part of the measurement, and must not disturb it. */
  _exit(0);
}

/* SPDX-License-Identifier: MIT */
#include "replay/engine/engine.h"

#include "core/base/os.h"
#include "replay/calls/call.h"
#include "replay/calls/isolated_heap.h"
#include "replay/calls/touch.h"
#include "replay/engine/allocator_stats.h"
#include "replay/engine/entry_points.h"
#include "replay/engine/faults.h"
#include "replay/engine/file_pages.h"
#include "replay/engine/gate.h"
#include "replay/engine/loop.h"
#include "replay/engine/order.h"
#include "replay/engine/pace.h"
#include "replay/engine/preload.h"
#include "replay/engine/recorded_clock.h"
#include "replay/engine/state.h"
#include "replay/engine/threads.h"
#include "replay/passes/blame/blame.h"
#include "replay/passes/contention/contention.h"
#include "replay/passes/held.h"
#include "replay/passes/instructions.h"
#include "replay/passes/memory.h"
#include "replay/passes/misses.h"
#include "replay/passes/pmu.h"
#include "replay/passes/sharing.h"
#include "replay/passes/time/counter.h"
#include "replay/passes/time/disturb.h"
#include "replay/passes/time/timing.h"
#include "replay/passes/verify.h"
#include "replay/passes/windows.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static loop_body *stream_loop;

/* Notes which thread it was. The signal then has its default effect, as the handler is gone (SA_RESETHAND) and the
   instruction runs again or abort() raises the signal again. */
static void on_fatal_signal(int number, siginfo_t *about, void *context) {
  (void)context;
  uint64_t address = (uint64_t)(uintptr_t)about->si_addr;
  struct replay_result *result = engine.result;
  if (number == SIGBUS && address >= result->file_first && address < result->file_last)
    engine_fail(NULL, "was truncated while it was being replayed");
  if (number == SIGBUS && address >= result->origins_first && address < result->origins_last)
    engine_fail(NULL, "%s was truncated while it was being read", result->setup.origins_path);
  uint32_t nobody = 0;
  atomic_compare_exchange_strong(&result->died_thread, &nobody, engine_running_thread());
}

static void watch_for_fatal_signals(void) {
  struct sigaction action = {.sa_sigaction = on_fatal_signal, .sa_flags = SA_SIGINFO | SA_RESETHAND};
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP};
  for (size_t index = 0; index < sizeof numbers / sizeof *numbers; index++)
    sigaction(numbers[index], &action, NULL);
}

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
  engine_runs(self);
  stream_loop(self);
  engine_runs(NULL);
}

static void set_up_contention(void) {
  contention_setup(&engine.result->contention);
  if (engine.result->contention.filter_error != 0)
    engine_fail(NULL, "waits can't be seen, as a seccomp filter is not allowed here: %s",
                strerror(engine.result->contention.filter_error));
}

static void set_up(void) {
  const struct replay_setup *setup = &engine.result->setup;
  if (engine.workload.header.threads > engine.result->thread_count)
    engine_fail(NULL, "was changed before it was replayed");
  engine.op_limit = setup->op_limit ? setup->op_limit : UINT64_MAX;
  engine.completed = engine.result->completed;
  engine.touch = setup->touch;
  touch_bound_bytes = setup->touch_bound_bytes;
  disturb_lines = setup->disturb_lines;
  stream_loop = loop_for(setup->pass, order_by_turns(setup->order));
  map_objects();
  engine.apart = engine.workload.header.regions > 0;
  if (engine.apart && region_setup() != 0)
    engine_fail(NULL, "no address space for memory apart: %s", strerror(errno));
  if (setup->pass == PASS_TIME)
    engine.result->preemption_known = timing_setup();
  engine.paced = setup->order == ORDER_PACED;
  if (engine.paced && pace_setup(setup->speed) != 0)
    engine_fail(NULL, "has no recorded times, which the paced order needs");
  gate_setup((struct crowd){&engine.result->live_threads, &engine.result->blocked_threads, os_processors()});
  if (threads_setup(run_thread) != 0 || order_setup(setup) != 0)
    engine_fail(NULL, "no memory for %u threads: %s", engine.workload.header.threads, strerror(errno));
  if (memory_setup(engine.result, pass_samples_memory(setup->pass)) != 0)
    engine_fail(NULL, "/proc/self/status: %s", strerror(errno));
  if (setup->pass == PASS_BLAME)
    blame_setup();
  if (setup->pass == PASS_INSTRUCTIONS)
    instructions_begin();
  if (setup->pass == PASS_MISSES)
    misses_begin();
  if (setup->pass == PASS_VERIFY && verify_setup() != 0)
    engine_fail(NULL, "no memory to verify with: %s", strerror(errno));
  if (setup->pass == PASS_SHARING && sharing_setup(engine.result) != 0)
    engine_fail(NULL, "no memory to count shared cache lines with: %s", strerror(errno));
  if (!setup->null_allocator)
    engine.result->malloc_is_of_libc = call_setup_process(setup->as_malloc);
  else if (call_setup_null(setup->as_malloc) != 0)
    engine_fail(NULL, "no address space for the null allocator: %s", strerror(errno));
  entry_points_require();
  if (setup->pass == PASS_CONTENTION)
    set_up_contention();
}

static void add_call(struct replay_call *into, const struct replay_call *call) {
  into->preempted += call->preempted;
  if (call->count == 0)
    return;
  into->count += call->count;
  into->cycles_total += call->cycles_total;
  if (call->cycles_max > into->cycles_max)
    into->cycles_max = call->cycles_max;
  histogram_merge(&into->histogram, &call->histogram);
}

static void add_timing(const struct timing *timing) {
  struct replay_result *result = engine.result;
  for (int id = 0; id < TIMED_CALLS; id++) {
    for (unsigned class = 0; class < SIZE_CLASSES; class ++)
      add_call(&result->calls[id][class], &timing->calls[id][class]);
  }
  empty_calls_merge(&result->empty, &timing->empty);
  timing_merge_slowest(result->slowest, timing->slowest);
  result->touching.objects += timing->touching.objects;
  result->touching.sampled += timing->touching.sampled;
  result->touching.cycles += timing->touching.cycles;
  result->preempted.calls += timing->preempted.calls;
  result->preempted.cycles += timing->preempted.cycles;
  result->preempted.slept += timing->preempted.slept;
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
  result->verified_objects += worker->verified_objects;
  result->verified_bytes += worker->verified_bytes;
  result->verified_partly += worker->verified_partly;
  for (int id = 0; id < CALL_LIMIT; id++) {
    result->substituted[id] += worker->substituted[id];
    result->call_counts[id] += worker->call_counts[id];
  }
  if (worker->timing)
    add_timing(worker->timing);
}

static void replay(void) {
  struct replay_result *result = engine.result;
  bool sampling = pass_samples_memory(result->setup.pass);
  if (sampling)
    memory_begin();
  if (result->setup.pass == PASS_BLAME)
    blame_begin();
  if (sampling)
    file_pages_fault_in();
  uint64_t begin_ns = os_monotonic_ns(); /* before the faults are counted: its page of the kernel faults, too */
  uint64_t faults = faults_of_process(), major_faults = major_faults_of_process();
  pace_begin();
  result->clock_recorded = !result->setup.real_clock && !engine.paced && pace_times_known() && recorded_clock_begin();
  atomic_store(&result->phase, PHASE_REPLAY);
  bool counting = result->setup.pass == PASS_BARE;
  if (counting)
    pmu_begin();
  if (result->setup.pass == PASS_INSTRUCTIONS)
    instructions_started();
  if (pass_counts_by_windows(result->setup.pass))
    windows_begin(&result->setup.edges);
  threads_run_all();
  if (counting)
    pmu_end(result->pmu);
  atomic_store(&result->phase, PHASE_DONE);
  allocator_stats_read(&result->allocator_stats);
  result->wall_ns = os_monotonic_ns() - begin_ns;
  result->page_faults = faults_of_process() - faults;
  result->page_faults_major = major_faults_of_process() - major_faults;
  if (sampling)
    memory_end();
  if (result->setup.pass == PASS_BLAME)
    blame_end();
  if (result->setup.pass == PASS_VERIFY)
    verify_end();
  if (result->setup.pass == PASS_SHARING)
    sharing_end();
  if (result->setup.pass == PASS_CONTENTION)
    contention_end();
  memory_read(&result->rss_anon_end_bytes, &result->vm_size_end_bytes);
  threads_visit_workers(add_worker);
  if (sampling)
    held_measure(result);
}

int engine_main(int result_fd, int workload_fd) {
  engine.result = map_result(result_fd);
  if (!engine.result)
    return 1;
  struct replay_result *result = engine.result;
  result->startup_page_faults = faults_of_process();
  if (result->setup.pass == PASS_MISSES)
    misses_started();
  atomic_store(&result->phase, PHASE_SETUP);
  result->brk_at_setup = (uint64_t)(uintptr_t)sbrk(0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  preload_report(result);
  watch_for_fatal_signals();
  if (workload_open_fd(&engine.workload, workload_fd, result->setup.path, &result->error) != 0) {
    atomic_store(&result->failed, 2);
    return 1;
  }
  result->file_first = (uint64_t)(uintptr_t)engine.workload.bytes;
  result->file_last = result->file_first + engine.workload.file_bytes;
  set_up();
  if (result->setup.pass == PASS_TIME)
    empty_calls_take(&result->empty_before);
  memory_read(&result->rss_anon_start_bytes, &result->vm_size_start_bytes);
  if (!result->setup.baseline_only)
    replay();
  atomic_store(&result->phase, PHASE_DONE);
  /* Not exit(): destructors of the allocator are not part of the measurement, and must not disturb it. */
  _exit(0);
}

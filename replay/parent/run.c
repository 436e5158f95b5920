/* SPDX-License-Identifier: MIT */
#include "replay/parent/run.h"

#include "core/base/os.h"
#include "core/system/valgrind_requests.h"
#include "core/trace/summary.h"
#include "replay/parent/children.h"
#include "replay/parent/environment.h"
#include "replay/parent/loader.h"
#include "replay/parent/spec.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

enum {
  CHECK_EVERY_MS = 100,
  NO_VALGRIND = 125, /* exit status of a child that could not start it */
};
static const uint64_t HANG_NS = 60000000000u, DEADLOCK_NS = 3000000000u;

/* Returns this program's path: under Valgrind, /proc/self/exe is Valgrind. Empty: unknown. */
static const char *program_path(void) {
  static char path[PATH_MAX];
  ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
  path[bytes > 0 ? bytes : 0] = '\0';
  return path;
}

int run_open(struct run *run, const struct run_spec *spec, struct error *error) {
  *run = (struct run){.spec = spec,
                      .syscalls.listener = -1,
                      .copy_fd = -1,
                      .baseline = spec->baseline,
                      .engine_ns_per_op = -1,
                      .engine_wall_ns_per_op = -1,
                      .result_bytes = result_bytes(spec->threads, spec->pass->figures_bytes)};
  run->result_fd = memfd_create("heaptape-replay", MFD_ALLOW_SEALING);
  if (run->result_fd < 0 || ftruncate(run->result_fd, (off_t)run->result_bytes) != 0 ||
      fcntl(run->result_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) /* the allocator has it, too */
    return error_errno(error, spec->path, "can't make the shared result area");
  void *memory = mmap(NULL, run->result_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, run->result_fd, 0);
  if (memory == MAP_FAILED)
    return error_errno(error, spec->path, "can't map the shared result area");
  struct replay_result *result = run->result = memory;
  result->spec = *spec;
  if (spec->null_allocator)
    result->spec.touch = TOUCH_NONE;
  else if (spec->pass->sets_touch)
    result->spec.touch = spec->pass->touch;
  result->pass = spec->pass->turn;
  result->thread_count = spec->threads;
  snprintf(result->path, sizeof result->path, "%s", spec->path);
  snprintf(result->origins_path, sizeof result->origins_path, "%s", spec->origins ? spec->origins : "");
  run->figures = result_figures(result);
  if (spec->loader && (run->copy_fd = loader_copy_program(program_path(), spec->loader, error)) < 0)
    return -1;
  return 0;
}

/* Makes addresses the same in each run. Containers may forbid that; the result records which was the case. */
static bool stop_randomisation(void) {
  int now = personality(0xffffffff);
  return now != -1 && personality((unsigned)now | ADDR_NO_RANDOMIZE) != -1;
}

/* Returns the engine's path: of the copy for another C library, or of this program. */
static const char *engine_path(int copy_fd, bool resolved) {
  static char path[64];
  if (copy_fd < 0)
    return resolved ? program_path() : "/proc/self/exe";
  snprintf(path, sizeof path, "/proc/self/fd/%d", copy_fd);
  return path;
}

__attribute__((noreturn)) static void become_engine_under(struct valgrind_command *valgrind, const char *engine,
                                                          char *argument) {
  if (engine[0])
    valgrind_command_exec(valgrind, engine, (char *const[]){argument, NULL});
  _exit(NO_VALGRIND);
}

/* Where memory runs out, the kernel kills the engine, whose end is reported, and not the command. */
static void be_killed_first(void) {
  int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0 || write(file, "1000", 4) < 0)
    return; /* the kernel chooses by size */
  os_close(file);
}

/* The child, between fork and exec. */
__attribute__((noreturn)) static void become_engine(const struct run *run, const struct run_spec *spec,
                                                    struct valgrind_command *valgrind, int socket) {
  struct replay_result *result = run->result;
  result->aslr = spec->aslr || !stop_randomisation();
  be_killed_first();
  if (valgrind)
    valgrind_command_set_environment(valgrind);
  if (environment_build(spec) != 0)
    _exit(126);
  prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); /* inherited; allocators would lack the huge pages that they ask for */
  char argument[64];
  /* Of fixed length, as arguments are above the stack, too. */
  snprintf(argument, sizeof argument, "--engine=%06d,%06d", run->result_fd, spec->workload_fd);
  char *arguments[] = {"heaptape-replay", argument, NULL};
  if (spec->pass->samples_memory && !spec->baseline_only)
    syscalls_install(socket);
  else
    close(socket);
  os_close(spec->progress_fd); /* else what the allocator starts would hold it open */
  if (valgrind)
    become_engine_under(valgrind, engine_path(run->copy_fd, true), argument);
  execv(engine_path(run->copy_fd, valgrind_is_here()), arguments);
  _exit(127);
}

static uint64_t ops_done(const struct run *run) {
  uint64_t done = 0; /* of the spec's threads, not the result's: an allocator can change those */
  for (uint32_t thread = 0; thread < run->spec->threads; thread++) {
    uint64_t ops = atomic_load_explicit(&run->result->completed[thread].value, memory_order_relaxed);
    done += ops == UINT64_MAX ? 0 : ops;
  }
  return done;
}

struct watch {
  uint64_t done, last_change_ns;
};

/* Returns why the engine should be killed now; NULL: it should not. */
static const char *hang_reason(const struct run *run, const struct run_spec *spec, struct watch *watch) {
  uint64_t now = os_monotonic_ns(), done = ops_done(run);
  if (spec->order == ORDER_PACED && atomic_load(&run->result->pacing_threads) > 0)
    watch->last_change_ns = now; /* the recording had a pause here */
  if (done != watch->done) {
    *watch = (struct watch){done, now};
    if (spec->progress_fd >= 0)
      dprintf(spec->progress_fd, "%" PRIu64 " %" PRIu64 "\n", done, spec->ops);
  }
  uint64_t idle_ns = now - watch->last_change_ns;
  uint64_t hang_ns = spec->pass->hang_ns ? spec->pass->hang_ns : HANG_NS;
  if (idle_ns > hang_ns) {
    static char why[64];
    bool of_allocator = !spec->pass->hang_ns;
    snprintf(why, sizeof why, "%s no progress for %u s", of_allocator ? "the allocator made" : "the replay made",
             (unsigned)(hang_ns / 1000000000u));
    if (of_allocator)
      snprintf(run->result->fault, sizeof run->result->fault, "%s", why + strlen("the allocator "));
    return why;
  }
  const struct replay_result *result = run->result;
  uint32_t live = atomic_load(&result->live_threads), blocked = atomic_load(&result->blocked_threads);
  if (idle_ns > DEADLOCK_NS && live > 0 && blocked >= live && atomic_load(&result->phase) == PHASE_REPLAY)
    return "the workload's threads all wait for one another";
  return NULL;
}

/* Describes how far the replay had come: the op of the thread that a signal hit, where known, else all ops done. */
static void describe_place(const struct run *run, char *text, size_t bytes) {
  const struct replay_result *result = run->result;
  uint32_t phase = atomic_load(&result->phase), died = atomic_load(&result->died_thread);
  if (phase == PHASE_LOADING)
    snprintf(text, bytes, "while it was being loaded");
  else if (phase == PHASE_SETUP)
    snprintf(text, bytes, "before the first op");
  else if (phase == PHASE_EMPTYING)
    snprintf(text, bytes, "after the last op, as it freed all objects and gave memory back");
  else if (died > 0 && died <= run->spec->threads)
    snprintf(text, bytes, "at op %" PRIu64 " of thread %" PRIu32, atomic_load(&result->completed[died - 1].value),
             died - 1);
  else
    snprintf(text, bytes, "after %" PRIu64 " of the workload's ops", ops_done(run));
}

static int judge_end(const struct run *run, const struct run_spec *spec, int status, const char *killed_because,
                     struct error *error) {
  struct replay_result *result = run->result;
  char place[96];
  describe_place(run, place, sizeof place);
  if (killed_because)
    return error_set(error, spec->path, "%s: stopped %s", killed_because, place);
  if (atomic_load(&result->failed) == 2) {
    *error = result->error;
    return -1;
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
    return error_set(error, spec->path,
                     "the engine was killed by signal 9 (SIGKILL) %s: not by heaptape; the kernel does so "
                     "where memory, or its cgroup's limit, is exhausted, and an allocator can",
                     place);
  if (run->under_valgrind && WIFEXITED(status) && WEXITSTATUS(status) == NO_VALGRIND)
    return error_set(error, spec->path, "valgrind, which this pass needs, can't be started");
  if (spec->loader && atomic_load(&result->phase) == PHASE_LOADING)
    return error_set(
        error, spec->loader,
        "it can't load heaptape-replay: too old for it, not complete (it must have the libraries of one glibc), "
        "or no dynamic linker%s%s",
        WIFSIGNALED(status) ? "; killed by SIG" : "", WIFSIGNALED(status) ? signal_name(WTERMSIG(status)) : "");
  if (WIFSIGNALED(status)) {
    snprintf(result->fault, sizeof result->fault, "was killed by signal %d (SIG%s) %s", WTERMSIG(status),
             signal_name(WTERMSIG(status)), place);
    return error_set(error, spec->path, "the allocator %s", result->fault);
  }
  if (WEXITSTATUS(status) != 0 || atomic_load(&result->phase) != PHASE_DONE)
    return error_set(error, spec->path, "the engine's process exited with status %d %s", WEXITSTATUS(status), place);
  return 0;
}

/* waitid reports a process that called ptrace(PTRACE_TRACEME) at each of its stops, too. */
static bool is_end(const siginfo_t *found) {
  return found->si_pid != 0 &&
         (found->si_code == CLD_EXITED || found->si_code == CLD_KILLED || found->si_code == CLD_DUMPED);
}

/* Serves the engine until it ends; returns its wait status. */
static int supervise(struct run *run, const struct run_spec *spec, struct engine_output *output, pid_t child,
                     const char **killed_because) {
  struct watch watch = {0, os_monotonic_ns()};
  struct pollfd polled[3] = {{.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN},
                             {.fd = run->syscalls.listener, .events = POLLIN},
                             {.fd = output->read_end, .events = POLLIN}};
  uint64_t checked_ns = 0;
  int status = 0;
  siginfo_t ended = {0};
  /* It is left as a zombie until its process group is killed, whose number nobody else can have meanwhile. */
  while (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && !is_end(&ended)) {
    if (ended.si_pid != 0 && !*killed_because) {
      *killed_because = "the allocator asked to be traced";
      snprintf(run->result->fault, sizeof run->result->fault, "asked to be traced");
      kill(child, SIGKILL);
    }
    poll(polled, 3, CHECK_EVERY_MS);
    if (polled[1].revents & POLLIN)
      syscalls_answer(&run->syscalls, run->result);
    if (polled[1].revents & (POLLHUP | POLLERR))
      polled[1].fd = -1;
    if (polled[2].revents) {
      engine_output_pass_on(output);
      polled[2].fd = output->read_end;
    }
    uint64_t now = os_monotonic_ns();
    if (now - checked_ns < CHECK_EVERY_MS * 1000000u || *killed_because)
      continue;
    checked_ns = now;
    *killed_because = hang_reason(run, spec, &watch);
    if (*killed_because)
      kill(child, SIGKILL);
  }
  kill(-child, SIGKILL);
  waitpid(child, &status, 0);
  os_close(polled[0].fd);
  if (spec->progress_fd >= 0 && !spec->op_limit)
    dprintf(spec->progress_fd, "%" PRIu64 " %" PRIu64 "\n", ops_done(run), spec->ops);
  return status;
}

static bool is_c_library(const char *path) {
  return strncmp(basename(path), "libc.so.", strlen("libc.so.")) == 0;
}

/* Are both the same file? A name without a folder is a soname, which the linker searched for. */
static bool is_file(const char *path, const char *wanted) {
  struct stat one, other;
  if (!strchr(wanted, '/'))
    return strcmp(basename(path), wanted) == 0;
  return stat(path, &one) == 0 && stat(wanted, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* A sanitizer's malloc takes the place of the C library's in the program that is built with it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif

/* The proof that the allocator under test is the spec's: whose malloc the engine called. Else another library would be
   measured under its name. The C library's own name is allowed. */
static int check_malloc(const struct run *run, const struct run_spec *spec, struct error *error) {
  const struct replay_result *result = run->result;
  const char *const *preload = spec->preloads.texts, *first = *preload;
  if (spec->null_allocator || !result->malloc.path[0] || environment_recorders() > 0)
    return 0;
  if (first && !is_c_library(first) && result->malloc_is_of_libc)
    return error_set(error, first, "defines no malloc");
  bool expected = !first && (result->malloc_is_of_libc || SANITIZED);
  if (spec->loader && !loader_has_library(spec, result->malloc.path))
    return error_set(error, spec->loader, "not its C library's malloc was replayed, but that of %s",
                     result->malloc.path);
  for (; *preload && !expected; preload++)
    expected = is_file(result->malloc.path, *preload);
  return expected ? 0
                  : error_set(error, first ? first : "the C library", "not its malloc was replayed, but that of %s",
                              result->malloc.path);
}

/* Refuses allocators that the linker could not load (the linker's reason is on stderr), and those of which another
   library took the place. */
static int check_preloads(struct run *run, const struct run_spec *spec, struct error *error) {
  unsigned index = environment_recorders();
  for (const char *const *preload = spec->preloads.texts; *preload && index < PRELOAD_LIMIT; preload++, index++) {
    if (!(run->result->preloads_missing & (uint64_t)1 << index))
      continue;
    run->wrong_preload = access(*preload, F_OK) != 0;
    return error_set(error, *preload, run->wrong_preload ? "no such allocator" : "the dynamic linker can't load it");
  }
  return check_malloc(run, spec, error);
}

/* Just before the first engine was started. */
static struct os_clocks first_run;

double run_cycles_hz(void) {
  enum { SHORTEST_NS = 50000000 };
  static double hz;
  if (hz > 0)
    return hz;
  struct os_clocks now = os_read_clocks(CLOCK_MONOTONIC);
  hz = now.ns - first_run.ns > SHORTEST_NS ? os_clocks_hz(first_run, now) : os_cycles_hz(SHORTEST_NS);
  return hz;
}

int run_process(struct run *run, const struct run_spec *spec, struct valgrind_command *valgrind, struct error *error) {
  int sockets[2];
  run->under_valgrind = valgrind != NULL;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return error_errno(error, spec->path, "can't make a socket");
  if (first_run.ns == 0)
    first_run = os_read_clocks(CLOCK_MONOTONIC);
  struct engine_output output;
  pid_t self = getpid(), child = engine_output_open(&output) == 0 ? fork() : -1;
  if (child == 0) {
    engine_output_become(&output, self);
    become_engine(run, spec, valgrind, sockets[1]);
  }
  close(sockets[1]);
  if (child < 0) {
    close(sockets[0]);
    return error_errno(error, spec->path, "can't start the engine");
  }
  engine_output_begin(&output);
  syscalls_accept(&run->syscalls, sockets[0], child);
  close(sockets[0]);
  const char *killed_because = NULL;
  int status = supervise(run, spec, &output, child, &killed_because);
  engine_output_finish(&output);
  syscalls_finish(&run->syscalls, run->result);
  if (check_preloads(run, spec, error) != 0)
    return -1;
  return judge_end(run, spec, status, killed_because, error);
}

/* A pass that counted 0 where calls were made did not count at all. The calls of the null allocator are free. */
static int check_counted(const struct run *run, const struct run_spec *spec, struct error *error) {
  if (!spec->pass->counted || spec->baseline_only || spec->null_allocator || run->result->ops == 0 ||
      spec->pass->counted(run) > 0)
    return 0;
  return error_set(error, spec->path, "0 %s counted for %" PRIu64 " ops: the pass has no figure", spec->pass->counts,
                   run->result->ops);
}

int run_engine(struct run *run, const struct run_spec *spec, struct error *error) {
  if (run_open(run, spec, error) != 0)
    return -1;
  int status = spec->pass->launch ? spec->pass->launch(run, spec, error) : run_process(run, spec, NULL, error);
  return status == 0 ? check_counted(run, spec, error) : status;
}

void run_free(struct run *run) {
  if (run->result)
    munmap(run->result, run->result_bytes);
  if (run->result_fd > 0)
    close(run->result_fd);
  free(run->syscalls.rows);
  free(run->own);
  json_decref(run->counted);
  json_decref(run->engine_counters);
  if (run->copy_fd >= 0)
    close(run->copy_fd);
  *run = (struct run){.syscalls.listener = -1, .copy_fd = -1};
}

struct run_spec run_spec_without_allocator(const struct run_spec *spec) {
  struct run_spec only = *spec;
  only.preloads.texts[0] = only.settings.texts[0] = NULL;
  only.preloads.count = only.settings.count = 0;
  only.progress_fd = -1;
  only.warm_rounds = 0;
  return only;
}

static void add_allocator_stats(json_t *into, const struct allocator_stats *stats) {
  if (stats->count == 0)
    return;
  json_t *counts = json_object();
  for (uint32_t index = 0; index < stats->count; index++)
    json_set_count(counts, stats->stats[index].name, stats->stats[index].value);
  json_object_set_new(into, "reference_stats", counts);
}

static void order_text(const struct run_spec *spec, char *text, size_t bytes) {
  const char *name = order_names[spec->order];
  if (spec->order == ORDER_WINDOW)
    snprintf(text, bytes, "%s=%" PRIu64, name, spec->window);
  else if (spec->order == ORDER_RANDOM)
    snprintf(text, bytes, "%s=%" PRIu64, name, spec->seed);
  else if (spec->order == ORDER_PACED)
    snprintf(text, bytes, "%s=%g", name, spec->speed);
  else
    snprintf(text, bytes, "%s", name);
}

static int longer_first(const void *left, const void *right) {
  const struct replay_waits *a = left, *b = right;
  return a->cycles > b->cycles ? -1 : a->cycles < b->cycles;
}

/* The threads' waits: in total, and of those that waited longest. share: of the cycles from a thread's first word to
   its last. */
static json_t *waits_json(struct replay_result *result) {
  json_t *threads = json_array();
  qsort(result->most_waits, WAITS_KEPT, sizeof *result->most_waits, longer_first);
  for (int index = 0; index < WAITS_KEPT && result->most_waits[index].cycles > 0; index++) {
    const struct replay_waits *waits = &result->most_waits[index];
    json_array_append_new(threads, json_pack("{s:o, s:o, s:o, s:f}", "thread", json_unsigned(waits->thread), "count",
                                             json_unsigned(waits->count), "cycles", json_unsigned(waits->cycles),
                                             "share", (double)waits->cycles / (double)waits->life_cycles));
  }
  double life_cycles = result->life_cycles ? (double)result->life_cycles : 1;
  return json_pack("{s:o, s:o, s:f, s:o}", "count", json_unsigned(result->waits), "cycles",
                   json_unsigned(result->wait_cycles), "share", (double)result->wait_cycles / life_cycles, "threads",
                   threads);
}

static json_t *pace_json(const struct replay_pace *pace) {
  return json_pack("{s:o, s:o, s:f, s:o}", "times", json_unsigned(pace->times), "sleeps", json_unsigned(pace->sleeps),
                   "late_mean_ns", pace->times ? (double)pace->late_ns / (double)pace->times : 0.0, "late_max_ns",
                   json_unsigned(pace->late_max_ns));
}

json_t *report_run(const struct run *run) {
  const struct run_spec *spec = run->spec;
  struct replay_result *result = run->result;
  char order[48], touch[48];
  order_text(spec, order, sizeof order);
  bool bounded = result->spec.touch <= TOUCH_LINES && result->spec.touch_bound_bytes != TOUCH_BOUND_BYTES;
  snprintf(touch, sizeof touch, bounded ? "%s=%" PRIu64 : "%s", touch_names[result->spec.touch],
           result->spec.touch_bound_bytes);
  if (spec->baseline_only) {
    json_t *baseline = json_object();
    spec->pass->report(baseline, run);
    json_object_set_new(baseline, "checked", json_string(spec->stamp));
    return baseline;
  }
  double engine_cycles = report_engine_cycles(run);
  json_t *out =
      json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o}", "pass", spec->pass->name, "order", order,
                "touch", touch, "ops", json_unsigned(result->ops), "threads", json_unsigned(result->thread_count),
                "wall_ns", json_unsigned(result->wall_ns), "cycles_hz", run_cycles_hz(), "failed_calls",
                json_unsigned(result->failed_calls), "skipped_ops", json_unsigned(result->skipped), "waits",
                waits_json(result), "folded_calls", call_counts_json(result->substituted));
  if (spec->order == ORDER_PACED)
    json_object_set_new(out, "pace", pace_json(&result->pace));
  if (spec->as_malloc)
    json_object_set_new(out, "as_malloc", json_true());
  if (spec->threads_to_cores)
    json_object_set_new(out, "threads_to_cores", json_true());
  if (spec->null_allocator)
    json_object_set_new(out, "null_allocator", json_true());
  if (spec->op_limit)
    json_set_count(out, "op_limit", spec->op_limit);
  if (result->malloc.path[0])
    json_object_set_new(out, "malloc",
                        json_pack("{s:s%, s:s*}", "path", result->malloc.path, strlen(result->malloc.path), "build_id",
                                  result->malloc.build_id[0] ? result->malloc.build_id : NULL));
  json_object_set_new(out, "clock",
                      json_string(!result->clock_follows ? "real"
                                  : result->clock_steps  ? "steps"
                                                         : "recorded"));
  if (spec->disturb_lines > 0)
    json_set_count(out, "disturb_lines", spec->disturb_lines);
  if (spec->warm_rounds > 0)
    json_set_count(out, "warm_rounds", spec->warm_rounds);
  json_object_set_new(out, "aslr", json_boolean(result->aslr));
  if (engine_cycles >= 0)
    json_object_set_new(out, "engine_cycles_per_op", json_real(engine_cycles));
  add_allocator_stats(out, &result->allocator_stats);
  spec->pass->report(out, run);
  return out;
}

double report_engine_cycles(const struct run *run) {
  return run->engine_ns_per_op < 0 ? run->spec->engine_cycles_per_op : run->engine_ns_per_op * run_cycles_hz() / 1e9;
}

static char *base64(const uint8_t *bytes, size_t count) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = malloc((count + 2) / 3 * 4 + 1), *at = text;
  if (!text)
    return NULL;
  for (size_t index = 0; index < count; index += 3) {
    size_t left = count - index;
    uint32_t group = (uint32_t)bytes[index] << 16;
    group |= left > 1 ? (uint32_t)bytes[index + 1] << 8 : 0;
    group |= left > 2 ? bytes[index + 2] : 0;
    *at++ = digits[group >> 18];
    *at++ = digits[group >> 12 & 63];
    *at++ = left > 1 ? digits[group >> 6 & 63] : '=';
    *at++ = left > 2 ? digits[group & 63] : '=';
  }
  *at = '\0';
  return text;
}

char *report_packed(const void *bytes, size_t count) {
  uLongf packed_bytes = compressBound(count);
  uint8_t *packed = malloc(packed_bytes);
  char *text = NULL;
  if (packed && compress2(packed, &packed_bytes, bytes, count, 6) == Z_OK)
    text = base64(packed, packed_bytes);
  free(packed);
  return text;
}

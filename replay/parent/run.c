/* SPDX-License-Identifier: MIT */
#include "replay/parent/run.h"

#include "core/base/os.h"
#include "core/system/valgrind_requests.h"
#include "replay/passes/instruction_counter.h"

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
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  LOOK_EVERY_MS = 100,
  NO_VALGRIND = 125, /* exit status of a child that could not start it */
};
static const uint64_t HANG_NS = 60000000000u, DEADLOCK_NS = 3000000000u;
/* Between two ops, all of the program's accesses meanwhile are simulated: about 10 million accesses/s. */
static const uint64_t MISSES_HANG_NS = 3600000000000u;

static int make_result(struct run *run, const struct run_request *request, struct error *error) {
  run->result_bytes = sizeof *run->result + (request->threads + 1ull) * sizeof *run->result->completed;
  int fd = memfd_create("heaptape-replay", 0);
  if (fd < 0 || ftruncate(fd, (off_t)run->result_bytes) != 0)
    return error_errno(error, request->path, "can't make the shared result area");
  void *memory = mmap(NULL, run->result_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return error_errno(error, request->path, "can't map the shared result area");
  run->result = memory;
  struct replay_setup *setup = &run->result->setup;
  setup->pass = request->pass;
  setup->order = request->order;
  setup->touch = request->null_allocator || request->pass == PASS_MISSES ? TOUCH_NONE
                 : request->pass == PASS_VERIFY                          ? TOUCH_ALL
                                                                         : request->touch;
  setup->touch_bound_bytes = request->touch_bound_bytes;
  setup->null_allocator = request->null_allocator;
  setup->baseline_only = request->baseline_only;
  setup->window = request->window;
  setup->speed = request->speed;
  setup->seed = request->seed;
  setup->as_malloc = request->as_malloc;
  setup->real_clock = request->real_clock;
  setup->disturb_lines = request->disturb_lines;
  setup->threads_to_cores = request->threads_to_cores;
  setup->op_limit = request->op_limit;
  setup->blame = request->blame;
  snprintf(setup->path, sizeof setup->path, "%s", request->path);
  snprintf(setup->origins_path, sizeof setup->origins_path, "%s", request->origins ? request->origins : "");
  if (request->edges)
    setup->edges = *request->edges;
  run->result->thread_count = request->threads;
  return fd;
}

/* Sets LD_PRELOAD for the engine: what is already preloaded (a recorder, for example) stays first. */
static int set_preloads(char *const *preloads) {
  const char *before = getenv("LD_PRELOAD");
  char value[16384];
  int used = snprintf(value, sizeof value, "%s", before ? before : "");
  for (; preloads && *preloads; preloads++) {
    if (used < 0 || (size_t)used >= sizeof value)
      return -1;
    used += snprintf(value + used, sizeof value - (size_t)used, "%s%s", used ? ":" : "", *preloads);
  }
  return used == 0 ? 0 : (size_t)used < sizeof value ? setenv("LD_PRELOAD", value, 1) : -1;
}

enum { ENVIRONMENT_STEP_BYTES = 16384 };

/* Environment and arguments are above the stack and shift it; a variant's longer settings must not do that. So the
   environment is padded to whole steps. Returns 0, or -1: no memory. */
static int pad_environment(void) {
  static char padding[ENVIRONMENT_STEP_BYTES + 32] = "HEAPTAPE_PADDING=";
  size_t name = strlen(padding), bytes = name + 1 + sizeof(char *);
  for (char **setting = environ; *setting; setting++)
    bytes += strlen(*setting) + 1 + sizeof(char *);
  memset(padding + name, '.', (ENVIRONMENT_STEP_BYTES - bytes % ENVIRONMENT_STEP_BYTES) % ENVIRONMENT_STEP_BYTES);
  return putenv(padding);
}

/* Makes addresses the same in each run. Containers may forbid that; the result records which was the case. */
static bool stop_randomisation(void) {
  int now = personality(0xffffffff);
  return now != -1 && personality((unsigned)now | ADDR_NO_RANDOMIZE) != -1;
}

/* Returns the engine's path: under Valgrind, /proc/self/exe is Valgrind. Empty: unknown. */
static const char *engine_path(void) {
  static char path[PATH_MAX];
  ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
  path[bytes > 0 ? bytes : 0] = '\0';
  return path;
}

__attribute__((noreturn)) static void become_engine_under(struct valgrind_command *valgrind, char *argument) {
  const char *engine = engine_path();
  if (engine[0])
    valgrind_command_exec(valgrind, engine, (char *const[]){argument, NULL});
  _exit(NO_VALGRIND);
}

/* The child, between fork and exec. */
__attribute__((noreturn)) static void become_engine(struct replay_result *result, const struct run_request *request,
                                                    struct valgrind_command *valgrind, int result_fd, int socket) {
  result->aslr = request->aslr || !stop_randomisation();
  for (char *const *setting = request->settings; setting && *setting; setting++)
    putenv(*setting);
  if (valgrind)
    valgrind_command_set_environment(valgrind);
  if (set_preloads(request->preloads) != 0 || pad_environment() != 0)
    _exit(126);
  char argument[64];
  /* Of fixed length, as arguments are above the stack, too. */
  snprintf(argument, sizeof argument, "--engine=%06d,%06d", result_fd, request->workload_fd);
  char *arguments[] = {"heaptape-replay", argument, NULL};
  if (pass_samples_memory(request->pass) && !request->baseline_only)
    syscalls_install(socket);
  else
    close(socket);
  if (valgrind)
    become_engine_under(valgrind, argument);
  execv(valgrind_is_here() ? engine_path() : "/proc/self/exe", arguments);
  _exit(127);
}

static uint64_t ops_done(const struct run *run) {
  uint64_t done = 0;
  for (uint32_t thread = 0; thread < run->result->thread_count; thread++) {
    uint64_t ops = atomic_load_explicit(&run->result->completed[thread].value, memory_order_relaxed);
    done += ops == UINT64_MAX ? 0 : ops;
  }
  return done;
}

struct watch {
  uint64_t done, last_change_ns;
};

/* Returns why the engine should be killed now; NULL: it should not. */
static const char *look(const struct run *run, const struct run_request *request, struct watch *watch) {
  uint64_t now = os_monotonic_ns(), done = ops_done(run);
  if (atomic_load(&run->result->pacing_threads) > 0)
    watch->last_change_ns = now; /* the recording had a pause here */
  if (done != watch->done) {
    *watch = (struct watch){done, now};
    if (request->progress_fd >= 0)
      dprintf(request->progress_fd, "%" PRIu64 " %" PRIu64 "\n", done, request->ops);
  }
  uint64_t idle_ns = now - watch->last_change_ns;
  bool simulated = request->pass == PASS_MISSES;
  if (idle_ns > (simulated ? MISSES_HANG_NS : HANG_NS))
    return simulated ? "no progress for an hour" : "the allocator made no progress for 60 s";
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
  else if (died > 0)
    snprintf(text, bytes, "at op %" PRIu64 " of thread %" PRIu32, atomic_load(&result->completed[died - 1].value),
             died - 1);
  else
    snprintf(text, bytes, "after %" PRIu64 " of the workload's ops", ops_done(run));
}

static int judge_end(struct run *run, const struct run_request *request, int status, const char *killed_because,
                     struct error *error) {
  struct replay_result *result = run->result;
  char place[96];
  describe_place(run, place, sizeof place);
  if (killed_because)
    return error_set(error, request->path, "%s: stopped %s", killed_because, place);
  if (atomic_load(&result->failed) == 2) {
    *error = result->error;
    return -1;
  }
  if (WIFSIGNALED(status))
    return error_set(error, request->path, "the allocator was killed by signal %d (SIG%s) %s", WTERMSIG(status),
                     sigabbrev_np(WTERMSIG(status)), place);
  bool under_valgrind = request->pass == PASS_INSTRUCTIONS || request->pass == PASS_MISSES;
  if (under_valgrind && WEXITSTATUS(status) == NO_VALGRIND)
    return error_set(error, request->path, "valgrind, which this pass needs, can't be started");
  if (WEXITSTATUS(status) != 0 || atomic_load(&result->phase) != PHASE_DONE)
    return error_set(error, request->path, "the engine's process exited with status %d %s", WEXITSTATUS(status), place);
  return 0;
}

/* Serves the engine until it ends; returns its wait status. */
static int supervise(struct run *run, const struct run_request *request, pid_t child, const char **killed_because) {
  struct watch watch = {0, os_monotonic_ns()};
  struct pollfd polled[2] = {{.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN},
                             {.fd = run->syscalls.listener, .events = POLLIN}};
  uint64_t looked_ns = 0;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    poll(polled, 2, LOOK_EVERY_MS);
    if (polled[1].revents & POLLIN)
      syscalls_answer(&run->syscalls, run->result);
    if (polled[1].revents & (POLLHUP | POLLERR))
      polled[1].fd = -1;
    uint64_t now = os_monotonic_ns();
    if (now - looked_ns < LOOK_EVERY_MS * 1000000u || *killed_because)
      continue;
    looked_ns = now;
    *killed_because = look(run, request, &watch);
    if (*killed_because)
      kill(child, SIGKILL);
  }
  if (polled[0].fd >= 0)
    close(polled[0].fd);
  if (request->progress_fd >= 0 && !request->op_limit)
    dprintf(request->progress_fd, "%" PRIu64 " %" PRIu64 "\n", ops_done(run), request->ops);
  return status;
}

static bool is_c_library(const char *path) {
  return strncmp(basename(path), "libc.so.", strlen("libc.so.")) == 0;
}

/* Refuses allocators that the linker could not load (the linker's reason is on stderr), and libraries without a malloc.
 */
static int check_preloads(const struct run *run, const struct run_request *request, struct error *error) {
  const char *before = getenv("LD_PRELOAD");
  unsigned index = 0;
  for (; before && *before; index++) {
    size_t length = strcspn(before, ": ");
    before += length + (before[length] != '\0');
  }
  for (char *const *preload = request->preloads; preload && *preload && index < PRELOAD_LIMIT; preload++, index++) {
    if (run->result->preloads_missing & (uint64_t)1 << index)
      return error_set(error, *preload, "the dynamic linker can't load it");
  }
  /* Else the C library would be measured under another name. Its own name is allowed. */
  if (request->preloads && *request->preloads && !is_c_library(*request->preloads) && !request->null_allocator &&
      run->result->malloc_is_of_libc)
    return error_set(error, *request->preloads, "defines no malloc");
  return 0;
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

/* The engine's whole life. */
static int run_process(struct run *run, const struct run_request *request, struct valgrind_command *valgrind,
                       struct error *error) {
  int result_fd = make_result(run, request, error);
  if (result_fd < 0)
    return -1;
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return error_errno(error, request->path, "can't make a socket");
  if (first_run.ns == 0)
    first_run = os_read_clocks(CLOCK_MONOTONIC);
  pid_t child = fork();
  if (child == 0)
    become_engine(run->result, request, valgrind, result_fd, sockets[1]);
  close(sockets[1]);
  close(result_fd);
  if (child < 0) {
    close(sockets[0]);
    return error_errno(error, request->path, "can't start the engine");
  }
  syscalls_accept(&run->syscalls, sockets[0], child);
  close(sockets[0]);
  const char *killed_because = NULL;
  int status = supervise(run, request, child, &killed_because);
  syscalls_finish(&run->syscalls, run->result);
  if (check_preloads(run, request, error) != 0)
    return -1;
  return judge_end(run, request, status, killed_because, error);
}

static int count_instructions(struct run *run, const struct run_request *request, struct error *error) {
  struct valgrind_command command = {.failed = false};
  int status = instruction_counter_begin(&command, request->path, error);
  if (status == 0) {
    valgrind_command_threads(&command, request->threads);
    status = run_process(run, request, &command, error);
  }
  if (status == 0)
    status =
        instruction_counter_read(command.output, request->edges ? request->edges->count : 0, &run->instructions, error);
  valgrind_command_close(&command);
  return status;
}

static int count_misses(struct run *run, const struct run_request *request, struct error *error) {
  struct miss_counter counter = {.simulated = NULL};
  struct miss_request misses = {.accesses = request->accesses,
                                .caches = request->caches,
                                .tlbs = request->tlbs,
                                .ops = request->ops,
                                .slots = request->slots,
                                .threads = request->threads,
                                .edges = request->edges ? request->edges->count : 0};
  int status = miss_counter_begin(&counter, &misses, request->path, error);
  if (status == 0)
    status = run_process(run, request, &counter.command, error);
  if (status == 0)
    status = miss_counter_read(&counter, &misses, error);
  run->accesses = counter.stream;
  run->simulated = counter.simulated;
  valgrind_command_close(&counter.command);
  return status;
}

/* What the pass counted of the calls that were made, and each of them adds to. */
static uint64_t counted_by_time(const struct replay_result *result) {
  uint64_t counted = 0;
  for (int id = 0; id < TIMED_CALLS; id++)
    for (unsigned class = 0; class < SIZE_CLASSES; class ++)
      counted += result->calls[id][class].cycles_total + result->calls[id][class].preempted;
  return counted;
}

static uint64_t counted_by_memory(const struct replay_result *result) {
  uint64_t most = 0;
  for (uint64_t row = 0; row < result->rows; row++)
    most = result->timeline[row].rss_anon_bytes > most ? result->timeline[row].rss_anon_bytes : most;
  return most;
}

/* 0 if there are no instructions below one kind of call. */
static uint64_t counted_by_instructions(const struct run *run) {
  for (int id = 0; id < CALL_LIMIT; id++)
    if (run->result->call_counts[id] > 0 && run->instructions.calls[id] == 0)
      return 0;
  return 1;
}

/* Bursts may have no calls. */
static uint64_t counted_by_misses(const struct run *run) {
  const json_t *allocator = json_object_get(run->simulated, "allocator");
  return run->accesses.has_bursts || json_integer_value(json_object_get(allocator, "instructions")) > 0;
}

/* A pass that counted 0 where calls were made did not count at all. Its figures would say that the calls are free.
   Those of the null allocator are. */
static int check_counted(const struct run *run, const struct run_request *request, struct error *error) {
  const struct replay_result *result = run->result;
  uint64_t counted = 1;
  const char *what = "";
  switch (request->pass) {
  case PASS_TIME:
    what = "cycles";
    counted = counted_by_time(result);
    break;
  case PASS_BARE:
    what = "nanoseconds of CPU time";
    counted = result->cpu_ns;
    break;
  case PASS_MEMORY:
  case PASS_BLAME:
    what = "resident bytes";
    counted = counted_by_memory(result);
    break;
  case PASS_INSTRUCTIONS:
    what = "instructions";
    counted = counted_by_instructions(run);
    break;
  case PASS_MISSES:
    what = "instructions of the allocator";
    counted = counted_by_misses(run);
    break;
  case PASS_SHARING:
    what = "ops with their lines";
    counted = result->sharing.ops;
    break;
  case PASS_VERIFY:
    what = "verified objects";
    counted = result->verified_objects + result->failed_calls + result->skipped;
    break;
  case PASS_CONTENTION: /* no wait is a figure */
    break;
  }
  if (counted > 0 || result->ops == 0 || request->baseline_only || request->null_allocator)
    return 0;
  return error_set(error, request->path, "0 %s counted for %" PRIu64 " ops: the pass has no figure", what, result->ops);
}

int run_engine(struct run *run, const struct run_request *request, struct error *error) {
  *run = (struct run){.syscalls.listener = -1};
  int status;
  if (request->pass == PASS_INSTRUCTIONS)
    status = count_instructions(run, request, error);
  else if (request->pass == PASS_MISSES)
    status = count_misses(run, request, error);
  else
    status = run_process(run, request, NULL, error);
  return status == 0 ? check_counted(run, request, error) : status;
}

void run_free(struct run *run) {
  if (run->result)
    munmap(run->result, run->result_bytes);
  free(run->syscalls.rows);
  instruction_counts_free(&run->instructions);
  json_decref(run->simulated);
  run->simulated = NULL;
  run->syscalls.rows = NULL;
  run->result = NULL;
}

/* SPDX-License-Identifier: MIT */
/* heaptape-observe: runs a command and reports the memory and processor time of each of its programs, or its counts in
   a simulation. */
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/os.h"
#include "core/command/cli.h"
#include "core/command/diagnostics.h"
#include "core/system/pmu_json.h"
#include "observe/observe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OBSERVE "heaptape-observe"

enum { EXIT_FAILED = 1, INTERVAL_US = 2000, TIME_INTERVAL_US = 50000 };
enum {
  COUNTED = 1 << PMU_TASK_CLOCK | 1 << PMU_CYCLES | 1 << PMU_INSTRUCTIONS | 1 << PMU_CACHE_MISSES | 1 << PMU_DTLB_MISSES
};
/* How long processes that outlive the command are still served: without a listener their calls would fail. */
static const uint64_t REST_NS = 3000000000u;

struct options {
  bool time_only;
  uint64_t interval_us; /* 0: not given */
  const char *output;
  char **command;
  const struct observe_instead *instead; /* NULL: it is observed */
};

static const char *take_interval(void *field, const char *value) {
  const char *problem = cli_count_above_0(field, value);
  return problem || *(uint64_t *)field <= 10000000 ? problem : "is above 10 seconds";
}

CLI_PLACE(observe);
static const struct cli_option options_table[] = {
    {"output", 'o', "OUT.json", cli_text, offsetof(struct options, output), .help = "where the result goes",
     .fallback = "standard error"},
    {"time-only", 0, NULL, cli_flag, offsetof(struct options, time_only),
     .help = "processor time and page faults only, not memory"},
    {"interval-us", 0, "N", take_interval, offsetof(struct options, interval_us),
     .help = "time between two samples, in microseconds", .fallback = "2000; 50000 with --time-only"},
    {CLI_ADDED(observe), .field = offsetof(struct options, instead)},
    {.name = NULL},
};

static const struct cli_command command = {
    .called = "heaptape-observe",
    .summary = "run a program and report its memory and time, or its simulated cache misses",
    .synopsis = "[OPTION...] -- CMD [ARGUMENT...]",
    .details =
        "Runs CMD and reports, as JSON, the memory and processor time of each of its programs, or its counts in a "
        "simulation.",
    .options = options_table,
    .least = 1,
    .ends_at_argument = true};
static const struct cli_command *const commands[] = {&command, NULL};
static const struct cli_program program = {OBSERVE, commands};

/* Returns CLI_RUN, or the exit status. */
static int parse(int count, char **arguments, struct options *options) {
  struct cli_words words = {arguments, count};
  int status = cli_parse(&program, &command, options, &words);
  if (status != CLI_RUN)
    return status;
  options->command = words.at;
  bool observes = options->time_only || options->interval_us;
  const char *wrong = options->instead ? options->instead->wrong(observes) : NULL;
  if (wrong)
    return cli_wrong(program.name, &command, "%s", wrong);
  return CLI_RUN;
}

static json_t *image_as_json(const struct observed *image, bool notified, bool memory) {
  json_t *object = json_pack("{s:s#, s:s, s:i, s:b}", "name", image->name, strlen(image->name), "file", image->file,
                             "pid", (int)image->pid, "exited", image->exited);
  if (!object)
    return NULL; /* a name that is not UTF-8 */
  json_set_count(object, "time_ns", image->time_ns);
  json_set_count(object, "cpu_ns", image->cpu_ns);
  uint64_t faults = image->minor_faults + image->major_faults;
  json_set_count(object, "page_faults", faults > image->faults_begin ? faults - image->faults_begin : 0);
  if (!memory)
    return object;
  json_object_set_new(object, "peaks", json_string(notified ? "exact" : "sampled"));
  json_set_count(object, "rss_anon_peak_bytes", image->rss_anon_peak_bytes);
  json_set_count(object, "vm_size_peak_bytes", image->vm_size_peak_bytes);
  json_set_count(object, "vm_hwm_bytes", image->vm_hwm_bytes);
  json_t *calls = json_object(), *rows = json_array();
  for (int call = 0; call < OBSERVED_CALLS && notified; call++)
    json_set_count(calls, observed_call_names[call], image->calls[call]);
  for (uint32_t index = 0; index < image->row_count; index++) {
    const struct observed_row *row = &image->rows[index];
    json_append_counts(rows, 4, (uint64_t[]){row->time_ns, row->cpu_ns, row->rss_anon_bytes, row->vm_size_bytes});
  }
  json_object_set_new(object, "syscalls", calls);
  json_object_set_new(object, "timeline", rows);
  return object;
}

/* The command's end. `system_ns`: CPU time in the kernel of all its processes that were waited for. */
struct ending {
  int status; /* as wait(2) gives it */
  uint64_t system_ns;
  struct pmu_count counts[PMU_EVENTS];
};

static int write_result(const struct observation *all, const char *path, const struct ending *ending) {
  int status = WIFEXITED(ending->status) ? WEXITSTATUS(ending->status) : -WTERMSIG(ending->status);
  json_t *images = json_array();
  for (uint32_t index = 0; index < all->count; index++)
    json_array_append_new(images, image_as_json(&all->images[index], all->listener >= 0, all->memory));
  json_t *json = json_pack("{s:i, s:b, s:i, s:o}", "status", status, "notified", all->listener >= 0, "programs_lost",
                           (int)all->lost, "programs", images);
  if (!all->memory) {
    json_set_count(json, "system_ns", ending->system_ns);
    pmu_report(json, ending->counts);
  }
  struct error error = {0};
  struct output_stream stream = {stderr, "standard error"};
  struct output_file file;
  int result = path ? output_stream_begin(&stream, &file, path, &error) : 0;
  if (result == 0) {
    if (!json_write_line(json, stream.file))
      result = error_set(&error, stream.name, "can't be written");
    if (path)
      result = output_stream_end(&stream, &file, result, &error);
  }
  json_decref(json);
  if (result != 0)
    diagnostics_error(OBSERVE, "%s", error.text);
  return result;
}

__attribute__((noreturn)) static void become_command(const struct options *options, const sigset_t *mask, int socket) {
  sigprocmask(SIG_SETMASK, mask, NULL);
  observe_install(socket, !options->time_only);
  execvp(options->command[0], options->command);
  diagnostics_error(OBSERVE, "%s: %s", options->command[0], strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

static void pass_signals_on(int signals, pid_t child) {
  struct signalfd_siginfo signal;
  while (read(signals, &signal, sizeof signal) == sizeof signal)
    kill(child, (int)signal.ssi_signo);
}

/* Serves until the command has ended and no process remains whose calls wait for an answer. */
static void serve(struct observation *all, pid_t child, int signals, struct ending *ending) {
  struct pollfd polled[3] = {{.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN},
                             {.fd = all->listener, .events = POLLIN},
                             {.fd = signals, .events = POLLIN}};
  struct rusage used;
  uint64_t ended_ns = 0;
  for (;;) {
    uint64_t now = os_monotonic_ns(), next = observe_sample(all);
    struct timespec wait = {.tv_nsec = next > now ? (long)((next - now) % 1000000000u) : 0};
    ppoll(polled, 3, &wait, NULL);
    if (polled[1].revents & POLLIN)
      observe_answer(all);
    if (polled[1].revents & (POLLHUP | POLLERR))
      polled[1].fd = -1;
    if (polled[2].revents & POLLIN)
      pass_signals_on(signals, child);
    if (!ended_ns && wait4(child, &ending->status, WNOHANG, &used) == child) {
      ending->system_ns = (uint64_t)used.ru_stime.tv_sec * 1000000000u + (uint64_t)used.ru_stime.tv_usec * 1000u;
      ended_ns = os_monotonic_ns();
      close(polled[0].fd);
      polled[0].fd = -1;
    }
    if (ended_ns && (polled[1].fd < 0 || os_monotonic_ns() - ended_ns > REST_NS))
      return;
  }
}

static int run_instead(const struct options *options) {
  struct error error = {0};
  int status = options->instead->run(options->command, options->output, &error);
  if (status >= 0)
    return status;
  diagnostics_error(OBSERVE, "%s", error.text);
  return EXIT_FAILED;
}

int main(int count, char **arguments) {
  struct options options = {.interval_us = 0};
  int parsed = parse(count, arguments, &options);
  if (parsed != CLI_RUN)
    return parsed;
  if (options.instead)
    return run_instead(&options);
  if (!options.interval_us)
    options.interval_us = options.time_only ? TIME_INTERVAL_US : INTERVAL_US;
  static struct observation all;
  all.memory = !options.time_only;
  all.interval_ns = options.interval_us * 1000;
  sigset_t taken, before;
  sigemptyset(&taken);
  for (const int *number = (const int[]){SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, 0}; *number; number++)
    sigaddset(&taken, *number);
  sigprocmask(SIG_BLOCK, &taken, &before);
  int sockets[2], signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    diagnostics_error(OBSERVE, "can't start the command: %s", strerror(errno));
    return EXIT_FAILED;
  }
  pid_t child = fork();
  if (child == 0)
    become_command(&options, &before, sockets[1]);
  close(sockets[1]);
  if (child < 0) {
    diagnostics_error(OBSERVE, "can't start the command: %s", strerror(errno));
    return EXIT_FAILED;
  }
  observe_begin(&all, sockets[0], child);
  close(sockets[0]);
  struct pmu pmu;
  struct ending ending = {.status = 0};
  /* With a listener the command waits in its exec until that is answered. */
  pmu_open(&pmu, child, options.time_only ? COUNTED : 0, all.listener >= 0 ? PMU_AT_EXEC : PMU_NOW);
  serve(&all, child, signals, &ending);
  pmu_read(&pmu, ending.counts);
  int exit_status = WIFEXITED(ending.status) ? WEXITSTATUS(ending.status) : 128 + WTERMSIG(ending.status);
  int failed = write_result(&all, options.output, &ending);
  observe_finish(&all);
  return failed ? EXIT_FAILED : exit_status;
}

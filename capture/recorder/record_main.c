/* SPDX-License-Identifier: MIT */
/* heaptape-record: runs a program and records its calls of the malloc API. Launch, signals, and the final lines. */
#include "capture/recorder/collector.h"
#include "capture/recorder/command/describe.h"
#include "capture/recorder/command/options.h"
#include "capture/recorder/command/preflight.h"
#include "capture/recorder/command/report.h"
#include "capture/recorder/command/settings.h"
#include "capture/recorder/command/simulator.h"
#include "capture/recorder/command/unblocked.h"
#include "capture/recorder/connections.h"
#include "capture/recorder/unfollowed.h"
#include "capture/recorder/upkeep.h"
#include "capture/recorder/ways.h"
#include "core/base/files.h"
#include "core/base/os.h"
#include "core/command/diagnostics.h"
#include "core/elf/elf_file.h"
#include "core/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct collector *serving;
static int child_pid;

/* Is the process one of those that the program started, or the program? */
static bool is_of_program(int pid) {
  while (pid > 1 && pid != getpid())
    pid = proc_parent(pid);
  return pid == getpid();
}

/* The recording ends when the program does, so a signal to the recorder is passed on to the program; afterwards the
   recorder no longer waits for processes that outlive the program. One from the terminal (SI_KERNEL; SIGINT is taken
   for one) has reached the program, too. One that the program sends to its process group, in which we are, is not for
   us. */
static void end(int signal, siginfo_t *from, void *context) {
  int error = errno;
  (void)context;
  bool from_terminal = from->si_code == SI_KERNEL;
  if (from_terminal || !is_of_program(from->si_pid)) {
    if (!from_terminal && signal != SIGINT && child_pid && !serving->outcome.child_ended)
      kill(child_pid, signal);
    collector_stop(serving);
  }
  errno = error;
}

static void toggle(int signal) {
  (void)signal;
  int error = errno;
  collector_toggle(serving);
  errno = error;
}

static void switch_burst(int signal) {
  int error = errno;
  const struct burst_ends *burst = &serving->settings->burst;
  bool begins = signal == burst->from_signal, ends = signal == burst->to_signal;
  collector_request_burst(serving, begins && ends ? BURST_CHANGES : begins ? BURST_BEGINS : BURST_ENDS);
  errno = error;
}

static void child_changed(int signal) {
  (void)signal;
  int error = errno;
  collector_wake(serving);
  errno = error;
}

static void fail(const struct error *error, int status) {
  if (serving)
    connections_unlink(serving);
  report_error(error);
  exit(status);
}

/* The program has not begun. */
static void fail_launched(const struct error *error) {
  kill(child_pid, SIGKILL);
  fail(error, 1);
}

/* The libraries to preload into the program; "": none. */
struct preloads {
  char ours[PATH_MAX], unwinder[PATH_MAX], allocator[PATH_MAX];
};

/* gcc's AddressSanitizer refuses to start behind another library, unless it is asked not to. It needs to come before
   the C library only, which it does. */
static void allow_sanitizer(void) {
  static const char name[] = "ASAN_OPTIONS", option[] = "verify_asan_link_order=0";
  const char *before = getenv(name);
  char value[8192];
  if (before && strstr(before, "verify_asan_link_order"))
    return;
  if (snprintf(value, sizeof value, "%s%s%s", option, before && before[0] ? ":" : "", before ? before : "") <
      (int)sizeof value)
    setenv(name, value, 1);
}

/* Sets LD_PRELOAD: our library first, so that it comes before the allocator, then what was there. */
static void set_preload(const struct preloads *preloads) {
  const char *before = getenv("LD_PRELOAD");
  const char *const parts[] = {preloads->ours, preloads->unwinder, preloads->allocator, before ? before : ""};
  char *value = malloc(sizeof *preloads + strlen(parts[3]) + 1), *end = value;
  if (!value) {
    diagnostics_error(RECORD, "out of memory");
    exit(1);
  }
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (*parts[i])
      end += sprintf(end, "%s%s", end > value ? ":" : "", parts[i]);
  setenv("LD_PRELOAD", value, 1);
  allow_sanitizer();
  free(value);
}

/* An OS page that an earlier object touched is still resident when a later object there is released, whether the later
   one touched it or not. An object in a separate mapping begins without resident pages; an object that fits into free
   heap memory gets no mapping. The limit is below the number of mappings that a process may have (65,530 as a rule), as
   the program needs some itself; objects beyond the limit share the heap again. */
static void give_own_mappings(void) {
  setenv("MALLOC_MMAP_THRESHOLD_", "8192", 1);
  setenv("MALLOC_MMAP_MAX_", "32768", 1);
}

static char *describe(char **arguments) {
  char machine[256] = "";
  gethostname(machine, sizeof machine - 1);
  json_t *list = json_array();
  for (char **argument = arguments; *argument; argument++)
    if (json_array_append_new(list, json_string(*argument)) != 0) /* not UTF-8 */
      json_array_append_new(list, json_string("?"));
  json_t *object = json_pack("{s:o,s:s}", "arguments", list, "host", machine);
  char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
  json_decref(object);
  return text;
}

static int fail_locked(const char *path, struct error *error) {
  return error_set(error, path, "another recorder is writing it");
}

/* The path of the first process's trace; of its first file, if files rotate. Returns 0, or -1 with error: the file
   before it is being written. */
static int find_output(struct collector_settings *settings, char *path, size_t bytes, struct error *error) {
  describe_first_path(settings, path, bytes);
  if (!settings->rotate_bytes)
    return 0;
  struct file_set files = {.id = 0};
  file_set_begin(&files, path, 0);
  settings->first_number = files.number;
  file_set_path(&files, files.number - 1, path, bytes);
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  os_close(fd);
  if (locked)
    return fail_locked(path, error);
  file_set_path(&files, files.number, path, bytes);
  return 0;
}

/* Finds the first output file, creates it if it does not exist, and locks it while the recorder runs, so that one that
   is unwritable, or another recorder's, is found before the program runs. *made: it was created. */
static int take_output(struct collector_settings *settings, char *path, size_t bytes, bool *made, struct error *error) {
  struct stat status;
  if (find_output(settings, path, bytes, error) != 0)
    return -1;
  *made = stat(path, &status) != 0;
  if (!*made && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)))
    return error_set(error, path, "is a pipe or a socket: a trace is not written in order, so it needs a file");
  int exclusive = settings->rotate_bytes ? O_EXCL : 0;
  int fd = settings->output_fd = settings->output
                                     ? output_open(path, O_WRONLY | exclusive)
                                     : open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | exclusive, 0666);
  if (fd < 0 || fstat(fd, &status) != 0)
    return error_errno(error, path, "cannot be written");
  if (!settings->output && (status.st_uid != geteuid() || status.st_nlink > 1))
    return error_set(error, path, "exists, and is another user's or has another name: give one by -o");
  if (S_ISREG(status.st_mode) && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return fail_locked(path, error);
  return 0;
}

/* Called before we set our signal dispositions, so that the child has those that we were started with. The child waits
   until it can read from go, and writes an errno to failed if it cannot exec. */
static int launch(const char *path, char **arguments, struct simulator *simulator, int go[2], int failed[2]) {
  if (pipe2(go, O_CLOEXEC) != 0 || pipe2(failed, O_CLOEXEC) != 0)
    return -1;
  int pid = fork();
  if (pid != 0)
    return pid;
  close(go[1]);
  char word;
  if (read(go[0], &word, 1) != 1)
    _exit(1);
  if (simulator)
    simulator_become(simulator, path, arguments);
  else /* execvp, not execv: a file without magic is a script of the shell */
    execvp(strchr(arguments[0], '/') ? arguments[0] : path, arguments);
  int error = errno;
  if (write(failed[1], &error, sizeof error) != sizeof error)
    _exit(126);
  _exit(126);
}

/* Each process takes three descriptors. Called after the launch, as the program's limit must be what it would be
   without us. Returns 0, or sets *error and returns -1: there are too few for the first process. */
static int raise_descriptor_limit(struct error *error) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  uint32_t lack = connections_lack(serving);
  return lack
             ? error_set(error, "ulimit -n", "the recorder needs %u more file descriptors than this limit allows", lack)
             : 0;
}

/* Of the others, those that would end or stop us are ignored: a program may send any to its process group. The terminal
   can still stop us (SIGTSTP), and errors of our own end us. */
static void ignore_others(void) {
  static const int kept[] = {SIGKILL, SIGSTOP, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD, SIGWINCH,
                             SIGURG,  SIGILL,  SIGABRT, SIGBUS,  SIGFPE,  SIGSEGV, SIGTRAP, SIGSYS};
  for (int number = 1; number <= SIGRTMAX; number++) {
    bool is_kept = false;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
      is_kept |= number == kept[i];
    if (!is_kept)
      signal(number, SIG_IGN);
  }
}

static void set_signals(int toggle_signal, const struct burst_ends *burst) {
  ignore_others();
  elf_guard();
  struct sigaction action = {.sa_sigaction = end, .sa_flags = SA_RESTART | SA_SIGINFO};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGHUP, &action, NULL);
  action.sa_flags = SA_RESTART;
  action.sa_handler = child_changed;
  sigaction(SIGCHLD, &action, NULL);
  action.sa_handler = toggle;
  if (toggle_signal)
    sigaction(toggle_signal, &action, NULL);
  action.sa_handler = switch_burst;
  if (burst->from_signal)
    sigaction(burst->from_signal, &action, NULL);
  if (burst->to_signal)
    sigaction(burst->to_signal, &action, NULL);
}

static int prepare_static(struct command *command, const char *program, struct linked_list *functions,
                          struct error *error) {
  if (linked_way())
    return linked_way()->prepare_static(command, program, functions, error);
  error_set(error, program, "statically linked: this build can't record static programs");
  return 1;
}

/* Finds the program (PATH_MAX bytes), the libraries, and the functions of a static program; exits where one of them is
   not usable. */
static void preflight(struct command *command, char *program, struct preloads *preloads,
                      struct linked_list *functions) {
  const struct collector_settings *settings = &command->settings;
  struct error error = {0};
  char static_program[PATH_MAX];
  int status = preflight_program(command->arguments[0], program, static_program, &error);
  if (status == 0 && static_program[0])
    status = prepare_static(command, static_program, functions, &error);
  if (status == 0)
    status = preflight_library("libheaptape.so", preloads->ours, &error);
  if (status == 0 && (settings->flags & ATTACH_STACKS) && settings->stack_unwind == UNWIND_LIBUNWIND) {
    status = preflight_libunwind(&error);
    if (status == 0)
      status = preflight_library("libheaptape-unwind.so", preloads->unwinder, &error);
    if (status == 0)
      status = preflight_same_libc(program, preloads->unwinder, &error);
  }
  if (status == 0 && command->preload) {
    status = preflight_preload(command->preload, preloads->allocator, &error);
    if (status == 0)
      status = preflight_same_libc(program, preloads->allocator, &error);
  }
  if (status != 0)
    fail(&error, status);
}

static void conclude_upkeep(const struct command *command) {
  uint32_t bursts = serving->outcome.bursts, deleted = serving->outcome.files_deleted;
  double percent = budget_used_percent(&serving->upkeep.budget);
  if (command->settings.budget > 0 && !diagnostics.quiet)
    fprintf(stderr, "heaptape: %u burst%s; recording cost %.2f %% of the program's CPU time, of %g %% allowed%s\n",
            bursts, bursts == 1 ? "" : "s", percent, 100 * command->settings.budget,
            bursts == 0 && percent > 100 * command->settings.budget ? ": no burst began, as counting calls costs more"
                                                                    : "");
  if (deleted)
    fprintf(stderr, "heaptape: %u files; %u are kept, the %u before them were deleted (--keep)\n",
            report_written().files, report_written().files - deleted, deleted);
}

/* Prints the final lines. exec_error: 0 if the program ran. Returns the number of processes that were not recorded. */
static uint32_t conclude(const struct command *command, int exec_error, const char *output, bool made) {
  bool recorded = serving->outcome.recorded > 0;
  if (exec_error)
    diagnostics_error(RECORD, "%s: %s", command->arguments[0], strerror(exec_error));
  else if (!recorded && serving->outcome.refused == 0)
    diagnostics_warning(RECORD, "%s: nothing was recorded: the program did not %s", command->arguments[0],
                        command->settings.simulated ? "call malloc" : "reach the recorder");
  else if (!recorded)
    diagnostics_error(RECORD, "%s: nothing was recorded: its calls were not even counted", command->arguments[0]);
  if (command->settings.in_bursts && report_written().bursts == 0 && recorded)
    diagnostics_warning(RECORD, "no burst began, so there are no data accesses: \"%s\" did not occur",
                        command->settings.burst.from);
  if (recorded)
    conclude_upkeep(command);
  uint32_t unrecorded = serving->outcome.refused + unfollowed_report(serving);
  report_conclude(&command->settings, command->all_processes);
  if (!recorded && made)
    unlink(output);
  return unrecorded;
}

static void report_complaint(int pid, const char *words) {
  diagnostics_error(RECORD, "process %d: Valgrind can't run it: %s", pid, words);
}

/* Chooses the clock; exits where an option needs another one. */
static void choose_clock(struct collector_settings *settings) {
  struct error error = {0};
  if (!os_cycles_invariant())
    settings->flags |= ATTACH_COUNTER;
  if ((settings->flags & ATTACH_COUNTER) && (settings->flags & ATTACH_LATENCY)) {
    error_set(&error, "--latency", "cannot be measured: the clock is a counter, which gives an order but no time");
    fail(&error, 1);
  }
}

/* --- a process that runs --- */

static void restorer_begin(const struct restorer *restorer, const char *setting) {
  if (write(restorer->line, setting, strlen(setting) + 1) < 0)
    return; /* it has ended, which the collector will find */
}

static void prepare_attached(struct command *command, char *library, char *name, size_t name_bytes) {
  struct error error = {0};
  struct attach_request request = {.pid = command->attach_pid};
  if (!attach_way())
    error_set(&error, "--attach", "this build can't record a process that runs already");
  if (!attach_way() || attach_way()->prepare(command->attach_pid, library, &error) != 0)
    fail(&error, 1);
  describe_program_name(&request, name, name_bytes);
  command->settings.name = name;
  command->settings.first_pid = command->attach_pid;
  choose_clock(&command->settings);
}

static int record_attached(struct command *command) {
  struct collector_settings *settings = &command->settings;
  struct error error = {0};
  char library[PATH_MAX], output[PATH_MAX], name[256];
  bool made;
  struct restorer restorer = {
      .line = -1, .target = command->attach_pid, .target_fd = (int)syscall(SYS_pidfd_open, command->attach_pid, 0)};
  prepare_attached(command, library, name, sizeof name);
  if (take_output(settings, output, sizeof output, &made, &error) != 0 ||
      attach_way()->start(&restorer, library, settings->output_fd, &error) != 0)
    fail(&error, 1);
  settings->restorer_pid = restorer.pid;
  if (collector_open(&serving, settings, &error) != 0)
    fail(&error, 1);
  set_signals(command->toggle_signal, &settings->burst);
  if (raise_descriptor_limit(&error) != 0)
    fail(&error, 1);
  unblocked_begin();
  restorer_begin(&restorer, serving->address);
  collector_serve(serving);
  bool recorded = serving->outcome.recorded > 0;
  bool done = attach_way()->end(&restorer, serving->address, serving->outcome.restorer_status, recorded);
  if (recorded)
    conclude_upkeep(command);
  uint32_t unrecorded = serving->outcome.refused + unfollowed_report(serving);
  report_conclude(settings, command->all_processes);
  if (done && !recorded)
    diagnostics_warning(RECORD, "process %d: nothing was recorded: it made no call", command->attach_pid);
  struct stat status;
  if (made && stat(output, &status) == 0 && status.st_size == 0) /* fork children alone made calls, if any */
    unlink(output);
  collector_close(serving);
  return done && recorded && !(command->strict && unrecorded) ? 0 : 1;
}

/* How the recorder knows that a process has ended, and that a number is still the same process's. */
static int check_kernel(struct error *error) {
  int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
  if (fd < 0)
    return error_errno(error, "pidfd_open",
                       "recording needs this system call: Linux 5.3 or later, and no filter that forbids it");
  close(fd);
  return 0;
}

int main(int argc, char **argv) {
  struct command command = {.attach_pid = 0};
  int status = options_parse(&command, argc, argv);
  if (status != CLI_RUN)
    return status;
  struct error error = {0};
  if (check_kernel(&error) != 0)
    fail(&error, 1);
  if (command.attach_pid)
    return record_attached(&command);
  char program[PATH_MAX], output[PATH_MAX];
  struct preloads preloads = {"", "", ""};
  struct linked_list functions = {.count = 0};
  preflight(&command, program, &preloads, &functions);

  command.settings.name = basename(program);
  char *description = command.describe ? describe(command.arguments) : NULL;
  command.settings.describe_json = description;
  choose_clock(&command.settings);
  struct simulator *simulator = NULL;
  if (command.settings.simulated && simulator_open(&simulator, &command.settings, &functions, &error) != 0)
    fail(&error, 1);
  if (collector_open(&serving, &command.settings, &error) != 0)
    fail(&error, 1);
  setenv(HEAPTAPE_ENV, serving->address, 1);
  set_preload(&preloads);
  if (command.own_mappings)
    give_own_mappings();
  int go[2], failed[2];
  child_pid = launch(program, command.arguments, simulator, go, failed);
  if (child_pid < 0) {
    error_errno(&error, program, "cannot start a process");
    fail(&error, 1);
  }
  unsetenv("LD_PRELOAD");
  set_signals(command.toggle_signal, &command.settings.burst);
  command.settings.first_pid = child_pid;
  bool made = false;
  if (raise_descriptor_limit(&error) != 0 || take_output(&command.settings, output, sizeof output, &made, &error) != 0)
    fail_launched(&error);
  close(failed[1]);
  if (write(go[1], "", 1) != 1)
    diagnostics_error(RECORD, "%s", strerror(errno));
  close(go[0]);
  close(go[1]);
  unblocked_begin();
  int ended = collector_serve(serving);
  int exec_error;
  if (read(failed[0], &exec_error, sizeof exec_error) != sizeof exec_error)
    exec_error = 0;
  bool refused = serving->outcome.recorded == 0 && serving->outcome.refused > 0;
  bool complained = simulator && !exec_error && simulator_complained(simulator, child_pid, &error);
  uint32_t unrecorded = conclude(&command, exec_error, output, made);
  if (simulator)
    simulator_each_complaint(simulator, child_pid, report_complaint);
  simulator_close(simulator);
  collector_close(serving);
  free(description);
  if (exec_error)
    return exec_error == ENOENT ? 127 : 126;
  if (complained)
    fail(&error, 1);
  if (report_written().without_accesses || (refused && ended == 0) || (command.strict && unrecorded && ended == 0))
    return 1;
  return WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
}

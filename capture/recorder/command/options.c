/* SPDX-License-Identifier: MIT */
#include "capture/recorder/command/options.h"

#include "capture/recorder/command/beside.h"
#include "core/base/error.h"
#include "core/base/os.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* What the table's options fill in. */
struct parsed {
  struct command command;
  int on_full, stamp, clock, unwind; /* which of the option's values, from 0 */
  bool no_follow;
};

const char *options_bytes(void *field, const char *value) {
  char *end;
  errno = 0;
  unsigned long long bytes = strtoull(value, &end, 10);
  static const char units[] = "KMG";
  const char *unit = *end ? strchr(units, *end) : NULL;
  unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
  if (*value < '0' || *value > '9' || errno || (*end && !unit) || (unit && end[1]) || bytes << shift >> shift != bytes)
    return "is not a number of bytes";
  *(uint64_t *)field = bytes << shift;
  return NULL;
}

static const char *take_bytes_above_0(void *field, const char *value) {
  const char *problem = options_bytes(field, value);
  return problem || *(uint64_t *)field == 0 ? "is not a number of bytes above 0" : NULL;
}

/* In a smaller file, most bytes would not be events. */
static const char *take_rotation(void *field, const char *value) {
  enum { LEAST_BYTES = 64 << 10 };
  const char *problem = options_bytes(field, value);
  return problem ? problem : *(uint64_t *)field < LEAST_BYTES ? "is less than 64K" : NULL;
}

/* 0 turns it off. */
static const char *take_touch_min(void *field, const char *value) {
  const char *problem = options_bytes(field, value);
  if (!problem && *(uint64_t *)field == 0)
    *(uint64_t *)field = UINT64_MAX;
  return problem;
}

/* Nanoseconds from a time in units of unit_ns. */
static const char *take_time(uint64_t *field, const char *value, double unit_ns) {
  char *end;
  double time = strtod(value, &end);
  if (end == value || *end || !isfinite(time) || time <= 0 || time * unit_ns > 1e18)
    return "is not a time above 0";
  *field = time * unit_ns < 1 ? 1 : (uint64_t)(time * unit_ns);
  return NULL;
}

static const char *take_seconds(void *field, const char *value) {
  return take_time(field, value, 1e9);
}

static const char *take_milliseconds(void *field, const char *value) {
  return take_time(field, value, 1e6);
}

/* A share (0 to 1) from a percentage, "2%" or "2". */
static const char *take_share(void *field, const char *value) {
  char *end;
  double percent = strtod(value, &end);
  if (end == value || (*end && strcmp(end, "%") != 0) || !(percent > 0 && percent <= 100))
    return "is not a share above 0 and up to 100 %";
  *(double *)field = percent / 100;
  return NULL;
}

/* A whole number from 1 to most. */
static bool parse_number(const char *value, unsigned long most, unsigned long *number) {
  char *end;
  errno = 0;
  *number = strtoul(value, &end, 10);
  return *value >= '0' && *value <= '9' && !*end && !errno && *number > 0 && *number <= most;
}

static const char *take_keep(void *field, const char *value) {
  unsigned long number;
  if (!parse_number(value, UINT32_MAX - 1, &number))
    return "is not a number of files, 1 or more";
  *(uint32_t *)field = (uint32_t)number;
  return NULL;
}

static const char *take_pid(void *field, const char *value) {
  unsigned long number;
  if (!parse_number(value, INT32_MAX, &number))
    return "is not a process ID";
  *(int *)field = (int)number;
  return NULL;
}

int options_find_signal(const char *value) {
  const char *name = strncmp(value, "SIG", 3) == 0 ? value + 3 : value;
  int number = 0;
  char *end;
  long given = strtol(name, &end, 10);
  if (end != name && !*end && given > 0 && given <= SIGRTMAX)
    number = (int)given;
  if (strncmp(name, "RTMIN", 5) == 0 && (!name[5] || name[5] == '+'))
    number = SIGRTMIN + (name[5] ? atoi(name + 6) : 0);
  for (int candidate = 1; !number && candidate < SIGRTMIN; candidate++) {
    const char *known = signal_name(candidate);
    if (known && strcmp(known, name) == 0)
      number = candidate;
  }
  return number <= SIGRTMAX ? number : 0;
}

const char *options_signal(void *field, const char *value) {
  int number = options_find_signal(value);
  static const int taken[] = {SIGKILL, SIGSTOP, SIGCHLD, SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGPIPE,
                              SIGXFSZ, SIGSEGV, SIGBUS,  SIGABRT, SIGILL,  SIGFPE, SIGTRAP, SIGCONT};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (number == taken[i])
      return "the recorder needs that signal itself; USR1, USR2 and RTMIN+N are free";
  *(int *)field = number;
  return number ? NULL : "there is no such signal";
}

/* The fields of the following takers are all settings. */

static const char *take_latency(void *field, const char *value) {
  (void)value;
  ((struct collector_settings *)field)->flags |= ATTACH_LATENCY;
  return NULL;
}

static const char *take_usable(void *field, const char *value) {
  (void)value;
  ((struct collector_settings *)field)->flags |= ATTACH_USABLE;
  return NULL;
}

static const char *take_stacks(void *field, const char *value) {
  struct collector_settings *settings = field;
  unsigned long depth = settings->stack_depth;
  _Static_assert(STACK_DEPTH_MAX == 256, "the text below has it");
  if (value && !parse_number(value, STACK_DEPTH_MAX, &depth))
    return "is not a number of frames from 1 to 256";
  settings->flags |= ATTACH_STACKS;
  settings->stack_depth = (uint32_t)depth;
  return NULL;
}

#define COMMAND(member) offsetof(struct parsed, command.member)
#define SETTING(member) offsetof(struct parsed, command.settings.member)
#define SETTINGS offsetof(struct parsed, command.settings)

static const char general[] = "options", when[] = "when and how much", what[] = "what each call stores",
                  memory[] = "memory";

CLI_PLACE(record);
static const struct cli_option options[] = {
    {"output", 'o', "F.tape", cli_text, SETTING(output), "where the trace goes", "PROGRAM.PID.tape", .group = general},
    {"preload", 0, "LIB", cli_text, COMMAND(preload), "record the program on another allocator", .group = general},
    {"no-follow", 0, NULL, cli_flag, offsetof(struct parsed, no_follow), "record this process only, not its children",
     .group = general},
    {"all-processes", 0, NULL, cli_flag, COMMAND(all_processes),
     "keep the recordings of processes with less than 1 % of all calls, too, and show the tree of processes",
     .group = general},
    {"strict", 0, NULL, cli_flag, COMMAND(strict),
     "exit with status 1 if a process that CMD started was not recorded, although CMD succeeded", .group = general},
    {"attach", 0, "PID", take_pid, COMMAND(attach_pid),
     "record a process that runs already: from now until --duration is over, the recorder gets a SIGINT, or the process "
     "ends; then everything in it is put back",
     .group = general},
    {"describe", 0, NULL, cli_flag, COMMAND(describe),
     "store arguments and host name in the trace (never done without this)", .group = general},
    {"on-full", 0, "wait|drop", NULL, offsetof(struct parsed, on_full),
     "when the collector can't keep up: let the program wait, or drop events and count them", "wait", .group = general},
    {"start-paused", 0, NULL, cli_flag, SETTING(start_paused),
     "record nothing until 'heaptape ctl PID start' or the signal", .group = when},
    {"signal", 0, "NAME", options_signal, COMMAND(toggle_signal),
     "the recorder starts or stops recording when it (not the program) gets this signal: USR1, RTMIN+3", .group = when},
    {"duration", 0, "SECONDS", take_seconds, SETTING(duration_ns),
     "recording ends this long after its start; the program continues", .group = when},
    {"max-size", 0, "BYTES", take_bytes_above_0, SETTING(max_bytes),
     "recording ends before the traces together exceed BYTES (K, M, G: powers of 1024)", .group = when},
    {"budget", 0, "PERCENT", take_share, SETTING(budget),
     "record in bursts at random moments, so that recording costs at most this share of the CPU time of the program (2%); "
     "calls between the bursts are counted",
     .group = when},
    {"budget-after", 0, "SECONDS", take_seconds, SETTING(budget_after_ns),
     "record everything for this long first; the budget holds from then on", .group = when},
    {"rotate", 0, "BYTES", take_rotation, SETTING(rotate_bytes),
     "continue in a new file when one has this size (at least 64K): F.0001.tape, F.0002.tape; each is a complete trace; "
     "'heaptape convert --merge' makes one trace of them",
     .group = when},
    {"keep", 0, "N", take_keep, SETTING(keep),
     "keep the current file and the N before it; delete older files of this recording", .group = when},
    {"latency", 0, NULL, take_latency, SETTINGS,
     "store how long each call took, in units of the cycle counter; the cost of reading it is subtracted",
     .group = what},
    {"usable", 0, NULL, take_usable, SETTINGS, "store how much of each object can be used (malloc_usable_size)",
     .group = what},
    {"stacks", 0, "[=DEPTH]", take_stacks, SETTINGS,
     "store the call stack of each call that acquires: at least the innermost DEPTH frames", "32", .group = what},
    {"unwind", 0, "auto|dwarf|fp|libunwind", NULL, offsetof(struct parsed, unwind), /* enum stack_unwind */
     "how stacks are walked: by the compiler's unwind tables, and frame pointers where there are none (auto); by the tables "
     "only; by frame pointers only, the fastest where the program has them; by the library libunwind, the slowest, which "
     "takes its own locks in the program",
     "auto", .group = what},
    {"stamp", 0, "tags|every", NULL, offsetof(struct parsed, stamp),
     "how events of different threads are ordered; every: a time stamp per event", "tags", .group = what},
    {"clock", 0, "auto|counter", NULL, offsetof(struct parsed, clock),
     "stamps from the cycle counter where it can be trusted (auto), or from a shared counter", "auto", .group = what},
    {"sample-ms", 0, "MS", take_milliseconds, SETTING(sample_ns), "how often the memory of the program is sampled",
     "10", .group = memory},
    {"touch-min", 0, "BYTES", take_touch_min, SETTING(touch_min_bytes),
     "of objects of this size or more, record how many OS pages the program touched; 0: none", "8192", .group = memory},
    {"own-mappings", 0, NULL, cli_flag, COMMAND(own_mappings),
     "give objects of 8 KiB or more of glibc's malloc separate mappings where its heap has no room, so that OS pages that "
     "earlier objects touched don't count as theirs; this changes the program's own memory",
     .group = memory},
    {CLI_ADDED(record), .field = SETTINGS},
    {.name = NULL},
};

static const struct cli_command command_record = {
    .called = "heaptape record",
    .summary = "run a program and record its malloc calls",
    .synopsis = "[OPTION...] [--] CMD [ARGUMENT...]\n--attach PID [OPTION...]",
    .details =
        "Runs CMD, records its malloc calls, and exits with CMD's status. Each process that CMD starts gets its own "
        "trace: the busiest one F.tape, others F.PID.tape.",
    .options = options,
    .ends_at_argument = true,
};
static const struct cli_command *const commands[] = {&command_record, NULL};
static const struct cli_program program = {"heaptape-record", commands};

#define wrong(...) cli_wrong(program.name, &command_record, __VA_ARGS__)

/* Do options contradict one another? Returns CLI_RUN or the exit status. */
static int check_together(const struct collector_settings *settings) {
  const char *beside = beside_calls() ? beside_calls()->contradiction(settings) : NULL;
  if (settings->output && strcmp(settings->output, "-") == 0)
    return wrong("-o -: standard output is the program's: name a file");
  if (beside)
    return wrong("%s", beside);
  if (settings->budget_after_ns && settings->budget == 0)
    return wrong("--budget-after says when a budget begins: give --budget, too");
  if (settings->keep != UINT32_MAX && !settings->rotate_bytes)
    return wrong("--keep limits rotated files: give --rotate, too");
  if (OS_FRAME_POINTERS_ALONE && settings->stack_unwind == UNWIND_DWARF)
    return wrong("--unwind dwarf is for x86-64: here stacks are walked by frame pointers (auto, fp) or libunwind");
  return CLI_RUN;
}

/* Does an option need a program that heaptape starts? Likewise. */
static int check_attached(const struct command *command, const char *argument) {
  const struct collector_settings *settings = &command->settings;
  const char *excluded = command->preload                             ? "--preload"
                         : command->own_mappings                      ? "--own-mappings"
                         : command->describe                          ? "--describe"
                         : settings->flags & ATTACH_ACCESSES          ? "--accesses"
                         : settings->stack_unwind == UNWIND_LIBUNWIND ? "--unwind libunwind"
                                                                      : NULL;
  if (argument)
    return wrong("--attach records a running process and starts no program: %s", argument);
  if (excluded)
    return wrong("%s is for a program that heaptape starts, not for --attach", excluded);
  return CLI_RUN;
}

int options_parse(struct command *command, int argc, char **argv) {
  struct parsed parsed = {.command = *command};
  struct collector_settings *settings = &parsed.command.settings;
  struct cli_words words = {argv, argc};
  settings->keep = UINT32_MAX;
  settings->stack_depth = STACK_DEPTH_DEFAULT;
  int status = cli_parse(&program, &command_record, &parsed, &words);
  if (status != CLI_RUN)
    return status;
  settings->follow = !parsed.no_follow;
  settings->stack_unwind = (uint32_t)parsed.unwind;
  settings->flags |= (parsed.on_full ? ATTACH_DROP : 0) | (parsed.stamp ? ATTACH_STAMP_EVERY : 0) |
                     (parsed.clock ? ATTACH_COUNTER : 0);
  parsed.command.arguments = words.at;
  *command = parsed.command;
  status = check_together(settings);
  if (status == CLI_RUN && command->attach_pid)
    status = check_attached(command, words.at[0]);
  else if (status == CLI_RUN && words.count == 0)
    status = wrong("no CMD to record, and no --attach");
  return status;
}

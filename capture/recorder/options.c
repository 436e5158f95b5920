/* SPDX-License-Identifier: MIT */
#include "capture/recorder/options.h"

#include "core/base/diagnostics.h"
#include "core/base/os.h"
#include "core/trace/access_stream.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: heaptape record [-o F.tape] [--on-full wait|drop] [--no-follow] [--describe] [--preload LIB]\n"
    "                       [--start-paused] [--signal NAME] [--duration SECONDS] [--max-size BYTES] [--sample-ms MS]\n"
    "                       [--budget PERCENT [--budget-after SECONDS]] [--rotate BYTES [--keep N]]\n"
    "                       [--stamp tags|every] [--clock auto|counter] [--touch-min BYTES] [--own-mappings]\n"
    "                       [--accesses[=all|BYTES] [--burst FROM..TO]]\n"
    "                       [--latency] [--usable] [--stacks[=DEPTH]] [--unwind auto|dwarf|fp|libunwind]\n"
    "                       [--] CMD [ARGUMENT...]\n"
    "       heaptape record --attach PID [-o F.tape] [--duration SECONDS] [OPTION...]\n";
static const char usage_details[] =
    "\n"
    "Runs CMD, records its malloc calls, and exits with CMD's status. Each process that CMD starts gets its own trace\n"
    "(NAME.PID.tape).\n"
    "\n"
    "  -o F.tape            where the trace goes (default: PROGRAM.PID.tape)\n"
    "  --on-full wait|drop  when the collector can't keep up: let the program wait (default), or drop events and count them\n"
    "  --no-follow          record this process only, not its children\n"
    "  --describe           store arguments and host name in the trace (never done without this)\n"
    "  --preload LIB        record the program on another allocator\n"
    "  --attach PID         record a process that runs already: from now until --duration is over, the recorder gets a\n"
    "                       SIGINT, or the process ends; then everything in it is put back\n"
    "  --start-paused       record nothing until 'heaptape ctl PID start' or the signal\n"
    "  --signal NAME        the recorder starts or stops recording when it (not the program) gets this signal: USR1, RTMIN+3\n"
    "  --duration SECONDS   recording ends this long after its start; the program continues\n"
    "  --max-size BYTES     recording ends before the traces together exceed BYTES (K, M, G: powers of 1024)\n"
    "  --budget PERCENT     record in bursts at random moments, so that recording costs at most this share of the CPU time\n"
    "                       of the program (2%); calls between the bursts are counted\n"
    "  --budget-after SECONDS\n"
    "                       record everything for this long first; the budget holds from then on\n"
    "  --rotate BYTES       continue in a new file when one has this size (at least 64K): F.0001.tape, F.0002.tape; each\n"
    "                       is a complete trace; 'heaptape convert --merge' makes one trace of them\n"
    "  --keep N             keep the current file and the N before it; delete older files of this recording\n"
    "  --sample-ms MS       how often the memory of the program is sampled (default 10)\n"
    "  --stamp tags|every   how events of different threads are ordered (default tags; every: a time stamp per event)\n"
    "  --clock auto|counter stamps from the cycle counter where it can be trusted (auto), or from a shared counter\n"
    "  --touch-min BYTES    of objects of this size or more, record how many OS pages the program touched (default\n"
    "                       8192; 0: none)\n"
    "  --own-mappings       give objects of 8 KiB or more of glibc's malloc separate mappings where its heap has no room,\n"
    "                       so that OS pages that earlier objects touched don't count as theirs; this changes the\n"
    "                       program's own memory\n"
    "  --latency            store how long each call took, in units of the cycle counter; the cost of reading it is subtracted\n"
    "  --usable             store how much of each object can be used (malloc_usable_size)\n"
    "  --stacks[=DEPTH]     store the call stack of each call that acquires: at least the innermost DEPTH frames (default 32)\n"
    "  --unwind auto|dwarf|fp|libunwind\n"
    "                       how stacks are walked: by the compiler's unwind tables, and frame pointers where there are none\n"
    "                       (auto); by the tables only; by frame pointers only, the fastest where the program has them;\n"
    "                       by the library libunwind, the slowest, which takes its own locks in the program\n"
    "  --accesses[=all|BYTES]\n"
    "                       run CMD under Valgrind and store its data accesses beside its calls: those that miss a cache of\n"
    "                       BYTES with lines of 16 bytes (default 4096; a power of two, at least 64), or all\n"
    "  --burst FROM..TO     store data accesses only in bursts, from the mark FROM to the mark TO (heaptape_mark); outside\n"
    "                       bursts the program runs faster, and its calls are stored as usual. FROM left out: from the\n"
    "                       start; TO left out: up to the end; a signal such as SIGUSR1: when the recorder (not the\n"
    "                       program) gets it; ctl: only by 'heaptape ctl'\n" DIAGNOSTICS_HELP;

/* The workload compiler ignores smaller objects; an object of this size always holds a whole OS page. */
enum { TOUCH_MIN_BYTES = 8 << 10 };

__attribute__((noreturn, format(printf, 1, 2))) static void wrong(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  diagnostics_begin_error("heaptape-record");
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(2);
}

static int choice(const char *option, const char *value, const char *first, const char *second) {
  if (strcmp(value, first) == 0)
    return 0;
  if (strcmp(value, second) == 0)
    return 1;
  wrong("--%s is %s or %s, not %s", option, first, second, value);
}

static uint32_t unwind_of(const char *value) {
  if (OS_FRAME_POINTERS_ALONE && strcmp(value, "dwarf") == 0)
    wrong("--unwind dwarf is for x86-64: here stacks are walked by frame pointers (auto, fp) or libunwind");
  static const char *const names[] = {"auto", "dwarf", "fp", "libunwind"}; /* enum stack_unwind */
  for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(value, names[i]) == 0)
      return i;
  wrong("--unwind is auto, dwarf, fp or libunwind, not %s", value);
}

/* A number of bytes; K, M and G mean powers of 1024. */
static uint64_t bytes_of(const char *option, const char *value) {
  char *end;
  errno = 0;
  unsigned long long bytes = strtoull(value, &end, 10);
  static const char units[] = "KMG";
  const char *unit = *end ? strchr(units, *end) : NULL;
  unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
  if (*value < '0' || *value > '9' || errno || (*end && !unit) || (unit && end[1]) || bytes << shift >> shift != bytes)
    wrong("--%s is a number of bytes, not %s", option, value);
  return bytes << shift;
}

/* Nanoseconds from a time in units of unit_ns. */
static uint64_t time_of(const char *option, const char *value, double unit_ns) {
  char *end;
  double time = strtod(value, &end);
  if (end == value || *end || !isfinite(time) || time <= 0 || time * unit_ns > 1e18)
    wrong("--%s is a time above 0, not %s", option, value);
  return time * unit_ns < 1 ? 1 : (uint64_t)(time * unit_ns);
}

/* A share (0 to 1) from a percentage, "2%" or "2". */
static double share_of(const char *option, const char *value) {
  char *end;
  double percent = strtod(value, &end);
  if (end == value || (*end && strcmp(end, "%") != 0) || !(percent > 0 && percent <= 100))
    wrong("--%s is a share above 0 and up to 100 %%, not %s", option, value);
  return percent / 100;
}

/* In a smaller file, most bytes would not be events. */
enum { ROTATE_LEAST_BYTES = 64 << 10 };

static uint64_t rotation_of(const char *value) {
  uint64_t bytes = bytes_of("rotate", value);
  if (bytes < ROTATE_LEAST_BYTES)
    wrong("--rotate is 64K or more, not %s", value);
  return bytes;
}

static uint32_t keep_of(const char *value) {
  char *end;
  errno = 0;
  unsigned long number = strtoul(value, &end, 10);
  if (*value < '0' || *value > '9' || *end || errno || number == 0 || number >= UINT32_MAX)
    wrong("--keep is a number of files, 1 or more, not %s", value);
  return (uint32_t)number;
}

static uint32_t depth_of(const char *value) {
  char *end;
  unsigned long depth = strtoul(value, &end, 10);
  if (*value < '0' || *value > '9' || *end || depth == 0 || depth > STACK_DEPTH_MAX)
    wrong("--stacks is a number of frames from 1 to %d, not %s", STACK_DEPTH_MAX, value);
  return (uint32_t)depth;
}

/* "USR2", "SIGUSR2", "RTMIN+3" or a number. 0: there is no such signal. */
static int find_signal(const char *value) {
  const char *name = strncmp(value, "SIG", 3) == 0 ? value + 3 : value;
  int number = 0;
  char *end;
  long given = strtol(name, &end, 10);
  if (end != name && !*end && given > 0 && given <= SIGRTMAX)
    number = (int)given;
  if (strncmp(name, "RTMIN", 5) == 0 && (!name[5] || name[5] == '+'))
    number = SIGRTMIN + (name[5] ? atoi(name + 6) : 0);
  for (int candidate = 1; !number && candidate < SIGRTMIN; candidate++) {
    const char *known = sigabbrev_np(candidate);
    if (known && strcmp(known, name) == 0)
      number = candidate;
  }
  return number <= SIGRTMAX ? number : 0;
}

/* Refuses signals that the recorder uses itself, or that cannot be caught. */
static int signal_of(const char *option, const char *value) {
  int number = find_signal(value);
  static const int taken[] = {SIGKILL, SIGSTOP, SIGCHLD, SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGPIPE,
                              SIGXFSZ, SIGSEGV, SIGBUS,  SIGABRT, SIGILL,  SIGFPE, SIGTRAP, SIGCONT};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (number == taken[i])
      wrong("--%s %s: the recorder needs that signal itself; USR1, USR2 and RTMIN+N are free", option, value);
  if (!number)
    wrong("--%s %s: no such signal", option, value);
  return number;
}

/* The filter in bytes; 0: none. */
static uint64_t filter_of(const char *value) {
  if (!value)
    return ACCESS_FILTER_BYTES;
  if (strcmp(value, "all") == 0)
    return 0;
  uint64_t bytes = bytes_of("accesses", value);
  if (bytes < 64 || bytes > 1 << 30 || (bytes & (bytes - 1)) != 0)
    wrong("--accesses is \"all\" or a power of two of bytes from 64 to 1G, not %s", value);
  return bytes;
}

/* Every event needs a stamp: calls are matched with accesses by order. */
static void take_accesses(struct collector_settings *settings, const char *value) {
  settings->flags |= ATTACH_STAMP_EVERY | ATTACH_ACCESSES;
  settings->filter_bytes = filter_of(value);
}

/* The longest mark that heaptape_mark stores. */
enum { MARK_BYTES = 255 };

static int pid_of(const char *value) {
  char *end;
  errno = 0;
  long pid = strtol(value, &end, 10);
  if (errno || end == value || *end || pid <= 0 || pid > INT32_MAX)
    wrong("--attach is a process ID, not %s", value);
  return (int)pid;
}

static int burst_signal_of(const char *text) {
  bool is_signal = strncmp(text, "SIG", 3) == 0 && find_signal(text);
  return is_signal ? signal_of("burst", text) : 0;
}

/* Splits FROM..TO; the parts live as long as the program does. */
static struct burst_ends burst_of(const char *value) {
  const char *dots = strstr(value, "..");
  if (!dots || !value[2])
    wrong("--burst is FROM..TO, where one end may be left out, not %s", value);
  char *from = strndup(value, (size_t)(dots - value));
  if (!from)
    wrong("out of memory");
  struct burst_ends ends = {.from = from, .to = dots + 2};
  if (strlen(ends.from) > MARK_BYTES || strlen(ends.to) > MARK_BYTES)
    wrong("--burst: a mark has at most %d bytes", MARK_BYTES);
  ends.from_signal = burst_signal_of(ends.from);
  ends.to_signal = burst_signal_of(ends.to);
  return ends;
}

enum {
  ON_FULL = 256,
  NO_FOLLOW,
  DESCRIBE,
  PRELOAD,
  ATTACH,
  STAMP,
  CLOCK,
  TOUCH_MIN,
  OWN_MAPPINGS,
  START_PAUSED,
  SIGNAL,
  DURATION,
  MAX_SIZE,
  SAMPLE_MS,
  BUDGET,
  BUDGET_AFTER,
  ROTATE,
  KEEP,
  LATENCY,
  USABLE,
  STACKS,
  UNWIND,
  ACCESSES,
  BURST,
  HELP
};

__attribute__((noreturn)) static void wrong_option(const char *word, const struct option *options) {
  const char *near = near_option(word, options);
  if (near)
    wrong("unknown option %s: did you mean --%s? (heaptape record --help)", word, near);
  wrong("unknown option, or one that lacks its value: %s (heaptape record --help)", word);
}

/* Takes one option; false: it is not known. */
static bool take(struct command *command, int option, const char *value) {
  struct collector_settings *settings = &command->settings;
  switch (option) {
  case 'o':
    settings->output = value;
    break;
  case ON_FULL:
    settings->flags |= choice("on-full", value, "wait", "drop") ? ATTACH_DROP : 0;
    break;
  case NO_FOLLOW:
    settings->follow = false;
    break;
  case DESCRIBE:
    command->describe = true;
    break;
  case PRELOAD:
    command->preload = value;
    break;
  case ATTACH:
    command->attach_pid = pid_of(value);
    break;
  case STAMP:
    settings->flags |= choice("stamp", value, "tags", "every") ? ATTACH_STAMP_EVERY : 0;
    break;
  case CLOCK:
    settings->flags |= choice("clock", value, "auto", "counter") ? ATTACH_COUNTER : 0;
    break;
  case TOUCH_MIN: /* 0 turns it off */
    settings->touch_min_bytes = bytes_of("touch-min", value);
    if (!settings->touch_min_bytes)
      settings->touch_min_bytes = UINT64_MAX;
    break;
  case OWN_MAPPINGS:
    command->own_mappings = true;
    break;
  case START_PAUSED:
    settings->start_paused = true;
    break;
  case SIGNAL:
    command->toggle_signal = signal_of("signal", value);
    break;
  case DURATION:
    settings->duration_ns = time_of("duration", value, 1e9);
    break;
  case MAX_SIZE:
    settings->max_bytes = bytes_of("max-size", value);
    if (!settings->max_bytes)
      wrong("--max-size is a number of bytes above 0");
    break;
  case BUDGET:
    settings->budget = share_of("budget", value);
    break;
  case BUDGET_AFTER:
    settings->budget_after_ns = time_of("budget-after", value, 1e9);
    break;
  case ROTATE:
    settings->rotate_bytes = rotation_of(value);
    break;
  case KEEP:
    settings->keep = keep_of(value);
    break;
  case SAMPLE_MS:
    settings->sample_ns = time_of("sample-ms", value, 1e6);
    break;
  case LATENCY:
    settings->flags |= ATTACH_LATENCY;
    break;
  case USABLE:
    settings->flags |= ATTACH_USABLE;
    break;
  case STACKS:
    settings->flags |= ATTACH_STACKS;
    if (value)
      settings->stack_depth = depth_of(value);
    break;
  case ACCESSES:
    take_accesses(settings, value);
    break;
  case BURST:
    settings->in_bursts = true;
    settings->burst = burst_of(value);
    break;
  case UNWIND:
    settings->stack_unwind = unwind_of(value);
    break;
  case DIAGNOSTICS_COLOR:
  case DIAGNOSTICS_QUIET:
    if (!diagnostics_take(option, value))
      wrong("--color is auto, always or never, not %s", value);
    break;
  case HELP:
    fputs(usage, stdout);
    fputs(usage_details, stdout);
    exit(0);
  default:
    return false;
  }
  return true;
}

/* Exits where options contradict one another. */
static void check_together(const struct collector_settings *settings) {
  bool accesses = settings->flags & ATTACH_ACCESSES;
  if (settings->in_bursts && !accesses)
    wrong("--burst limits data accesses: give --accesses, too");
  if (settings->budget_after_ns && settings->budget == 0)
    wrong("--budget-after says when a budget begins: give --budget, too");
  if (settings->keep != UINT32_MAX && !settings->rotate_bytes)
    wrong("--keep limits rotated files: give --rotate, too");
  if (accesses && settings->budget > 0)
    wrong("--budget is about calls: it can't limit what --accesses costs");
  if (accesses && settings->rotate_bytes)
    wrong("--rotate can't divide data accesses among files: leave --accesses out");
}

/* Exits where an option needs a program that heaptape starts. */
static void check_attached(const struct command *command, const char *argument) {
  const struct collector_settings *settings = &command->settings;
  const char *excluded = command->preload                             ? "--preload"
                         : command->own_mappings                      ? "--own-mappings"
                         : command->describe                          ? "--describe"
                         : settings->flags & ATTACH_ACCESSES          ? "--accesses"
                         : settings->stack_unwind == UNWIND_LIBUNWIND ? "--unwind libunwind"
                                                                      : NULL;
  if (argument)
    wrong("--attach records a running process and starts no program: %s", argument);
  if (excluded)
    wrong("%s is for a program that heaptape starts, not for --attach", excluded);
}

void options_parse(struct command *command, int argc, char **argv) {
  static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                          {"on-full", required_argument, NULL, ON_FULL},
                                          {"no-follow", no_argument, NULL, NO_FOLLOW},
                                          {"describe", no_argument, NULL, DESCRIBE},
                                          {"preload", required_argument, NULL, PRELOAD},
                                          {"attach", required_argument, NULL, ATTACH},
                                          {"stamp", required_argument, NULL, STAMP},
                                          {"clock", required_argument, NULL, CLOCK},
                                          {"touch-min", required_argument, NULL, TOUCH_MIN},
                                          {"own-mappings", no_argument, NULL, OWN_MAPPINGS},
                                          {"start-paused", no_argument, NULL, START_PAUSED},
                                          {"signal", required_argument, NULL, SIGNAL},
                                          {"duration", required_argument, NULL, DURATION},
                                          {"max-size", required_argument, NULL, MAX_SIZE},
                                          {"sample-ms", required_argument, NULL, SAMPLE_MS},
                                          {"budget", required_argument, NULL, BUDGET},
                                          {"budget-after", required_argument, NULL, BUDGET_AFTER},
                                          {"rotate", required_argument, NULL, ROTATE},
                                          {"keep", required_argument, NULL, KEEP},
                                          {"latency", no_argument, NULL, LATENCY},
                                          {"usable", no_argument, NULL, USABLE},
                                          {"stacks", optional_argument, NULL, STACKS},
                                          {"unwind", required_argument, NULL, UNWIND},
                                          {"accesses", optional_argument, NULL, ACCESSES},
                                          {"burst", required_argument, NULL, BURST},
                                          {"help", no_argument, NULL, HELP},
                                          {DIAGNOSTICS_COLOR_OPTION},
                                          {DIAGNOSTICS_QUIET_OPTION},
                                          {NULL, 0, NULL, 0}};
  command->settings.follow = true;
  command->settings.keep = UINT32_MAX;
  command->settings.touch_min_bytes = TOUCH_MIN_BYTES;
  command->settings.stack_depth = STACK_DEPTH_DEFAULT;
  int option;
  opterr = 0;
  while ((option = getopt_long(argc, argv, "+o:", options, NULL)) != -1)
    if (!take(command, option, optarg))
      wrong_option(argv[optind - 1], options);
  check_together(&command->settings);
  if (command->attach_pid) {
    check_attached(command, argv[optind]);
  } else if (optind == argc) {
    fputs(usage, stderr);
    exit(2);
  }
  command->arguments = argv + optind;
}

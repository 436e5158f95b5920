/* SPDX-License-Identifier: MIT */
#include "capture/recorder/unfollowed.h"

#include "capture/recorder/command/describe.h"
#include "capture/recorder/executed.h"
#include "capture/recorder/recording.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "core/base/text.h"
#include "core/elf/elf_file.h"
#include "core/system/process.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SUSPECTS_MAX = 4096, NAMES_SHOWN = 5 };

#define UNNAMED "?" /* until a name was read, or told */

static const char our_valgrind_tool[] = "heaptape-amd64-"; /* how its name in /proc begins */

static const uint64_t LOOK_NS = 5000000, LATER_NS = 50000000, COST_SHARE = 100;

/* What to print of each cause: why, and what to do. */
static const char *const words[UNFOLLOWED_CAUSES] = {
    [UNFOLLOWED_PENDING] = "for a reason that could not be seen",
    [UNFOLLOWED_ENVIRONMENT] =
        "started without our LD_PRELOAD, as env -i, sudo and su - do: put heaptape record behind "
        "that command, as in: sudo heaptape record -- CMD",
    [UNFOLLOWED_PRELOAD] = "started with another LD_PRELOAD in place of ours, as a script sets: set it before heaptape "
                           "record, which keeps it",
    [UNFOLLOWED_RIGHTS] = "rights that the caller lacks (setuid, capabilities), so the loader ignores LD_PRELOAD: run "
                          "heaptape record as the user of those rights",
    [UNFOLLOWED_ROOT] = "another root directory, in which libheaptape.so or /proc was not found: bind-mount "
                        "heaptape's files and /proc there under the same path, or use heaptape record --attach PID",
    [UNFOLLOWED_LIBRARY] = "their user may not read libheaptape.so: install heaptape where all users may",
    [UNFOLLOWED_NETWORK] =
        "another network namespace, and another /tmp, so the recorder can't be reached: run heaptape record "
        "inside it, as in: unshare -n heaptape record -- CMD",
    [UNFOLLOWED_STATIC] =
        "statically linked: no library can be loaded into it; if it has malloc and its symbols, record it by itself: "
        "heaptape record -- CMD",
    [UNFOLLOWED_SIMULATED] = "it runs under Valgrind, and has not called malloc: it may have ended before",
    [UNFOLLOWED_FILTERS] =
        "started under a filter of system calls (seccomp) that forbids a call which recording makes, "
        "or of which that is not known",
    [UNFOLLOWED_SANDBOX] = "a sandbox (Landlock, another network namespace) that keeps them from the recorder",
    [UNFOLLOWED_CHILD] =
        "fork children that a sandbox (seccomp, PR_SET_TSC, Landlock, another network namespace), or a lack of file "
        "descriptors or memory (ulimit -v, -d), keeps from the recorder: their parent's trace counts their calls as "
        "dropped",
    [UNFOLLOWED_LIMITS] = "low limits (ulimit -v, -d, -n): if they were too low for recording, they have printed "
                          "what is needed",
    [UNFOLLOWED_LOST] = "they asked, but others had made too many connections to the recorder, or it did not answer in "
                        "time: their calls are in no trace",
    [UNFOLLOWED_INNER] = "an emulator (qemu-user) runs it in its own process: the emulator's calls are recorded, the "
                         "program's are not",
    [UNFOLLOWED_MACHINE] = "a program of 32 bits or for another processor: libheaptape.so can't be loaded into it",
};

static struct unfollowed *find(struct collector *collector, int pid) {
  for (size_t i = 0; i < collector->unfollowed.count; i++)
    if (collector->unfollowed.at[i].pid == pid && !collector->unfollowed.at[i].ended)
      return &collector->unfollowed.at[i];
  return NULL;
}

bool unfollowed_attached(struct collector *collector, int pid) {
  struct unfollowed *suspect = find(collector, pid);
  if (suspect)
    *suspect = collector->unfollowed.at[--collector->unfollowed.count];
  return executed_attached(collector, pid);
}

/* Has this very process asked? Another one may have had its number before. */
static bool has_asked(const struct collector *collector, int pid, const struct proc_stat *stat) {
  for (size_t i = collector->attached.count; i-- > 0;)
    if (collector->attached.at[i].pid == pid && collector->attached.at[i].start == stat->start)
      return true;
  return false;
}

/* Is it a program in the recorder's own folder? */
static bool is_ours(int pid) {
  char theirs[PATH_MAX], own[PATH_MAX];
  if (!proc_program(pid, theirs, sizeof theirs) || !proc_program(getpid(), own, sizeof own))
    return false;
  size_t folder = (size_t)(strrchr(own, '/') + 1 - own);
  return strncmp(theirs, own, folder) == 0 && !strchr(theirs + folder, '/');
}

enum preload { PRELOAD_UNREADABLE, PRELOAD_NONE, PRELOAD_OTHER, PRELOAD_OURS };

/* Has the process memory of its own, with the words that it was started with? Not while it executes or ends: its
   environment is then as if it were empty. */
static bool has_words(int pid) {
  char word[2];
  return proc_read_file(pid, "cmdline", word, sizeof word);
}

/* Of the LD_PRELOAD with which the process was started; the loader may have taken what the process has written over
   since, as for a title. UNREADABLE: with errno. */
static enum preload preload_of(int pid) {
  bool had_words = has_words(pid);
  char *preloads = describe_preloads(pid);
  int why = errno;
  if (!preloads && !why && (!had_words || !has_words(pid)))
    why = ESRCH;
  enum preload preload = !preloads                             ? (why ? PRELOAD_UNREADABLE : PRELOAD_NONE)
                         : strstr(preloads, "/libheaptape.so") ? PRELOAD_OURS
                                                               : PRELOAD_OTHER;
  free(preloads);
  if ((preload == PRELOAD_NONE || preload == PRELOAD_OTHER) && proc_has_mapped(pid, "libheaptape.so"))
    preload = PRELOAD_OURS;
  errno = why;
  return preload;
}

/* Did the kernel tell the loader to trust no variable of the environment? */
static bool is_secure(int pid) {
  int fd = proc_open(pid, "auxv");
  bool secure = proc_auxiliary(fd, AT_SECURE) != 0;
  os_close(fd);
  return secure;
}

/* Is it under filters that the recorder is not under? */
static bool has_filters(const struct collector *collector, int pid) {
  char status[4096];
  return proc_read_file(pid, "status", status, sizeof status) && proc_filters(status) > collector->filters;
}

static bool has_low_limits(int pid) {
  struct rlimit addresses, data, descriptors;
  return prlimit(pid, RLIMIT_AS, NULL, &addresses) == 0 && prlimit(pid, RLIMIT_DATA, NULL, &data) == 0 &&
         prlimit(pid, RLIMIT_NOFILE, NULL, &descriptors) == 0 &&
         exec_limits_are_low(addresses.rlim_cur, data.rlim_cur, descriptors.rlim_cur);
}

static bool is_simulated(const char *name) {
  return strncmp(name, our_valgrind_tool, sizeof our_valgrind_tool - 1) == 0;
}

static bool runs_simulated(int pid) {
  struct proc_stat stat;
  return proc_stat_of(pid, "stat", &stat) && is_simulated(stat.name);
}

/* The processor comes first: neither the environment nor the rights help a program for another one, and the vector of
   its loader has entries of another size. */
static enum unfollowed_cause cause_of(const struct collector *collector, int pid) {
  struct program_file file;
  int fd = proc_open(pid, "exe");
  if (fd >= 0)
    program_file_read(fd, &file);
  os_close(fd);
  if (fd >= 0 && file.kind != PROGRAM_FOR_US)
    return UNFOLLOWED_MACHINE;
  if (runs_simulated(pid))
    return UNFOLLOWED_SIMULATED;
  enum preload preload = preload_of(pid);
  if (preload == PRELOAD_UNREADABLE)
    return errno == EACCES || errno == EPERM ? UNFOLLOWED_RIGHTS : UNFOLLOWED_PENDING;
  if (preload != PRELOAD_OURS)
    return preload == PRELOAD_OTHER ? UNFOLLOWED_PRELOAD : UNFOLLOWED_ENVIRONMENT;
  if (is_secure(pid))
    return UNFOLLOWED_RIGHTS;
  if (fd < 0)
    return UNFOLLOWED_PENDING;
  if (!file.loader[0])
    return UNFOLLOWED_STATIC;
  return has_filters(collector, pid)   ? UNFOLLOWED_FILTERS
         : has_low_limits(pid)         ? UNFOLLOWED_LIMITS
         : proc_differs(pid, "root")   ? UNFOLLOWED_ROOT
         : proc_differs(pid, "ns/net") ? UNFOLLOWED_NETWORK
                                       : UNFOLLOWED_PENDING;
}

/* Under Valgrind, the program is the first argument that is no option. A process that is ending has none. */
static void name_client(int pid, char *name, size_t bytes) {
  char words[4096] = "";
  if (!proc_read_file(pid, "cmdline", words, sizeof words - 1))
    return;
  const char *word = words;
  do
    word += strlen(word) + 1;
  while (*word == '-');
  if (*word)
    snprintf(name, bytes, "%s", basename(word));
}

/* Reads the process's name, too. False: it has ended. */
static bool read_process(int pid, char *name, size_t bytes, struct proc_stat *stat) {
  if (!proc_stat_of(pid, "stat", stat))
    return false;
  if (is_simulated(stat->name))
    name_client(pid, name, bytes);
  else
    snprintf(name, bytes, "%s", stat->name);
  return true;
}

static void look_at(const struct collector *collector, struct unfollowed *suspect) {
  struct proc_stat stat;
  if (suspect->ended)
    return;
  bool lost = suspect->cause == UNFOLLOWED_LOST;
  if (!read_process(suspect->pid, suspect->name, sizeof suspect->name, &stat)) {
    suspect->ended = true;
    return;
  }
  suspect->lasted = os_monotonic_ns() - suspect->seen_ns >= LATER_NS;
  enum unfollowed_cause cause = lost ? UNFOLLOWED_PENDING : cause_of(collector, suspect->pid);
  if (cause != UNFOLLOWED_PENDING) /* else it may be ending */
    suspect->cause = cause;
}

/* NULL: no memory, or there are too many. */
static struct unfollowed *new_one(struct collector *collector) {
  return collector->unfollowed.count < SUSPECTS_MAX ? vector_add(&collector->unfollowed) : NULL;
}

/* The process among those that are looked at, from now on if it was not. NULL: likewise. */
static struct unfollowed *suspect_of(struct collector *collector, int pid) {
  struct unfollowed *suspect = find(collector, pid);
  if (suspect || !(suspect = new_one(collector)))
    return suspect;
  *suspect = (struct unfollowed){.pid = pid, .name = UNNAMED, .seen_ns = os_monotonic_ns()};
  look_at(collector, suspect);
  return suspect;
}

void unfollowed_lost(struct collector *collector, int pid) {
  if (!collector->settings->follow && pid != collector->settings->first_pid)
    return;
  struct unfollowed *suspect = suspect_of(collector, pid);
  if (suspect)
    suspect->cause = UNFOLLOWED_LOST;
  else
    collector->unnamed++;
}

/* Is it the program of that name, and number if that is known (-1: not), of which no note has told yet? */
static bool is_it(const struct unfollowed *suspect, int pid, const char *name) {
  enum { KERNELS_NAME = 15 }; /* bytes that the kernel keeps of it */
  return !suspect->told && (pid >= 0 ? suspect->pid == pid : strncmp(suspect->name, name, KERNELS_NAME) == 0);
}

void unfollowed_add_known(struct collector *collector, int pid, const char *name, enum unfollowed_cause cause) {
  struct unfollowed *suspect = NULL;
  for (size_t i = 0; cause != UNFOLLOWED_CHILD && !suspect && i < collector->unfollowed.count; i++)
    if (is_it(&collector->unfollowed.at[i], pid, name))
      suspect = &collector->unfollowed.at[i];
  if (!suspect && (suspect = new_one(collector)))
    *suspect = (struct unfollowed){.pid = pid, .name = UNNAMED, .ended = true};
  if (!suspect) {
    collector->unnamed++;
    return;
  }
  if (strcmp(suspect->name, UNNAMED) == 0)
    snprintf(suspect->name, sizeof suspect->name, "%s", name);
  suspect->told = suspect->lasted = true;
  /* The host withholds our LD_PRELOAD then. */
  bool withheld = cause == UNFOLLOWED_ROOT || cause == UNFOLLOWED_LIBRARY;
  bool lacks = suspect->cause == UNFOLLOWED_ENVIRONMENT || suspect->cause == UNFOLLOWED_PRELOAD;
  if (suspect->cause == UNFOLLOWED_PENDING || (withheld && lacks))
    suspect->cause = cause;
}

/* Adds the children of the process's main thread that have executed a program and are not recorded. */
static void look_for_children(struct collector *collector, int pid) {
  int children[CHILDREN_MOST];
  size_t count = proc_children(pid, children, CHILDREN_MOST);
  char name[64];
  struct proc_stat stat;
  for (size_t i = 0; i < count; i++)
    if (!collector_find(collector, children[i]) && read_process(children[i], name, sizeof name, &stat) &&
        stat.executed && !has_asked(collector, children[i], &stat) && !is_ours(children[i]))
      suspect_of(collector, children[i]);
}

void unfollowed_executed(struct collector *collector, int pid) {
  if (collector->settings->follow && !collector->settings->restorer_pid)
    suspect_of(collector, pid);
}

void unfollowed_serve(struct collector *collector) {
  uint64_t now_ns = os_monotonic_ns(), began_ns = os_thread_cpu_ns();
  bool is_due = now_ns >= collector->unfollowed_ns;
  executed_serve(collector, is_due ? 0 : EXEC_NOTES / 4);
  if (!is_due || !collector->settings->follow || collector->settings->restorer_pid)
    return;
  look_for_children(collector, getpid());
  for (size_t i = 0; i < collector->processes.count; i++)
    look_for_children(collector, collector->processes.at[i]->pid);
  for (size_t i = 0; i < collector->unfollowed.count; i++)
    look_at(collector, &collector->unfollowed.at[i]);
  uint64_t period_ns = COST_SHARE * (os_thread_cpu_ns() - began_ns);
  uint64_t least_ns = now_ns - collector->origin.ns < 1000000000u ? LOOK_NS : LATER_NS;
  collector->unfollowed_ns = now_ns + (period_ns > least_ns ? period_ns : least_ns);
}

void unfollowed_process_ends(struct collector *collector, struct recorded_process *process) {
  uint32_t children = executed_end(collector, process);
  for (uint32_t i = 0; i < children; i++)
    unfollowed_add_known(collector, process->pid, process->name, UNFOLLOWED_CHILD);
}

/* What recorded processes said that they would execute, and what has not attached since. */
static void add_executed(struct collector *collector) {
  for (size_t i = 0; i < collector->executed.count; i++) {
    const struct executed *executed = &collector->executed.at[i];
    unfollowed_add_known(collector, executed->is_inner ? -1 : executed->pid, basename(executed->path), executed->cause);
  }
  collector->executed.count = 0;
}

static uint32_t report_cause(const struct collector *collector, enum unfollowed_cause cause) {
  char names[NAMES_SHOWN][4 * 64], name[sizeof names[0]];
  struct text_line line = {.used = 0};
  uint32_t programs = 0, shown = 0;
  for (size_t i = 0; i < collector->unfollowed.count; i++) {
    const struct unfollowed *suspect = &collector->unfollowed.at[i];
    if (suspect->cause != cause || (cause == UNFOLLOWED_PENDING && !suspect->lasted))
      continue;
    programs++;
    escape_controls(name, sizeof name, suspect->name);
    bool known = shown == NAMES_SHOWN;
    for (uint32_t k = 0; k < shown; k++)
      known |= strcmp(names[k], name) == 0;
    if (!known)
      memcpy(names[shown++], name, sizeof name);
  }
  if (!programs)
    return 0;
  text_add(&line, "heaptape: not recorded: ");
  for (uint32_t k = 0; k < shown; k++)
    text_add(&line, "%s%s", k ? ", " : "", names[k]);
  if (programs > shown)
    text_add(&line, " (%u processes)", programs);
  text_add(&line, ": %s", words[cause]);
  text_print(stderr, line.text, text_width(STDERR_FILENO), 0, 2);
  return programs;
}

uint32_t unfollowed_report(struct collector *collector) {
  uint32_t programs = 0;
  add_executed(collector);
  for (int cause = 0; cause < UNFOLLOWED_CAUSES; cause++)
    programs += report_cause(collector, (enum unfollowed_cause)cause);
  if (collector->unnamed) {
    struct text_line line = {.used = 0};
    text_add(&line,
             "heaptape: of up to %" PRIu64 " more programs it is not known whether they were recorded: too many were "
             "executed at a time",
             collector->unnamed);
    text_print(stderr, line.text, text_width(STDERR_FILENO), 0, 2);
  }
  return programs + (collector->unnamed > 0);
}

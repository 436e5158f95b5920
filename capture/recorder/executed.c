/* SPDX-License-Identifier: MIT */
#include "capture/recorder/executed.h"

#include "capture/recorder/recording.h"
#include "core/base/os.h"
#include "core/elf/elf_file.h"
#include "core/system/process.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXECUTED_MOST = 4096, EXEC_LEAST_NS = 1000 /* no call that executes is shorter */ };

/* Do the processes tell us of what they execute that is to be recorded? Under Valgrind a program attaches at its first
   call of malloc, if ever. */
static bool are_followed(const struct collector *collector) {
  const struct collector_settings *settings = collector->settings;
  return settings->follow && !settings->restorer_pid && !settings->simulated && !collector->ended;
}

/* Is it a program in the recorder's own folder? */
static bool is_ours(const char *path) {
  char own[PATH_MAX];
  if (!proc_program(getpid(), own, sizeof own))
    return false;
  size_t folder = (size_t)(strrchr(own, '/') + 1 - own);
  return strncmp(path, own, folder) == 0 && !strchr(path + folder, '/');
}

/* Opens a regular file, and nothing else: a path that a process names may be a device, which an open alone sets going.
   -1: it is none, or can't be opened. */
static int open_regular(const char *path, struct stat *status) {
  char again[40];
  int place = strchr(path, '/') ? open(path, O_PATH | O_CLOEXEC) : -1;
  bool is_regular = place >= 0 && fstat(place, status) == 0 && S_ISREG(status->st_mode);
  snprintf(again, sizeof again, "/proc/self/fd/%d", place);
  int fd = is_regular ? open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  os_close(place);
  return fd;
}

/* By the file, which may be another one for the process: a path without a slash, or from another root directory. */
static enum unfollowed_cause cause_of_file(const char *path) {
  struct program_file file;
  struct stat status;
  char start[4] = "";
  int fd = open_regular(path, &status);
  enum unfollowed_cause cause = UNFOLLOWED_PENDING;
  if (fd >= 0 && pread(fd, start, 4, 0) == 4 && memcmp(start, "\177ELF", 4) == 0) {
    program_file_read(fd, &file);
    cause = file.kind == PROGRAM_OF_OTHER_MACHINE                     ? UNFOLLOWED_MACHINE
            : (status.st_mode & S_ISUID) && status.st_uid != getuid() ? UNFOLLOWED_RIGHTS
            : file.kind == PROGRAM_FOR_US && !file.loader[0]          ? UNFOLLOWED_STATIC
                                                                      : UNFOLLOWED_PENDING;
  }
  os_close(fd);
  return cause;
}

static enum unfollowed_cause cause_of(const struct bank *bank, uint32_t outlook, const char *path) {
  switch (outlook) {
  case EXEC_FILTERED:
    return UNFOLLOWED_FILTERS;
  case EXEC_SANDBOXED:
    return UNFOLLOWED_SANDBOX;
  case EXEC_NO_PRELOAD:
    return UNFOLLOWED_ENVIRONMENT;
  case EXEC_OTHER_PRELOAD:
    return UNFOLLOWED_PRELOAD;
  case EXEC_NO_LIBRARY:
    return UNFOLLOWED_ROOT;
  case EXEC_NO_RIGHT:
    return UNFOLLOWED_LIBRARY;
  default: {
    enum unfollowed_cause cause = cause_of_file(path);
    if (cause == UNFOLLOWED_PENDING && outlook == EXEC_LIMITED)
      return UNFOLLOWED_LIMITS;
    return cause == UNFOLLOWED_PENDING && atomic_load(&bank->sandboxing) ? UNFOLLOWED_SANDBOX : cause;
  }
  }
}

/* Is it the process's number, in our PID namespace or its own? */
static bool attached_is(const struct attached *attached, int pid) {
  return attached->pid == pid || (attached->inner_pid && attached->inner_pid == pid);
}

/* Has a process of that number, in our PID namespace or its own, asked after so many others? */
static bool has_attached(const struct collector *collector, int pid, uint32_t asked) {
  for (size_t i = collector->attached.count; i-- > asked;)
    if (attached_is(&collector->attached.at[i], pid))
      return true;
  return false;
}

/* Has the call that the note tells of come to its end? A program that executes may still attach. stat: of the process;
   NULL: it has ended. */
static bool is_settled(const struct recorded_process *process, int pid, bool attached, const struct proc_stat *stat) {
  if (pid <= 0 || process->is_inner)
    return pid == EXEC_CERTAIN || attached;
  return !stat || stat->executed;
}

/* Takes what the host's note says; it may be anything. */
static void take(struct collector *collector, const struct recorded_process *process, struct exec_note *note,
                 struct executed executed, bool attached) {
  memcpy(executed.path, note->path, sizeof note->path);
  executed.cause = cause_of(process->bank[0].memory, note->outlook, executed.path);
  uint32_t stands = EXEC_NOTE_STANDS;
  if (!atomic_compare_exchange_strong(&note->state, &stands, EXEC_NOTE_FREE) || attached || is_ours(executed.path))
    return;
  struct executed *place = collector->executed.count < EXECUTED_MOST ? vector_add(&collector->executed) : NULL;
  if (place)
    *place = executed;
  else
    collector->unnamed++;
}

static void look_at_note(struct collector *collector, struct recorded_process *process, struct exec_note *note,
                         bool ends) {
  int pid = *(volatile int32_t *)&note->pid; /* once, as the host may change it */
  struct proc_stat stat;
  struct executed executed = {.pid = pid < 0 ? -1 : pid ? pid : process->pid, .is_inner = process->is_inner && pid > 0};
  bool lives = executed.pid > 0 && !executed.is_inner && proc_stat_of(executed.pid, "stat", &stat);
  executed.start = lives ? stat.start : 0;
  bool attached = pid > 0 && has_attached(collector, pid, note->asked);
  if (ends || is_settled(process, pid, attached, lives ? &stat : NULL))
    take(collector, process, note, executed, attached);
  else
    process->has_notes = true;
}

/* Takes the notes whose process has ended, executed or attached, or, where this one ends, all. */
static void look_at(struct collector *collector, struct recorded_process *process, uint32_t least, bool ends) {
  struct bank *bank = process->banks ? process->bank[0].memory : NULL;
  uint32_t noted = bank ? atomic_load(&bank->noted) : 0, more = noted - process->noted;
  if (!bank || more < least || (!more && !process->has_notes))
    return;
  process->noted = noted;
  process->has_notes = false;
  for (uint32_t i = 0; i < EXEC_NOTES && i < noted; i++) /* further ones were never used: no page is made for them */
    if (atomic_load(&bank->notes[i].state) == EXEC_NOTE_STANDS)
      look_at_note(collector, process, &bank->notes[i], ends);
}

void executed_serve(struct collector *collector, uint32_t least) {
  for (uint32_t i = 0; are_followed(collector) && i < collector->processes.count; i++)
    look_at(collector, collector->processes.at[i], least, false);
}

uint32_t executed_end(struct collector *collector, struct recorded_process *process) {
  if (!are_followed(collector) || !process->banks)
    return 0;
  const struct bank *bank = process->bank[0].memory;
  look_at(collector, process, 0, true);
  uint64_t lost = atomic_load(&bank->notes_lost), most = (os_monotonic_ns() - process->began_ns) / EXEC_LEAST_NS;
  collector->unnamed += lost < most ? lost : most;
  uint32_t children = atomic_load(&bank->children);
  return children < EXECUTED_MOST ? children : EXECUTED_MOST;
}

/* By its number, and its start: another process may have had the number before. Of one that had ended when it was
   attached no start is known, and of one known by the number of another PID namespace neither. */
static bool is_of(const struct executed *executed, const struct attached *attached) {
  bool is_another =
      attached->pid == executed->pid && !executed->is_inner && attached->start && attached->start != executed->start;
  return !is_another && attached_is(attached, executed->pid);
}

bool executed_attached(struct collector *collector, int pid) {
  struct proc_stat stat;
  int inner_pid = proc_inner_number(pid, pid);
  struct attached attached = {
      .pid = pid,
      .inner_pid = inner_pid == pid ? 0 : inner_pid,
      .start = proc_stat_of(pid, "stat", &stat) ? stat.start : 0,
  };
  for (size_t i = collector->executed.count; i-- > 0;)
    if (is_of(&collector->executed.at[i], &attached))
      collector->executed.at[i] = collector->executed.at[--collector->executed.count];
  struct attached *place = vector_add(&collector->attached);
  if (place)
    *place = attached;
  for (size_t i = 0; i < collector->pages.count; i++)
    atomic_store(&collector->pages.at[i]->control->asked, (uint32_t)collector->attached.count);
  return attached.inner_pid != 0;
}

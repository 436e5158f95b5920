/* SPDX-License-Identifier: MIT */
#include "capture/redirect/linked.h"

#include "capture/redirect/linked_patches.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A redirection in progress. */
struct work {
  struct linked_result *result;
  struct linked_patches patches;
  int memory; /* /proc/PID/mem */
};

/* Appends to the complaint. */
static void __attribute__((format(printf, 2, 3))) complain(struct linked_result *result, const char *format, ...) {
  size_t used = strlen(result->complaint);
  va_list arguments;
  if (used)
    used += (size_t)snprintf(result->complaint + used, sizeof result->complaint - used, "; ");
  va_start(arguments, format);
  if (used < sizeof result->complaint)
    vsnprintf(result->complaint + used, sizeof result->complaint - used, format, arguments);
  va_end(arguments);
}

static bool write_at(int fd, const void *bytes, size_t count, uint64_t address) {
  return pwrite(fd, bytes, count, (off_t)address) == (ssize_t)count;
}

static bool write_table(const struct work *work) {
  const struct linked_patches *patches = &work->patches;
  for (size_t i = 0; i < patches->count; i++) {
    if (!linked_patches_takes(patches, i))
      continue;
    struct linked_function entry = linked_patches_entry(patches, i);
    if (!write_at(work->memory, patches->patch[i].room, patches->patch[i].room_bytes,
                  patches->place.room + i * ENTRY_ROOM_BYTES) ||
        !write_at(work->memory, &entry, sizeof entry, patches->place.table + i * sizeof entry))
      return false;
  }
  return true;
}

/* Each patch is written at once, to functions in which the waiting thread cannot be. */
static void write_patches(struct work *work) {
  const struct linked_patches *patches = &work->patches;
  for (size_t i = 0; i < patches->count; i++)
    if (linked_patches_takes(patches, i)) {
      if (!write_at(work->memory, patches->patch[i].code, patches->patch[i].bytes, patches->patch[i].at)) {
        complain(work->result, "%s%s can't be written", patches->functions.found.at[i].prefix,
                 patches->functions.found.at[i].name);
        continue;
      }
      linked_patches_note(patches, i, &work->result->done);
      work->result->has_malloc |= linked_patches_is_plain(patches, i);
    }
}

/* 0: not known. */
static unsigned threads_of(int pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = opendir(path);
  unsigned count = 0;
  for (struct dirent *entry; tasks && (entry = readdir(tasks));)
    count += entry->d_name[0] != '.';
  if (tasks)
    closedir(tasks);
  return count;
}

static bool still_waits(int connection) {
  struct pollfd hung_up = {connection, POLLRDHUP, 0};
  return poll(&hung_up, 1, 0) == 0;
}

static void redirect(struct work *work, int pid, int connection, const struct linked_place *place) {
  if (!linked_patches_make(&work->patches, work->memory, place)) {
    complain(work->result, "%s", "the executable's code can't be read: its allocator is not recorded");
    return;
  }
  char why[400];
  bool given_up = linked_patches_complain(&work->patches, why, sizeof why);
  if (why[0])
    complain(work->result, "not recorded: %s%s", why, given_up ? "; so no function of that allocator is recorded" : "");
  unsigned threads = threads_of(pid);
  if (threads != 1)
    complain(work->result, "it has %u threads already: its allocator is not recorded", threads);
  else if (!still_waits(connection)) /* it continues without us, and may use the memory for something else */
    complain(work->result, "%s", "it does not wait any more: its allocator is not recorded");
  else if (!write_table(work))
    complain(work->result, "its memory can't be written (%s): its allocator is not recorded", strerror(errno));
  else if (still_waits(connection))
    write_patches(work);
}

void linked_redirect(int pid, int connection, const struct linked_place *place, struct linked_result *result) {
  char path[64];
  *result = (struct linked_result){.has_malloc = false};
  struct work work = {.result = result, .memory = -1};
  if (linked_patches_open(&work.patches, pid) != 0)
    complain(result, "its executable can't be read (%s): if there is an allocator in it, it is not recorded",
             strerror(errno));
  if (work.patches.count) {
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    work.memory = open(path, O_RDWR | O_CLOEXEC);
    if (work.memory < 0)
      complain(result, "its memory can't be opened (%s): the allocator in it is not recorded", strerror(errno));
    else if (!place->room)
      complain(result, "%s", "no memory near its code: the allocator in it is not recorded");
    else
      redirect(&work, pid, connection, place);
  }
  if (work.memory >= 0)
    close(work.memory);
  linked_patches_close(&work.patches);
}

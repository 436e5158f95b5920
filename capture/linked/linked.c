/* SPDX-License-Identifier: MIT */
#include "capture/linked/linked_patches.h"
#include "capture/linked/static_program.h"
#include "capture/recorder/ways.h"
#include "core/base/os.h"
#include "core/system/peer.h"
#include "core/system/process.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* A redirection in progress. */
struct work {
  struct linked_result *result;
  struct linked_patches patches;
  int memory; /* /proc/PID/mem */
};

static void __attribute__((format(printf, 2, 3))) complain(struct linked_result *result, const char *format, ...) {
  va_list arguments;
  if (result->complaint.used)
    text_add(&result->complaint, "; ");
  va_start(arguments, format);
  text_add_list(&result->complaint, format, arguments);
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
        complain(work->result, "%s%s can't be written", patches->symbols.at[i].prefix, patches->symbols.at[i].name);
        continue;
      }
      linked_patches_note(i, &work->result->done);
      work->result->has_malloc |= linked_patches_is_plain(patches, i);
    }
}

/* 0: not known. */
static unsigned threads_of(int pid) {
  DIR *tasks = proc_open_threads(pid);
  unsigned count = 0;
  while (proc_next(tasks))
    count++;
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

/* Opens the memory of the process that asked. */
static int open_memory(struct linked_result *result, const struct peer *peer) {
  int memory = peer_open_memory(peer);
  if (memory < 0) {
    complain(result, "its memory can't be opened (%s): the allocator in it is not recorded", strerror(errno));
  } else if (!peer_is_same(peer)) {
    complain(result, "%s", "it has executed another program since it asked: its allocator is not recorded");
    close(memory);
    memory = -1;
  }
  return memory;
}

static void linked_redirect(const struct ucred *from, int connection, const struct linked_place *place,
                            struct linked_result *result) {
  struct peer peer;
  *result = (struct linked_result){.has_malloc = false};
  struct work work = {.result = result, .memory = -1};
  bool plain = peer_open(&peer, from, connection);
  if (linked_patches_open(&work.patches, from->pid) != 0)
    complain(result, "its executable can't be read (%s): if there is an allocator in it, it is not recorded",
             strerror(errno));
  if (work.patches.count && !plain)
    complain(result, "%s",
             "it has other rights than its user, or keeps its memory from it: its allocator is not recorded");
  else if (work.patches.count && !place->room)
    complain(result, "%s", "no memory near its code: the allocator in it is not recorded");
  else if (work.patches.count && (work.memory = open_memory(result, &peer)) >= 0)
    redirect(&work, from->pid, connection, place);
  os_close(work.memory);
  peer_close(&peer);
  linked_patches_close(&work.patches);
}

static const struct linked_way way = {linked_redirect, prepare_static};
REGISTER_WAY(linked, way);

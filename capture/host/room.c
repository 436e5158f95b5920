/* SPDX-License-Identifier: MIT */
#include "capture/host/room.h"

#include "capture/host/kernel/maps.h"
#include "capture/host/kernel/own_memory.h"
#include "capture/host/process.h"
#include "capture/host/producer_state.h"
#include "capture/wire/exec_note.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

enum {
  SHARE = 4,
  /* What a process needs beside its first bank, and what of it counts as data. */
  FIRST_DATA_BYTES = sizeof(struct process) + PRODUCER_POOL_BYTES + OWN_STACK_BYTES,
  FIRST_BYTES = sizeof(struct tables) + sizeof(struct process) + PRODUCER_POOL_BYTES,
};

struct room {
  uint64_t limit, mapped; /* mapped: not by us, as far as known */
};

static uint64_t own_bytes(void) {
  return memory_own_bytes() + (process_known() ? sizeof(struct process) : 0);
}

/* resource: RLIMIT_AS, or RLIMIT_DATA before anything of ours is mapped. False: it is not limited, as far as may be
   asked. */
static bool read_room(int resource, struct room *room) {
  struct rlimit limit;
  int error = errno;
  bool limited = host_may(HOST_CONTACT) && getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (limited) {
    uint64_t mapped = maps_bytes(resource == RLIMIT_DATA), own = own_bytes();
    *room = (struct room){limit.rlim_cur, mapped > own ? mapped - own : 0};
  }
  errno = error;
  return limited;
}

/* All that may be ours. */
static uint64_t room_bytes(int resource) {
  struct room room;
  if (!read_room(resource, &room))
    return UINT64_MAX;
  return room.limit > room.mapped ? (room.limit - room.mapped) / SHARE : 0;
}

static bool data_has_room(void) {
  return process_known() || FIRST_DATA_BYTES <= room_bytes(RLIMIT_DATA);
}

/* At most that many, beside so many bytes of ours. */
static uint32_t rings_beside(uint32_t most, uint64_t bytes) {
  uint64_t room = room_bytes(RLIMIT_AS);
  while (most && bytes + bank_bytes(most) > room)
    most--;
  return most;
}

uint32_t room_for_first_rings(void) {
  return data_has_room() ? rings_beside(BANK_RINGS_FIRST, FIRST_BYTES)
                         : 0; /* what a fork child inherits is unmapped before */
}

uint32_t room_for_more_rings(void) {
  return rings_beside(BANK_RINGS_MORE, own_bytes());
}

bool room_for_bytes(uint64_t bytes) {
  uint64_t room = room_bytes(RLIMIT_AS);
  return room == UINT64_MAX || own_bytes() + bytes <= room;
}

bool room_is_low(void) {
  struct rlimit addresses, data, descriptors;
  int error = errno;
  bool low = host_may(HOST_CONTACT) && getrlimit(RLIMIT_AS, &addresses) == 0 && getrlimit(RLIMIT_DATA, &data) == 0 &&
             getrlimit(RLIMIT_NOFILE, &descriptors) == 0 &&
             exec_limits_are_low(addresses.rlim_cur, data.rlim_cur, descriptors.rlim_cur);
  errno = error;
  return low;
}

static char *put_text(char *to, const char *text) {
  size_t bytes = strlen(text);
  memcpy(to, text, bytes + 1);
  return to + bytes;
}

static char *put_kib(char *to, uint64_t bytes) {
  return put_text(message_put_number(to, bytes >> 10), " KiB");
}

void room_report_none(void) {
  struct room room;
  char line[200];
  bool data = !data_has_room();
  if (!read_room(data ? RLIMIT_DATA : RLIMIT_AS, &room))
    return;
  uint64_t needed = room.mapped + SHARE * (data ? FIRST_DATA_BYTES : FIRST_BYTES + bank_bytes(1));
  char *end = put_text(line, data ? "its data is limited to " : "the address space is limited to ");
  end = put_kib(end, room.limit);
  end = put_text(end, data ? " (ulimit -d), and recording needs " : " (ulimit -v), and recording needs ");
  put_text(put_kib(end, needed | 0xffff), ": this process is not recorded");
  message_print(line);
}

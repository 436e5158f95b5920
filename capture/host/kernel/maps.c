/* SPDX-License-Identifier: MIT */
#include "capture/host/kernel/maps.h"

#include "capture/host/kernel/filters.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

bool maps_open(struct maps *maps) {
  maps->used = maps->at = 0;
  maps->fd = host_may(HOST_FILES) ? (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0) : -1;
  return maps->fd >= 0;
}

void maps_close(struct maps *maps) {
  syscall(SYS_close, maps->fd);
}

static int next_character(struct maps *maps) {
  if (maps->at == maps->used) {
    maps->used = syscall(SYS_read, maps->fd, maps->bytes, sizeof maps->bytes);
    maps->at = 0;
    if (maps->used <= 0) {
      maps->used = 0;
      return -1;
    }
  }
  return (unsigned char)maps->bytes[maps->at++];
}

/* A hexadecimal number; returns the character after it. */
static int next_number(struct maps *maps, uintptr_t *number) {
  int character;
  *number = 0;
  while ((character = next_character(maps)) >= 0) {
    bool digit = character >= '0' && character <= '9', letter = character >= 'a' && character <= 'f';
    if (!digit && !letter)
      break;
    *number = *number << 4 | (uintptr_t)(digit ? character - '0' : character - 'a' + 10);
  }
  return character;
}

bool maps_next(struct maps *maps, struct mapping *mapping) {
  next_number(maps, &mapping->low);
  int character = next_number(maps, &mapping->high);
  bool found = character == ' ';
  mapping->readable = found && next_character(maps) == 'r';
  bool writable = found && next_character(maps) == 'w';
  if (found)
    next_character(maps);
  mapping->data = found && next_character(maps) == 'p' && writable;
  while (character >= 0 && character != '\n')
    character = next_character(maps);
  return found;
}

uint64_t maps_bytes(bool data) {
  struct maps maps;
  struct mapping mapping;
  uint64_t bytes = 0;
  if (!maps_open(&maps))
    return 0;
  while (maps_next(&maps, &mapping) && mapping.low <= INTPTR_MAX) /* behind it is the kernel's */
    bytes += !data || mapping.data ? mapping.high - mapping.low : 0;
  maps_close(&maps);
  return bytes;
}

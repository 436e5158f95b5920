/* SPDX-License-Identifier: MIT */
/* /proc/self/maps, a mapping at a time, through a small buffer: the stack may be a fiber's. Async-signal-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct maps {
  int fd;
  char bytes[512];
  long used, at;
};

struct mapping {
  uintptr_t low, high;
  bool readable;
  bool data; /* counts against RLIMIT_DATA, but the stack, which does not */
};

/* False: it can't be read, or a filter of system calls forbids it; nothing is to be closed then. */
bool maps_open(struct maps *maps);
/* The next mapping, in the order of addresses; false: there is none. */
bool maps_next(struct maps *maps, struct mapping *mapping);
void maps_close(struct maps *maps);

/* Bytes that are mapped, or of these the data; 0: not known. */
uint64_t maps_bytes(bool data);

/* SPDX-License-Identifier: MIT */
/* Overwrites what it shares with other recorded processes: the clock goes everywhere, the recorder has ended. */
#include "capture/wire/ring.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  uintptr_t from = 0;
  while (maps && !from && fgets(line, sizeof line, maps))
    if (!strstr(line, "heaptape-control") || sscanf(line, "%" SCNxPTR "-", &from) != 1)
      from = 0;
  if (!from)
    return 1;
  memset((void *)from, 0xff, sizeof(struct control));
  return ((struct control *)from)->collector_futex != UINT32_MAX; /* FUTEX_OWNER_DIED among the bits */
}

/* SPDX-License-Identifier: MIT */
#include "replay/passes/time/disturb.h"

#include "core/base/os.h"

uint64_t disturb_lines;

static __thread struct {
  const volatile uint8_t *buffer;
  uint32_t at;
} own;

void disturb(void) {
  if (!own.buffer && !(own.buffer = os_map(DISTURB_BYTES, true)))
    return;
  for (uint64_t line = 0; line < disturb_lines; line++) {
    (void)own.buffer[own.at];
    own.at = (own.at + DISTURB_LINE_BYTES) % DISTURB_BYTES;
  }
}

/* SPDX-License-Identifier: MIT */
/* An access leaves no byte 0 and changes no other; other memory has a place for each MiB, at its colour, without
   zeroes: reads are never of the kernel's page of zeroes. */
#include "core/base/os.h"
#include "replay/accesses/access_byte.h"
#include "replay/accesses/other_memory.h"

#include <stdio.h>

static int failures;

static void expect(const char *what, uint64_t found, uint64_t wanted) {
  if (found != wanted) {
    printf("%s: %lu, not %lu\n", what, (unsigned long)found, (unsigned long)wanted);
    failures++;
  }
}

static void accesses_write_zeroes_alone(void) {
  uint8_t *memory = os_map(4096, false);
  memory[32] = 200;
  expect("a fresh byte", access_byte(memory + 16), 0);
  expect("the same again", access_byte(memory + 16), 1);
  expect("a byte with contents", access_byte(memory + 32), 200);
  expect("the same again", access_byte(memory + 32), 200);
  expect("bytes beside", memory[15] + memory[17] + memory[31] + memory[33], 0);
}

static void other_memory_has_places(void) {
  const uint64_t mib = 65536 /* granules */, recorded[] = {5, 6 * mib + 7, 5, (1ull << 43) + 7, 6 * mib + 300, mib - 1};
  const uint64_t places[] = {0, 1, 0, 2, 1, 0};
  const uint8_t *memory = other_memory_setup();
  expect("alignment", (uintptr_t)memory % (1 << 20), 0);
  for (unsigned index = 0; index < sizeof recorded / sizeof *recorded; index++) {
    uint64_t granule = (uint64_t)other_memory_granule(recorded[index]);
    expect("the place", granule, places[index] * mib + recorded[index] % mib);
    expect("its byte", memory[granule * 16], 1);
  }
}

static void other_memory_says_when_it_is_full(void) {
  uint64_t mib = 1u << 20;
  int32_t granule = 0;
  for (uint32_t place = 3; place < 1u << 15; place++)
    granule |= other_memory_granule(mib++ * 65536) < 0;
  expect("refused while there was room", (uint64_t)granule, 0);
  expect("one too many", (uint64_t)(int64_t)other_memory_granule(mib * 65536), UINT64_MAX);
  expect("one that has a place", (uint64_t)other_memory_granule(5), 5);
}

int main(void) {
  accesses_write_zeroes_alone();
  other_memory_has_places();
  other_memory_says_when_it_is_full();
  return failures != 0;
}

/* SPDX-License-Identifier: MIT */
/* Random claims and releases against a table of every byte's owner: a claim reports an owner exactly when a piece of 8
   bytes that it needs has another owner, it never takes such a piece, and released pieces are free again. */
#include "core/test/check.h"
#include "replay/passes/claims.h"

enum { PIECES = 6000, OWNERS = 200, STEPS = 40000 };

/* Across the border of two tables, 16 MiB apart. */
static const uint64_t BASE = ((uint64_t)5 << 24) - PIECES / 2 * 8;

static uint32_t owner_of[PIECES];
static struct { uint64_t address, bytes; } claims[OWNERS + 1];
static uint64_t counter;

static uint64_t draw(uint64_t limit) {
  return test_below(&counter, limit);
}

static void claim(unsigned step, uint32_t owner) {
  uint64_t bytes = 1 + draw(draw(8) ? 64 : 4000), address = BASE + draw(PIECES * 8 - bytes);
  uint64_t first = (address - BASE) / 8, last = (address + bytes - 1 - BASE) / 8;
  uint32_t there = 0;
  for (uint64_t piece = first; piece <= last; piece++) {
    if (owner_of[piece] == 0)
      owner_of[piece] = owner;
    else if (owner_of[piece] != owner)
      there = owner_of[piece];
  }
  claims[owner].address = address;
  claims[owner].bytes = bytes;
  uint32_t said = claims_add(address, bytes, owner);
  CHECK(said == there, "step %u: claims_add returned %u, not %u", step, said, there);
}

static void release(uint32_t owner) {
  claims_remove(claims[owner].address, claims[owner].bytes, owner);
  for (uint64_t piece = 0; piece < PIECES; piece++) {
    if (owner_of[piece] == owner)
      owner_of[piece] = 0;
  }
  claims[owner].bytes = 0;
}

int main(void) {
  CHECK(claims_setup() == 0);
  unsigned overlaps = 0;
  for (unsigned step = 0; step < STEPS; step++) {
    uint32_t owner = 1 + (uint32_t)draw(OWNERS);
    if (claims[owner].bytes > 0)
      release(owner);
    else
      claim(step, owner);
    overlaps += claims[owner].bytes > 64;
  }
  CHECK(claims_add((uint64_t)1 << 50, 100, 1) == 0, "an address that is not checked has no owner");
  CHECK(claims_add(BASE, 0, 7) == 0, "an empty range has no owner");
  CHECK(overlaps > 0);
}

/* SPDX-License-Identifier: MIT */
/* Random claims and releases against a table of every byte's owner: a claim reports an owner exactly when a piece of 8
   bytes that it needs has another owner, it never takes such a piece, and released pieces are free again. */
#include "replay/passes/claims.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECES = 6000, OWNERS = 200, STEPS = 40000 };

/* Across the border of two tables, 16 MiB apart. */
static const uint64_t BASE = ((uint64_t)5 << 24) - PIECES / 2 * 8;

static uint32_t owner_of[PIECES];
static struct { uint64_t address, bytes; } claims[OWNERS + 1];
static uint64_t random_state = 88172645463325252u;

static uint64_t draw(uint64_t limit) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state % limit;
}

static void fail(unsigned step, uint32_t found, uint32_t expected) {
  printf("step %u: claims_add returned %" PRIu32 ", not %" PRIu32 "\n", step, found, expected);
  exit(1);
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
  if (said != there)
    fail(step, said, there);
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
  if (claims_setup() != 0) {
    puts("no address space");
    return 1;
  }
  unsigned overlaps = 0;
  for (unsigned step = 0; step < STEPS; step++) {
    uint32_t owner = 1 + (uint32_t)draw(OWNERS);
    if (claims[owner].bytes > 0)
      release(owner);
    else
      claim(step, owner);
    overlaps += claims[owner].bytes > 64;
  }
  if (claims_add((uint64_t)1 << 50, 100, 1) != 0 || claims_add(BASE, 0, 7) != 0) {
    puts("addresses that are not checked, and empty ranges, must have no owner");
    return 1;
  }
  return overlaps > 0 ? 0 : 1;
}

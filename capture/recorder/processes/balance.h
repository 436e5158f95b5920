/* SPDX-License-Identifier: MIT */
/* Are calls missing from a recording? In a legal history acquires and releases take turns at each address.

   Job: the turns at a sample of addresses. Not its job: which call is missing, and where (convert/history). Rings are
   read one by one, so the steps of a pass over all are put into the order of their stamps, and those after the newest
   stamp of the passes before wait for the next pass: a step that this one has not shown comes after none of the others
   (docs/methods/ORDERING.md). Addresses are hashed into BALANCE_BUCKETS buckets; those of the lowest are in the sample:
   all at first, fewer the more calls there have been, so that a call of a long recording costs little. Invariants:
   memory is bounded; an address in the sample has been there from the beginning; the host's data are not trusted, only
   counted. In the recorder; allocates with malloc; one thread. */
#pragma once

#include "core/base/address_map.h"
#include "core/base/vector.h"

#include <stdbool.h>
#include <stdint.h>

enum {
  BALANCE_BUCKET_BITS = 14,
  BALANCE_BUCKETS = 1 << BALANCE_BUCKET_BITS,
  BALANCE_ROOM_MOST = 1 << 17, /* entries */
  BALANCE_STEPS_MOST = 1 << 17,
};

struct balance_step {
  uint64_t stamp, address;
  uint32_t order;
  bool acquires;
};

struct balance {
  uint32_t buckets, updates;         /* those below `buckets` are in the sample; 0: none is */
  bool late;                         /* there may be objects from before the recording */
  struct address_map map;            /* live addresses, in slot 1; if late, those that were released, too, in slot 0 */
  VECTOR(struct balance_step) steps; /* that wait */
  uint64_t newest, settled;          /* stamps: of all steps; up to which none waits after the next pass */
  uint64_t missing;
};

/* Without memory, the sample is empty, and may be used. */
void balance_open(struct balance *balance, bool late);
void balance_close(struct balance *balance);

/* Must calls that have this address be passed in? Only the address's lower half matters. */
static inline bool balance_has(const struct balance *balance, uint64_t address) {
  return (uint32_t)address * 0x85ebca6bu >> (32 - BALANCE_BUCKET_BITS) < balance->buckets;
}

/* A step of a thread, its own or inherited stamp. The steps of a thread with one stamp are passed in in their order. */
void balance_add(struct balance *balance, uint64_t address, bool acquires, uint64_t stamp);

/* All rings have been read once more. */
void balance_pass(struct balance *balance);

/* When all calls have been passed in: how many are missing at least, at the addresses of the sample. */
uint64_t balance_missing(struct balance *balance);

/* SPDX-License-Identifier: MIT */
/* Are calls missing from a recording? At each address of a legal history there are as many releases as acquires, or one
   fewer, in whatever order they are read.

   Job: the balance of a sample of addresses. Not its job: which call is missing, and where (convert/history). Addresses
   are hashed into BALANCE_BUCKETS buckets; those of the lowest are in the sample: all at first, fewer the more calls
   there have been, so that a call of a long recording costs little. Invariants: memory is bounded; an address in the
   sample has been there from the beginning; the host's data are not trusted, only counted. In the recorder; allocates
   with malloc; one thread. */
#pragma once

#include "core/base/address_map.h"

#include <stdbool.h>
#include <stdint.h>

enum {
  BALANCE_BUCKET_BITS = 14,
  BALANCE_BUCKETS = 1 << BALANCE_BUCKET_BITS,
  BALANCE_ROOM_MOST = 1 << 17 /* entries */
};

struct balance {
  uint32_t buckets, updates; /* those below `buckets` are in the sample; 0: none is */
  struct address_map map;    /* address -> acquires less releases, modulo 2^32, in the place of the slot; never 0 */
};

/* Without memory, the sample is empty, and may be used. */
void balance_open(struct balance *balance);
void balance_close(struct balance *balance);

/* Must calls that have this address be passed in? Only the address's lower half matters. */
static inline bool balance_has(const struct balance *balance, uint64_t address) {
  return (uint32_t)address * 0x85ebca6bu >> (32 - BALANCE_BUCKET_BITS) < balance->buckets;
}

/* acquires: 1, or -1 for a release. */
void balance_add(struct balance *balance, uint64_t address, int acquires);

/* When all calls have been passed in: how many are missing at least, at the addresses of the sample. */
uint64_t balance_missing(const struct balance *balance);

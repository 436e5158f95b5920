/* SPDX-License-Identifier: MIT */
/* Addresses for objects whose real addresses are unknown or must stay hidden. Each thread's addresses are consecutive
   and none is used twice, so that objects of two threads never overlap, and the reader's predictor expects each
   address.

   Memory is O(threads). Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct made_addresses_thread {
  uint64_t next_address, region_end;
};

struct made_addresses {
  struct made_addresses_thread *threads;
  uint64_t regions;
};

/* Thread numbers passed to the functions below must be less than threads. False: no memory; it can be freed either
   way. */
bool made_addresses_init(struct made_addresses *made, uint32_t threads);
void made_addresses_free(struct made_addresses *made);

/* The next object's address. */
uint64_t made_addresses_next(struct made_addresses *made, uint32_t thread, uint64_t request_bytes);

/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/copying/made_addresses.h"

#include "core/trace/layout.h"

#include <stdlib.h>

/* Each thread gets its addresses from its own regions of 2^REGION_BITS bytes, so that objects of two threads never
   overlap. 2^24 of them fill the address space: one per thread that a trace can have. */
enum { REGION_BITS = 40 };

bool made_addresses_init(struct made_addresses *made, uint32_t threads) {
  *made = (struct made_addresses){.threads = calloc(threads + 1u, sizeof *made->threads)};
  return made->threads != NULL;
}

void made_addresses_free(struct made_addresses *made) {
  free(made->threads);
}

/* The address that the reader's predictor expects (FORMAT.md section 4: the previous miss, plus 16 x its class), so
   that addresses cost nothing. */
uint64_t made_addresses_next(struct made_addresses *made, uint32_t thread, uint64_t request_bytes) {
  struct made_addresses_thread *state = &made->threads[thread];
  uint64_t region_bytes = 1ull << REGION_BITS, bytes = 16 * predictor_class(request_bytes);
  if (request_bytes >= region_bytes)
    bytes = region_bytes; /* nothing can touch all these bytes: they may overlap, but not the addresses */
  if (state->region_end - state->next_address < bytes) {
    /* After 2^24 regions it starts again: those objects ended long ago. */
    state->next_address = (made->regions++ % ((1 << 24) - 1) + 1) << REGION_BITS;
    state->region_end = state->next_address + region_bytes;
  }
  uint64_t address = state->next_address;
  state->next_address += bytes;
  return address;
}

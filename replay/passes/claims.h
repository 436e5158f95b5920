/* SPDX-License-Identifier: MIT */
/* Which live object each piece of the address space belongs to, for the verify pass.

   Job: find an overlap at the moment when an allocator hands it out, and name the object that was there.
   Not its job: contents (verify.c). Invariants: an owner is claimed for 8 bytes at a time, in tables made as addresses
   come; any number of threads, no lock; two threads that are handed the same memory at the same time see each other.
   Objects of less than 8 bytes may share a piece: the caller decides whether a claim found taken is a true overlap.
   Addresses from 2^48 on are not watched. Costs 4 bytes of shared memory (not RssAnon) for each 8 bytes ever handed
   out. */
#pragma once

#include <stdint.h>

/* Once, before the others. Returns 0, or -1 with errno set. */
int claims_setup(void);

/* Claims [address, address + bytes) for owner (not 0) wherever nobody else has it. Returns an owner that was there
   before, 0 if there was none. */
uint32_t claims_add(uint64_t address, uint64_t bytes, uint32_t owner);

/* Gives up what owner has of [address, address + bytes). */
void claims_remove(uint64_t address, uint64_t bytes, uint32_t owner);

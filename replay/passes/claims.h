/* SPDX-License-Identifier: MIT */
/* The live object to which each piece of the address space belongs, for the verify pass.

   Job: detect an overlap at the moment when an allocator hands the memory out, and name the object that was there.
   Invariants: memory is claimed for an owner 8 bytes at a time, in tables that are made as addresses occur; any number
   of threads, no lock; if two threads get the same memory at the same time, the overlap is found. Objects of less than
   8 bytes may share a piece: the caller decides whether a piece that is already claimed is a true overlap. Addresses
   from 2^48 on are not checked. Costs 4 bytes of shared memory (not RssAnon) for each 8 bytes ever handed out. */
#pragma once

#include <stdint.h>

/* Call once, first. Returns 0, or -1 with errno set. */
int claims_setup(void);

/* Claims [address, address + bytes) for owner (not 0) where no other has it. Returns an earlier owner; 0: none. */
uint32_t claims_add(uint64_t address, uint64_t bytes, uint32_t owner);

/* Gives up owner's claims in [address, address + bytes). */
void claims_remove(uint64_t address, uint64_t bytes, uint32_t owner);

/* SPDX-License-Identifier: MIT */
/* The bytes of live objects, for the proof that no two live objects share a byte (`check`; compile does not use it).

   Small objects are bits of a shadow, one per GRANULE of 8 bytes, in tiles of 64 KiB that exist while they hold an
   object; large objects are in an array sorted by address. Positions inside a granule of 8 bytes are not distinguished:
   an overlap of fewer bytes may go unseen, but no overlap is invented. Memory is at most 1 KiB per live object. Not
   thread-safe. */
#pragma once

#include <stdint.h>

struct ranges;

enum ranges_result { RANGES_ADDED, RANGES_OVERLAP, RANGES_NO_MEMORY };

/* NULL if there is no memory. ranges_free takes NULL. */
struct ranges *ranges_new(void);
void ranges_free(struct ranges *ranges);

/* Adds [address, address + size_bytes), unless it shares bytes with an object added before. An object of 0 bytes counts
   as 1 byte. */
enum ranges_result ranges_add(struct ranges *ranges, uint64_t address, uint64_t size_bytes);

/* Removes an object that was added with the same values. */
void ranges_remove(struct ranges *ranges, uint64_t address, uint64_t size_bytes);

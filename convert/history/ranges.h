/* SPDX-License-Identifier: MIT */
/* The bytes of live objects, for the proof that no two live objects share one (`check`; compile does without).

   Small objects are bits of a shadow, one per GRANULE of 8 bytes, in regions of 64 KiB that exist while they hold an
   object; large ones stand in an array sorted by address. A granule that an object only begins or ends inside is not
   distinguished below 8 bytes: an overlap of fewer bytes may go unseen, none is invented. Memory is at most 1 KiB per
   live object. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ranges;

enum ranges_result { RANGES_ADDED, RANGES_OVERLAP, RANGES_NO_MEMORY };

/* NULL if there is no memory. ranges_free takes NULL. */
struct ranges *ranges_new(void);
void ranges_free(struct ranges *ranges);

/* Adds [address, address + size_bytes), unless it shares bytes with one that is in. An object of 0 bytes counts as one.
 */
enum ranges_result ranges_add(struct ranges *ranges, uint64_t address, uint64_t size_bytes);

/* Removes one that was added, with the same values. */
void ranges_remove(struct ranges *ranges, uint64_t address, uint64_t size_bytes);

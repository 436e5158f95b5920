/* SPDX-License-Identifier: MIT */
/* Address space from the system, in whole zones. Safe from any thread; errno is undefined afterwards. */
#pragma once

#include <stddef.h>

/* Returns zeroed memory, lead_bytes before a multiple of alignment (a power of two, at least ZONE_BYTES). bytes: a
   multiple of ZONE_BYTES. NULL: none. */
void *system_map(size_t bytes, size_t alignment, size_t lead_bytes);

void system_unmap(void *memory, size_t bytes);

/* Gives the OS pages of that memory back; it is zero then. */
void system_purge(void *memory, size_t bytes);

/* Moves the OS pages of a mapping to a larger one from system_map, whose own are lost. False: nothing happened. */
int system_move(void *from, size_t from_bytes, void *to, size_t to_bytes);

/* SPDX-License-Identifier: MIT */
/* Room for our memory where the program's address space or data is limited (RLIMIT_AS, RLIMIT_DATA; ulimit -v, -d): of
   what the limit leaves beside the program's own mappings, recording takes a quarter at most, so that the program's
   calls find room as without us. Async-signal-safe, allocates nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How many rings the process's first bank, or one more, may have. 0: there is no room. */
uint32_t room_for_first_rings(void);
uint32_t room_for_more_rings(void);

/* Is there room for so much more? */
bool room_for_bytes(uint64_t bytes);

/* Are the limits low that the process's programs begin with? */
bool room_is_low(void);

/* Prints the limit, and what recording needs. */
void room_report_none(void);

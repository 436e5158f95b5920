/* SPDX-License-Identifier: MIT */
/* Memory in place of what the program accessed outside of objects: stacks, globals, objects acquired before the
   recording began.

   Job: give each recorded address its own place. Not its job: accessing it (perform.h). Invariants: addresses of
   one MiB stay together and keep their place in it, so page colours and neighbours are those of the recording;
   different addresses have different places; OS pages with places are resident and hold no zero, and none is a
   huge page. The MiBs are laid out in the order of first access, not as recorded. No malloc; one writer. */
#pragma once

#include <stdint.h>

/* Reserves the address space. Returns its start, or NULL with errno set. */
void *other_memory_setup(void);

/* Returns the number, from that start, of the 16-byte granule that stands for a recorded one. -1: no room is left, as
   the program accessed MiBs of more than 32 GiB in total outside of objects. */
int32_t other_memory_granule(uint64_t recorded_granule);

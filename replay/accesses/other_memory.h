/* SPDX-License-Identifier: MIT */
/* Memory that stands for what the program accessed outside of objects: stacks, globals, what was acquired before the
   recording began.

   Job: give each recorded address a place of its own. Not its job: accessing it (perform.h). Invariants: addresses of
   one MiB stay together and keep their place in it, so page colours and neighbours are those of the recording; two
   addresses have one place only if they are the same; OS pages with places are resident and hold no zero, and none is a
   huge page. Where one MiB lies to another is by first access, not as recorded. No malloc; one writer. */
#pragma once

#include <stdint.h>

/* Reserves the address space. Returns its start, or NULL with errno set. */
void *other_memory_setup(void);

/* The granule of 16 bytes, counted from that start, that stands for the granule at a recorded address. -1: there is no
   room, as the program accessed more than 32 GiB of MiBs outside of objects. */
int32_t other_memory_granule(uint64_t recorded_granule);

/* SPDX-License-Identifier: MIT */
/* Which OS pages of the process are resident, for the memory map.

   Job: walk the resident anonymous private OS pages (what RssAnon counts), except those of programs and libraries
   (their data and bss) and of the main thread's stack. Invariants: no malloc, no memory beyond a fixed buffer; one
   caller at a time. One ioctl for each gap between the ranges left out, where the kernel has PAGEMAP_SCAN (6.7); else
   /proc/self/maps and /proc/self/pagemap, where 8 bytes are read for each mapped OS page, resident or not. OS pages
   that were only read (the shared zero page) and those swapped out are not resident; the fallback can't detect the
   former and counts a zero page as resident. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum residency_method { RESIDENCY_NONE, RESIDENCY_SCAN, RESIDENCY_PAGEMAP };

/* Opens its files and finds the ranges to leave out; libraries loaded later are not among them. allow_scan: false
   selects the fallback even where the kernel has the ioctl. Returns the method that will be used. */
enum residency_method residency_setup(bool allow_scan);

/* Calls visit for each run of resident OS pages, by rising address. */
void residency_visit(void (*visit)(uint64_t address, uint64_t bytes));

/* SPDX-License-Identifier: GPL-2.0-only */
/* Mode simulate: instructions, data accesses, page faults, system calls, and the misses of caches and TLBs, of the
   program and of its allocator.

   Job: the model. Page faults are first touches of OS pages (pages.h). A first-level data cache and an
   instruction cache; behind both, several unified outer caches, each as if it were the only one; a first-level TLB for
   data, and behind it several others, each as if it were the only one. All replace the least recently used entry; of
   the caches' misses, those that a stream prefetcher would have prevented are also counted separately (cache.h). Not
   its job: which instructions are the allocator's (allocator.h). Invariants: accesses, first-level and outer misses
   equal cachegrind's for the same sizes. Where an instruction reads and writes the same bytes, that is one access. An
   access longer than a line (fxsave) is cut to a line. Addresses are virtual; the kernel's accesses are not seen.
   Unmapping does not affect the simulated caches and TLBs. */
#pragma once

#include "observe/valgrind/common/output.h"
#include "observe/valgrind/common/tool.h"

#include <pub_tool_basics.h>

/* Options --caches=, --instruction-cache= and --tlbs=; each returns False for invalid text. */
Bool simulate_set_caches(const HChar *text);
Bool simulate_set_instruction_cache(const HChar *text);
Bool simulate_set_tlbs(const HChar *text);

/* Option --data-only=yes: instructions are counted; their fetches access no cache and are not reported. */
extern Bool simulate_data_only;

/* Option --shift=PAGES: maps this many OS pages where the program's first mapping would be, so that later mappings,
   including its libraries and the allocator's, are at higher addresses. */
extern Int simulate_shift_os_pages;

void simulate_begin(void);

/* replays: mode replay, in which only accesses by the allocator count. */
IRSB *simulate_instrument(IRSB *in, const struct translation *translation, Bool replays);
/* apart: a burst ends, and from now on events are counted separately, only in the figures of key "outside". Otherwise a
   burst begins. Caches and TLBs stay as they are. */
void simulate_set_outside(Bool apart);

void simulate_note_syscall(UInt number);

/* The client's OS pages of that range are unmapped, or will be newly mapped (pages.h); or are moved. */
void simulate_give_back(Addr address, SizeT bytes);
void simulate_note_growth(Addr address, SizeT bytes); /* that range is new: the data segment has grown */
void simulate_move(Addr from, Addr to, SizeT bytes);

/* In a fork's child: resets the counts; the caches stay as they are. */
void simulate_reset(void);

/* Keys "instructions" to "program"; where there were separate counts, in each "first_lines", "first_pages" and
   "unsure_page_faults", in each cache and TLB "first_misses" (pages.h), and "outside" {"allocator_instructions"}. */
void simulate_write(VgFile *file);

/* The functions that translated code calls in mode simulate: simulate.c defines them, instrument_simulate.c adds the
   calls. They are called in the order of execution; an instruction's fetch comes before its accesses. */

enum { SIMULATED_LINE_BYTES = 64 };

/* A read, a write, or both in one. bytes: 1 to SIMULATED_LINE_BYTES. */
VG_REGPARM(2) void simulate_access(Addr address, UWord bytes);

/* Instructions were fetched from within that line; line: address / SIMULATED_LINE_BYTES. */
VG_REGPARM(1) void simulate_fetch_line(UWord line);

/* One instruction that crosses two lines was fetched. */
VG_REGPARM(2) void simulate_fetch_across(Addr address, UWord bytes);

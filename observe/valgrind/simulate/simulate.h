/* SPDX-License-Identifier: GPL-2.0-only */
/* Mode simulate: instructions, data accesses, page faults, system calls, and the misses of caches and TLBs, of the
   program and of its allocator.

   Job: the model. Page faults are first touches of OS pages (page_faults.h). A first-level data cache and an
   instruction cache; behind both, several unified outer caches, each as if it were the only one; a first-level TLB for
   data, and behind it several others, each as if it were the only one. All replace the least recently used; of the
   caches' misses, those that a stream prefetcher would have brought are counted apart (streams.h). Not its job: which
   instructions are the allocator's (allocator.h). Invariants: accesses, first-level and outer misses equal cachegrind's
   for the same sizes. Where an instruction reads and writes the same bytes, that is one access. An access of more than
   a line's length (fxsave) is cut to one. Addresses are virtual; nothing of the kernel's is seen. What a mapping's end
   does to caches and TLBs is not simulated: they keep what they hold. */
#pragma once

#include "observe/valgrind/common/output.h"
#include "observe/valgrind/common/tool.h"

/* Options --caches=, --instruction-cache= and --tlbs=; each returns False for text that is no such list. */
Bool simulate_set_caches(const HChar *text);
Bool simulate_set_instruction_cache(const HChar *text);
Bool simulate_set_tlbs(const HChar *text);

/* Option --data-only=yes: instructions are counted, their fetches reach no cache and are not reported. */
extern Bool simulate_data_only;

/* Option --shift=PAGES: so many OS pages are mapped where the program's first mapping would be, so that those to come,
   its libraries and the allocator's among them, lie higher than without. */
extern Int simulate_shift_os_pages;

void simulate_begin(void);

/* replays: mode replay, in which only accesses of the allocator's count. */
IRSB *simulate_instrument(IRSB *in, const struct translation *translation, Bool replays);
/* What follows is counted apart, in no figure but those of key "outside": it lies outside of a burst. Or it is not: a
   burst begins. Caches and TLBs go on as they are. */
void simulate_set_apart(Bool apart);

/* Keeps how much has missed so far, of both sides. Returns True. */
Bool simulate_take_snapshot(void);

void simulate_note_syscall(UInt number);

/* The client's OS pages of that range are no longer mapped, or are to be mapped anew (page_faults.h); or moved. */
void simulate_give_back(Addr address, SizeT bytes);
void simulate_note_growth(Addr address, SizeT bytes); /* that range is new: the data segment has grown */
void simulate_move(Addr from, Addr to, SizeT bytes);

/* In a fork's child: counts begin anew; the caches stay as they are. */
void simulate_reset(void);

/* Keys "instructions" to "program"; where something was counted apart, in each "first_lines", "first_pages" and
   "unsure_page_faults", in each cache and TLB "first_misses" (burst.h), and "outside" {"allocator_instructions"}; where
   snapshots were taken, in each cache and TLB of both sides "snapshots" [misses so far]. */
void simulate_write(VgFile *file);

/* SPDX-License-Identifier: GPL-2.0-only */
/* Mode accesses: the program's data accesses and its calls, in order, written to the recorder as a stream of items
   (core/trace/access_stream.h).

   Job: which accesses are written, and by which name. In a recording in bursts, the program's accesses are written only
   between the beginning and the end of a burst. Outside, translated code only counts instructions: all translations are
   discarded where a burst begins or ends. Calls are written and live objects kept as usual, so that objects from before
   a burst are known in it. Invariants: accesses made while the allocator runs are not written. The filter is empty
   where a burst begins. Accesses are in the order of execution, and calls between them. The stream has whole items
   only, unless the process is killed. Nothing is written before the recorded library has passed a descriptor; where the
   recorder has ended, the program continues. */
#pragma once

#include "observe/valgrind/common/tool.h"

/* Option --filter=BYTES: the filter's size; 0: only consecutive accesses to one granule are collapsed. False: neither
   0 nor 64 times a power of two. */
Bool accesses_set_filter(Long bytes);

/* Options --burst-from=, --burst-to=: marks at which a burst begins or ends; --bursts=in|out: accesses are recorded in
   bursts, and the first one begins with the program or not. The strings are not copied. */
extern const HChar *accesses_burst_from, *accesses_burst_to;
void accesses_set_bursts(Bool in_burst);

void accesses_begin(void);
IRSB *accesses_instrument(IRSB *in, const struct translation *translation);

/* The requests EVENT and RECORDING (core/system/valgrind_requests.h). */
Bool accesses_take_event(const UWord *arguments);
Bool accesses_set_recording(const UWord *arguments);

/* The requests MARK and BURST. */
Bool accesses_take_mark(const UWord *arguments);
Bool accesses_take_burst(const UWord *arguments);

/* Should the accesses of code translated now be written? */
Bool accesses_are_wanted(void);

void accesses_note_syscall(void);

/* Writes totals, and the rest of the buffer: at the process's end, and before it execs another program. */
void accesses_put_totals(void);

/* In a fork's child: it has no stream until its library passes one. */
void accesses_reset(void);

/* The buffer between translated code, which fills it, and this mode: for each access its address, or 0 where a
   condition kept it from happening, and a byte about its size. There is no header for each superblock: a loop over flat
   arrays takes a third less time than one over headers with counts, whose end can't be predicted.
   The fill level, and the number of instructions executed since, are one word of the thread's state, which translated
   code reaches without loading an address. While no translated code runs, the buffer is empty. */
enum {
  PENDING_FULL = 1536,
  PENDING_ROOM = 2048,             /* beyond PENDING_FULL: for one superblock */
  PENDING_CODES = 8,               /* written at once, even if fewer are needed */
  PENDING_INSTRUCTIONS_SHIFT = 16, /* the number added to the state is an operand of 32 bits */
};
extern UWord pending[PENDING_FULL + PENDING_ROOM];
extern Char pending_codes[PENDING_FULL + PENDING_ROOM + PENDING_CODES];

/* The word's place in the first shadow of a thread's state, which belongs to the tool: bytes of the buffer in use below
   PENDING_INSTRUCTIONS_SHIFT, instructions above. */
enum { PENDING_STATE = 16 };

/* The byte about an access: the last byte of a granule at which it can begin and be in one granule; below 0 where the
   access must be checked: it may not happen, or is longer than a granule. */
Char accesses_code(Int bytes, Bool has_guard);

/* Translated code of that thread begins to run; VG_INVALID_THREADID: it has stopped. */
void accesses_run(ThreadId thread);

/* Takes the accesses in the buffer; called from translated code when it holds PENDING_FULL. */
void accesses_settle(void);

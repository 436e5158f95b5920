/* SPDX-License-Identifier: GPL-2.0-only */
/* Mode replay: a recorded stream of data accesses, simulated at the addresses that another allocator returns.

   The client (replay/engine) makes the recorded calls, one thread at a time, and none of its other work counts. Job:
   before each call, simulate the program's accesses up to that call, as the program's; while the allocator runs
   (allocator.h: in calls, in its start-up, at a thread's start and end), simulate its accesses; simulate as the
   program's the client's accesses up to replay_note_started: the dynamic linker's work, which depends on the libraries
   that an allocator needs, and which is before the recording of the program itself. Not its job: the model
   (simulate.h), checking the stream (replay/passes/access_stream.h: the parent that starts this has done so).

   Addresses of accesses:
   - an object's: at the address that its slot holds in the client's own table, read when the access is played. A slot
     that is empty, as its call failed, has no address: the access is counted as lost.
   - other memory's: where it was recorded, with REPLAY_OTHER set: sets of caches and TLBs are those of the recording,
   and it never coincides with the client's memory.
   - the allocator's own stack in a call: moved to where the recorded call had its stack, which is other memory.

   A recording in bursts: calls are made and their accesses simulated outside bursts, too, but counted separately
   (simulate_set_outside), as the start-up is.

   No client request at each call: a request leaves the translated code for Valgrind's scheduler, which costs more than
   most calls. The client registers a function once, which it calls before each call, and that function's translation
   plays the stream. */
#pragma once

#include "observe/valgrind/common/output.h"
#include "observe/valgrind/common/tool.h"

#define REPLAY_OTHER ((Addr)1 << 60)

/* Option --accesses=: opens the stream. Returns False if it can't be read. */
Bool replay_open(const HChar *path);

/* function: called before each call. table: slots entries of two words, the first the object's address or 0, mapped
   until the process ends. To be called before the first call. Returns False for a second table. */
Bool replay_register(Addr function, Addr table, UWord slots);

/* The client's start-up is over: its own code begins. Returns False the second time. */
Bool replay_note_started(void);

/* Adds the code at a superblock's start; and simulates an access by the allocator. */
void replay_instrument(IRSB *into, const struct translation *translation);

/* True if a superblock's accesses need no guard, as they count whoever makes them. */
Bool replay_counts_all(void);
VG_REGPARM(2) void replay_access(Addr address, UWord bytes);

/* Plays the rest of the stream, after the last call. */
void replay_finish(void);

/* Keys "events" (calls for which the stream was played), "lost_accesses", and for the start-up, without the allocator,
   "startup_accesses" and "startup" (output_counted). */
void replay_write(VgFile *file);

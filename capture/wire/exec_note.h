/* SPDX-License-Identifier: MIT */
/* Notes of a host on programs that it, or a child without a bank of its own, is about to execute. A program that does
   not attach may end before the collector can look at it; the note then is all that is known of it.

   Life of a note: FREE; FILLING, by the host; STANDS; FREE again, by the host where the call failed, and by the
   collector where it knows what became of it. Neither side waits for the other: where no note is free, none is made,
   and the bank's `notes_lost` counts it. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { EXEC_NOTES = 256, EXEC_PATH_BYTES = 112, EXEC_CERTAIN = -2 };

enum exec_note_state { EXEC_NOTE_FREE, EXEC_NOTE_FILLING, EXEC_NOTE_STANDS };

/* What the host knows of what will become of it. */
enum exec_outlook {
  EXEC_OPEN,          /* it may attach */
  EXEC_FILTERED,      /* it will begin under filters of system calls with which it does not attach */
  EXEC_SANDBOXED,     /* a sandbox keeps this process from the collector, and so the program */
  EXEC_NO_PRELOAD,    /* its environment is without our LD_PRELOAD */
  EXEC_OTHER_PRELOAD, /* ... and has another */
  EXEC_NO_LIBRARY,    /* our library is not there for it: the process has another root directory */
  EXEC_NO_RIGHT,      /* ... may not be read by it */
  EXEC_LIMITED        /* its limits are low, perhaps lower than what recording needs */
};

/* Are the limits of addresses and data so low that recording may find no room, as it takes a quarter of what a
   program's start leaves of them (capture/host/room.h)? Or that of descriptors, of which the contact needs three? */
static inline bool exec_limits_are_low(uint64_t address_bytes, uint64_t data_bytes, uint64_t descriptors) {
  return address_bytes < 64 << 20 || data_bytes < 32 << 20 || descriptors < 16;
}

struct exec_note {
  _Atomic uint32_t state;
  int32_t pid;      /* of the child that executes it; 0: the process itself; -1: the host may not ask for it; -2: nor
                                 is the note ever taken back */
  uint32_t outlook; /* enum exec_outlook */
  uint32_t asked;   /* as in struct control, before the call: a process of that number among these is another one */
  char path[EXEC_PATH_BYTES]; /* its end, where it is longer, without a zero then */
};

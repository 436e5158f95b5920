/* SPDX-License-Identifier: GPL-2.0-only */
/* The live objects of the program, found by any address inside them.

   Job: from an address to the object that holds it. Invariants: of two objects that overlap (the release of one was not
   reported yet) the one that begins at the higher address holds an address in both. If an address is handed out again
   before its release is reported, that release is of the older object: a realloc's release is reported after its call,
   and meanwhile another thread may have got the address. Memory is 16 bytes for each OS page that holds part of an
   object, 128 for each in which one begins, and 8 to 16 for each object (for the largest number live at once in its OS
   page). */
#pragma once

#include <pub_tool_basics.h>

struct live_object {
  Addr start;
  SizeT bytes; /* the request, at least 1, rounded up to a whole granule */
  ULong number;
};

/* An object at that address, a multiple of 8, was handed out; another address is ignored. */
void live_acquire(Addr address, SizeT bytes, ULong number);

/* The object at that address was released. Returns its bytes; 0 if there was none. */
SizeT live_release(Addr address);

enum { LIVE_BATCH = 64 };

/* Finds the objects that hold the bytes at these addresses; an owner of 0 bytes means none. count is at most
   LIVE_BATCH. */
void live_owners(const Addr *addresses, UInt count, struct live_object *owners);

/* Forgets all objects. */
void live_forget(void);

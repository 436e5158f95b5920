/* The live objects of the program, found by any address inside them.

   Job: from an address to the object that holds it. Not its job: who acquires and releases (accesses.h).
   Invariants: of two objects that overlap (the release of one was not seen yet) the one that begins later holds an
   address. A release at an address that was handed out again before it is that of the older object: a realloc's release
   is told after its call, and meanwhile another thread may have got the address. Memory is 16 bytes for each OS page
   that holds part of an object, some 2 KiB for each in which one begins, and 24 bytes for each object. */
#ifndef OBSERVE_VALGRIND_LIVE_H
#define OBSERVE_VALGRIND_LIVE_H

#include <pub_tool_basics.h>

struct live_object {
  Addr start;
  SizeT bytes; /* the request, at least 1, rounded up to a whole granule */
  ULong number;
};

void live_begin(void);

/* An object at that address was handed out. */
void live_acquire(Addr address, SizeT bytes, ULong number);

/* The object at that address was released; nothing if there is none. */
void live_release(Addr address);

/* The object that holds that byte, or NULL; valid until the next acquire or release. */
const struct live_object *live_owner(Addr address);

/* No object is known any more. */
void live_forget(void);

#endif

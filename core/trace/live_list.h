/* SPDX-License-Identifier: MIT */
/* The live objects of a block in order of their acquires, and cursors into that list. An archive's rows use both to
   name the object that is passed in (FORMAT.md section 4b). Writer and reader keep the same list.

   Invariants: acquires are numbered from 0; an object that is not live is in no link and at no cursor's place. Each
   function takes a bounded number of steps. The caller owns the memory. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Measured (docs/measurements/capture.md): with two cursors perl's rows take 6 % more bytes; with eight, jq's take 8 %
   less, but those of gs, git and perl 1 % more. */
enum { LIVE_CURSORS = 4, LIVE_STEPS = 4, LIVE_NEWEST = 8 };

/* Codes of references. */
enum {
  LIVE_CODE_STORED = 0,                              /* the address is stored: it is not of an acquire of this block */
  LIVE_CODE_NEWEST = 1,                              /* plus how many objects are newer */
  LIVE_CODE_CURSOR = LIVE_CODE_NEWEST + LIVE_NEWEST, /* plus 8 x cursor, plus 2 x steps, plus 1 towards the older */
  LIVE_CODE_FAR = LIVE_CODE_CURSOR + LIVE_CURSORS * 2 * LIVE_STEPS, /* the acquire's number is in column 19 */
};

struct live_links {
  uint32_t older, newer; /* node of acquire n: n + 1; node 0 is the end in both directions */
};

struct live_list {
  struct live_links *nodes;
  uint32_t acquired;
  struct live_cursor {
    uint32_t newer;  /* the cursor's place: it is on the older side of this node; 0: all nodes are older */
    uint32_t number; /* the acquire that was referred to */
  } cursors[LIVE_CURSORS];
};

struct live_reference {
  uint64_t code;
  uint64_t far; /* only of LIVE_CODE_FAR */
};

/* Empties the list. nodes: room for one more than the list will have acquires; must outlive the list. */
void live_list_begin(struct live_list *list, struct live_links *nodes);

/* Adds the next acquire. */
void live_list_acquire(struct live_list *list);

/* Returns how to refer to an acquire. Precondition: number < acquired. */
struct live_reference live_list_name(const struct live_list *list, uint32_t number);

/* Finds the acquire of a reference with a code other than LIVE_CODE_STORED; false if there is none. */
bool live_list_find(const struct live_list *list, struct live_reference reference, uint32_t *number);

/* Updates list and cursors after the event that refers to this acquire by this code. releases: the event releases the
   object. */
void live_list_refer(struct live_list *list, uint64_t code, uint32_t number, bool releases);

/* SPDX-License-Identifier: MIT */
/* Call stacks: finds, in the host and during the call, the node of the tree (stack_area.h) for the call's stack.

   Job: walking, remembering the thread's last walk, making nodes. Not its job: records, and what the addresses mean
   (stacks.h, in the recorder). Invariants: reads no memory but the stack on which it is called, within the bounds of
   its mapping, so that a wrong rule or frame pointer gives a wrong or short stack and never a fault; takes no lock of
   the host, allocates only its own OS pages, keeps errno. Precondition: the thread's call did not interrupt another
   call of stack_take, as a call in a signal handler may. */
#pragma once

#include "capture/wire/stack_area.h"
#include "core/unwind/unwind_rules.h"

#include <stdbool.h>
#include <stdint.h>

/* A thread's last walk; of one thread at a time, mapped on first use, wiped in a fork child. */
struct stack_memo;

/* Set when the process attaches. area NULL: no stacks are wanted. */
struct stack_settings {
  struct stack_area *area;
  uint32_t depth;  /* frames, at most STACK_DEPTH_MAX */
  uint32_t unwind; /* enum stack_unwind */
};
extern struct stack_settings stack_settings;

/* The node of the stack whose innermost frame is that of caller, a return address; that frame is among the last few.
   hook: __builtin_frame_address(0) of the function that returns there; where it is NULL, or another function's, the
   frame is searched. 0: the stack could not be taken, which is counted in the area. */
uint32_t stack_take(struct stack_memo **memo, const void *caller, const void *hook);

/* Called by a thread of which it is known that no call of stack_take is running: undoes what one that a handler has
   left by longjmp holds. Cheap. */
void stack_let_go(void);

/* May stack_take walk by libunwind, which libunwind.c loads? It may lock and allocate: then the caller blocks
   signals, and ignores calls that the thread makes meanwhile, which are not the program's. */
static inline bool stack_is_unwound(void) {
  return stack_settings.unwind == UNWIND_LIBUNWIND;
}

/* Unmaps its memory; memo may be NULL. */
void stack_memo_free(struct stack_memo *memo);

/* Called when another thread takes the memo over: forgets the previous thread's walks. */
void stack_memo_reset(struct stack_memo *memo);

/* Waits until the collector has read the stacks in the rings, so that it reads their modules while these are mapped. At
   most 0.1 s, and not at all where the recording may not wait. Keeps errno. */
void stack_wait_for_collector(void);

/* How the library that walks stacks in our place registers itself (libunwind.c, record --unwind libunwind): once, by
   its constructor; walks before that use our own rules. */

/* Writes the instructions of the stack's frames, innermost first, at most `most`, and returns their number. The first
   is its caller's or one further in. It may lock and allocate: called with signals blocked. */
typedef uint32_t stack_unwinder(uintptr_t *instructions, uint32_t most);

/* Exported by libheaptape.so; a null pointer elsewhere. NULL: it cannot walk, which is printed. */
__attribute__((weak, visibility("default"))) void heaptape_lib_set_unwinder(stack_unwinder *unwinder);

/* Call stacks: which node of the tree is the stack of a call (stack_area.h), found in the host, at the call.

   Job: walking, remembering the thread's last walk, making nodes. Not its job: records (producer.h), what the addresses
   mean (modules.h, in the recorder). Invariants: reads no memory but the stack on which it is called, within the bounds
   of its mapping, so a wrong rule or frame pointer gives a wrong or short stack and never a fault; takes no lock of the
   host's, allocates only its own pages, keeps errno. Not for a handler that interrupted a call of its own thread: the
   caller sees to that. */
#ifndef CAPTURE_HOST_STACKS_STACK_H
#define CAPTURE_HOST_STACKS_STACK_H

#include "capture/wire/stack_area.h"

#include <stdbool.h>
#include <stddef.h>

/* Of one thread at a time; mapped on first use, wiped in a fork child. */
struct stack_memo;

/* The process's tree, from when it attached. NULL: no stacks are wanted. */
struct stack_settings {
  struct stack_area *area;
  uint32_t depth;  /* frames, at most STACK_DEPTH_MAX */
  uint32_t unwind; /* enum stack_unwind */
};
extern struct stack_settings stack_settings;

/* The node of the stack whose innermost frame goes on at that return address: one of the last few calls before this
   one. hook: __builtin_frame_address(0) of the function that was called from there, if it is known; NULL, or another's:
   that frame is looked for. 0: the stack can't be had; that is counted in the area. */
uint32_t stack_take(struct stack_memo **memo, const void *caller, const void *hook);

/* Another thread takes the memo over: what it remembers of stacks no longer holds. */
void stack_memo_reset(struct stack_memo *memo);

/* Waits until the collector has told of the stacks in the rings, so while the modules are mapped that they lie in; not
   for ever, and not where the recording may not wait. Keeps errno. */
void stack_wait_for_collector(void);

#endif

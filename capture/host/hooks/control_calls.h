/* SPDX-License-Identifier: MIT */
/* The hooks of control calls: the program sets its allocator up, or asks it for something (calls.def).

   Job: make the real call, and record it after that. The call is made as if there were no hook: what it acquires
   (malloc_info's file a buffer) is the program's. Not its job: finding references to the functions (libraries.c).
   Invariants: a call that an allocator makes inside another is not recorded; rare calls, so each is recorded in the
   slow form, with a stamp of its own. errno stays as the real call left it. */
#pragma once

#include "capture/host/producer.h"

#include <stdbool.h>
#include <stddef.h>

/* A function and its hook. The real one: NULL where no object with which the program began has it. */
enum control_kind { CONTROL_LIBC, CONTROL_ALLOCATOR, CONTROL_VIRTUAL }; /* control_calls.def */
struct control_function {
  const char *name;
  void *hook, *real;
  enum control_kind kind;
};

/* All hooked functions, looked up at the first call. */
extern const size_t control_function_count;
struct control_function *control_functions(void);

/* Around the real call: it begins, and returns what control_called is given as `began`; it has returned, and whether it
   was the program's. Then records it. frame: of the program's code that called it. */
uint64_t control_begins(void);
bool control_ends(void);
void control_called(uint8_t id, struct hook_sizes sizes, uint64_t began, const void *caller, uintptr_t frame);

/* In libraries.c: changes the references of the objects with which the program began to functions whose hooks are not
   exported; an allocator's own references stay, but for those to virtual functions. */
void libraries_redirect_controls(void);

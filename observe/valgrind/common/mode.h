/* SPDX-License-Identifier: GPL-2.0-only */
/* A mode of the tool: what it does with a program that runs. main.c knows none by name but the default: a mode is
   registered by being linked.

   Invariants: one mode is chosen before the program begins. A function that a mode does not need is NULL. Which side
   runs, and which code is an allocator's (allocator.h, objects.h), is kept up to date for all of them, before they are
   called. */
#pragma once

#include "observe/valgrind/common/tool.h"

#include <pub_tool_libcprint.h>

struct mode {
  const HChar *name;
  const HChar *summary; /* for --help, as `options` */
  const HChar *options; /* lines of it; NULL: none */

  /* Takes one of the options; of any mode, as the chosen one is not known yet. False: it is none of its own. */
  Bool (*take_option)(const HChar *option);
  const HChar *(*begin)(void); /* returns NULL, or why it can't */
  IRSB *(*instrument)(IRSB *in, const struct translation *translation);

  /* At the process's end, or before it executes another program; then the keys of its result. NULL: it has none. */
  void (*end)(Bool before_exec);
  void (*write)(VgFile *file);

  void (*runs)(ThreadId thread); /* its code runs from now on */
  void (*stops)(void);           /* none does */
  void (*thread_ends)(ThreadId thread);
  void (*in_fork_child)(void);
  UWord (*answer)(UWord request, const UWord *arguments); /* core/system/valgrind_requests.h; 0: not accepted */
  void (*syscall)(UInt number);                           /* it begins */

  /* OS pages of the program are unmapped or will be newly mapped; its data segment has grown; mremap. */
  void (*gives_back)(Addr address, SizeT bytes);
  void (*grows)(Addr address, SizeT bytes);
  void (*moves)(Addr from, Addr to, SizeT bytes);
};

/* Behind the definition of a mode. */
#define REGISTER_MODE(one)                                                                                             \
  __attribute__((used, section("tool_modes"))) static const struct mode *const entry_##one = &one

/* Made where nothing else was asked for (count.c). */
extern const struct mode mode_count;

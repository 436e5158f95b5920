/* SPDX-License-Identifier: GPL-2.0-only */
/* Mode calls: records the calls of a static program's allocator, whose functions the recorder has found by their
   symbols (capture/wire/linked.h).

   Job: when such a function is called and returns, in any thread, and the records of that call. Of nested calls only
   the outermost is recorded, as by libheaptape.so; calls by a signal's handler inside a call count as nested. A
   function that is left by an exception has acquired nothing; so has an operator that calls a new-handler which calls
   the allocator, whose own next call is an event. */
#pragma once

#include "observe/valgrind/common/tool.h"

/* Reads the list of functions. False: it can't be read. */
Bool calls_open(const HChar *path);

IRSB *calls_instrument(IRSB *in, const struct translation *translation);

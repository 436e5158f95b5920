/* SPDX-License-Identifier: MIT */
/* How the library came into the program: preloaded (libheaptape.so), or loaded into a running program
   (libheaptape-attach.so), where the recorder redirects references to our hooks and provides the real functions.

   The two libraries differ only in this module: redirected_by_preload.c and redirected_by_attach.c. Not its job:
   finding and writing references (capture/redirect). Invariant: the answer is the same at all times.
   Async-signal-safe. */
#pragma once

#include "capture/wire/redirect.h"

/* The table, in which the recorder has written the real functions; NULL: the library was preloaded. */
struct redirect_table *redirected_table(void);

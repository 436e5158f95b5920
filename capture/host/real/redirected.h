/* SPDX-License-Identifier: MIT */
/* How the library came into the program: preloaded (libheaptape.so), or brought into a program that ran
   (libheaptape-attach.so), where the recorder redirects references to our hooks and tells us the real functions.

   The two libraries differ in this module alone: redirected_by_preload.c and redirected_by_attach.c. Not its job:
   finding and writing references (capture/recorder/redirect). Invariant: the answer is the same at all times.
   Async-signal-safe. */
#pragma once

#include "capture/wire/redirect.h"

/* The table, in which the recorder has written the real functions; NULL: the library was preloaded. */
struct redirect_table *redirected_table(void);

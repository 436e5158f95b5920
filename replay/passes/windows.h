/* SPDX-License-Identifier: MIT */
/* Edges of windows, in the engine: positions between which the passes instructions and misses count.

   Job: have our Valgrind tool take a snapshot (observe/valgrind) when the replay has reached such a position. Not its
   job: what is in it. Under ORDER_RECORDED only: one thread runs at a time, and turns follow the recorded order. */
#pragma once

#include "replay/engine/result.h"

/* edges must stay valid, and may be empty. Call right before the first op, while no thread runs ops. */
void windows_begin(const struct window_edges *edges);

/* Call after each op, from the thread that has the turn. */
void windows_after_op(void);

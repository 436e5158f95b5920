/* SPDX-License-Identifier: MIT */
/* Edges of windows, in the engine: positions between which the passes instructions and misses count.

   Job: have our Valgrind tool take a snapshot (observe/valgrind) when the replay has come to such a position. Not its
   job: what is in it. Under ORDER_RECORDED alone: one thread runs at a time, and the turn is handed on in order. */
#pragma once

#include "replay/state/result.h"

/* edges: must stay; may be none. Right before the first op, while no thread runs ops. */
void windows_begin(const struct window_edges *edges);

/* An op is over. By whoever has the turn. */
void windows_after_op(void);

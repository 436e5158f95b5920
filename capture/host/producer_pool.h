/* SPDX-License-Identifier: MIT */
/* The process's producers: memory and rings for them, and those whose threads have ended.

   Not its job: which one is the calling thread's (producer.h). Invariant: a producer keeps its ring forever. The caller
   locks the process. May change errno. */
#pragma once

#include "capture/host/process.h"
#include "capture/host/producer_state.h"

/* The producer of a thread that has ended, among the next `looks` producers; NULL: there is none. me: the calling
   thread's id. */
struct producer *producer_pool_find_dead(struct process *process, uint32_t looks, int me);

/* A new producer with its ring, not owned yet; NULL: there is no more memory, or no ring. */
struct producer *producer_pool_add(struct process *process);

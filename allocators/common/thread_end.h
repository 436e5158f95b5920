/* SPDX-License-Identifier: MIT */
/* The end of a thread: when the allocator takes back what the thread has. */
#pragma once

/* on_end runs in each thread that called thread_end_watch, as the thread ends. Destructors of other libraries may run
   after it, and call malloc and free. Call this before anything else here. */
void thread_end_setup(void (*on_end)(void *unused));

/* Registers the calling thread's end. May call calloc, so the thread's state must be complete already. */
void thread_end_watch(void);

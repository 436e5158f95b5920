/* SPDX-License-Identifier: MIT */
/* The end of a thread: when the allocator takes back what the thread has. */
#pragma once

/* on_end runs in each thread that called thread_end_watch, as it ends. Destructors of other libraries may run after it,
   and call malloc and free. Before the first call of anything else here. */
void thread_end_setup(void (*on_end)(void *unused));

/* Registers the calling thread's end. May call calloc, so the thread must have what it needs already. */
void thread_end_watch(void);

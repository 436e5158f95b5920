/* SPDX-License-Identifier: MIT */
/* An allocator that costs next to nothing, to measure the engine itself: a bump through reserved address space that
   nothing ever touches, and frees that do nothing.

   Invariants: thread-safe (each thread bumps its own region); addresses are aligned as requested, to 16 bytes
   otherwise, and repeat once a region is used up; accessing them faults. Never fails after setup. */
#pragma once

#include <stddef.h>

/* Reserves the address space. Call once, first. Returns 0, or -1 with errno set. */
int null_allocator_setup(void);

void *null_malloc(size_t size_bytes);
void null_free(void *pointer);
void *null_calloc(size_t count, size_t size_bytes);
void *null_realloc(void *pointer, size_t size_bytes);
void *null_memalign(size_t alignment_bytes, size_t size_bytes);
int null_posix_memalign(void **out, size_t alignment_bytes, size_t size_bytes);

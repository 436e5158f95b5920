/* SPDX-License-Identifier: MIT */
/* All buckets, and which of them a thread has.

   There are as many shared ones as the tunable `buckets` says, by default two for each processor, rounded up to a power
   of two; a thread has the one that its number gives, modulo their count. Under exclusive=1 there are as many again
   that belong to one thread each: to those whose number is below that count. They take no parent lock. */
#pragma once

#include "allocators/bucket/heap/bucket.h"

#include <stdio.h>

struct thread {
  struct bucket *bucket; /* NULL: none yet */
  int number;
  bool watched; /* its end will be seen */
};

extern __thread struct thread thread __attribute__((tls_model("initial-exec"))) HIDDEN;

/* Gives the thread a number and a bucket. NULL: no memory for buckets. */
struct bucket *buckets_attach(void);

/* The calling thread's bucket. */
static inline struct bucket *bucket_mine(void) {
  return LIKELY(thread.bucket != NULL) ? thread.bucket : buckets_attach();
}

/* Sees to it that the thread's end is seen: for its counts, though it may only free. No lock may be held: this may
   allocate. */
void buckets_watch_end(void);

/* As the thread ends: gives back its number. Its last calls are served from a shared bucket. */
void buckets_detach(void);

/* Calls visit for each cache of each bucket, bucket by bucket, under the parent lock of those that are shared. */
void buckets_each_cache(bucket_visit *visit, void *context);

/* A line for each bucket that has caches: part of malloc_info. */
void buckets_print(FILE *stream);

/* Before the first call of anything else here. */
void buckets_setup(void);

/* Around a fork. */
void buckets_lock(void);
void buckets_unlock(void);
void buckets_after_fork(void);

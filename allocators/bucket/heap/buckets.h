/* SPDX-License-Identifier: MIT */
/* All buckets, and which of them a thread uses.

   The number of shared buckets is the tunable `buckets`, by default two for each processor, rounded up to a power of
   two; a thread uses the bucket of its number modulo this count. Under exclusive=1 there are as many additional buckets
   that belong to one thread each: to threads with a number below that count, which take no parent lock. */
#pragma once

#include "allocators/bucket/heap/bucket.h"

#include <stdio.h>

struct thread {
  struct bucket *bucket; /* NULL: none yet */
  int number;
  bool watched; /* its end will be detected */
};

extern __thread struct thread thread __attribute__((tls_model("initial-exec"))) HIDDEN;

/* Gives the thread a number and a bucket. NULL: no memory for buckets. */
struct bucket *buckets_attach(void);

/* Returns the calling thread's bucket. */
static inline struct bucket *bucket_mine(void) {
  return LIKELY(thread.bucket != NULL) ? thread.bucket : buckets_attach();
}

/* Makes sure that the thread's end is detected: for its counts, even if it only frees. No lock may be held, as this may
   allocate. */
void buckets_watch_end(void);

/* Call as the thread ends: gives back its number. Its last calls are served from a shared bucket. */
void buckets_detach(void);

/* Calls visit for each cache of each bucket, bucket by bucket, under the parent lock where the bucket is shared. */
void buckets_each_cache(bucket_visit *visit, void *context);

/* Prints a line for each bucket that has caches: part of malloc_info. */
void buckets_print(FILE *stream);

/* Call before anything else here. */
void buckets_setup(void);

/* Call around a fork. */
void buckets_lock(void);
void buckets_unlock(void);
void buckets_after_fork(void);

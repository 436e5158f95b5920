/* SPDX-License-Identifier: MIT */
#include "allocators/bucket/heap/buckets.h"

#include "allocators/bucket/base/locks.h"
#include "allocators/bucket/base/numbers.h"
#include "allocators/bucket/base/system.h"

#include "allocators/common/startup.h"
#include "allocators/common/thread_end.h"

#include <sched.h>

__thread struct thread thread = {.number = NO_NUMBER};

static struct bucket *shared, *owned;
static unsigned shared_count, owned_count;
static bool fork_among_threads;

/* Returns the number of processors on which this process may run. Not sysconf, which opens files and may allocate. */
static unsigned processors(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static unsigned standard_count(void) {
  unsigned count = 1;
  while (count < 2 * processors())
    count *= 2;
  return count;
}

void buckets_setup(void) {
  shared_count = tunables.buckets ? (unsigned)tunables.buckets : standard_count();
  owned_count = tunables.exclusive ? shared_count : 0;
  shared = system_own((shared_count + owned_count) * sizeof *shared);
  if (!shared)
    return;
  owned = shared + shared_count;
  for (unsigned index = 0; index < owned_count; index++)
    owned[index].own = true;
}

struct bucket *buckets_attach(void) {
  startup();
  if (UNLIKELY(!shared))
    return NULL;
  int number = number_take();
  thread.number = number;
  thread.bucket = (unsigned)number < owned_count ? &owned[number] : &shared[(unsigned)number % shared_count];
  buckets_watch_end();
  return thread.bucket;
}

void buckets_watch_end(void) {
  if (thread.watched)
    return;
  thread.watched = true;
  thread_end_watch();
}

void buckets_detach(void) {
  int number = thread.number;
  thread.bucket = shared;
  thread.number = NO_NUMBER;
  number_give_back(number);
}

void buckets_each_cache(bucket_visit *visit, void *context) {
  if (!shared)
    return;
  for (unsigned index = 0; index < shared_count + owned_count; index++) {
    struct bucket *bucket = &shared[index];
    if (!bucket->own)
      LOCK_TAKE_AS(parent, &bucket->lock);
    bool all = bucket_each_cache(bucket, visit, context);
    if (!bucket->own)
      lock_drop(&bucket->lock);
    if (!all)
      return;
  }
}

static bool count_cache(struct cache *cache, void *count) {
  (void)cache;
  ++*(unsigned *)count;
  return true;
}

void buckets_print(FILE *stream) {
  for (unsigned index = 0; shared && index < shared_count + owned_count; index++) {
    unsigned caches = 0;
    bucket_each_cache(&shared[index], count_cache, &caches);
    if (caches)
      fprintf(stream, "<bucket nr=\"%u\" own=\"%d\" caches=\"%u\"/>\n", index, shared[index].own, caches);
  }
}

void buckets_lock(void) {
  fork_among_threads = threads_may_run();
  numbers_lock();
  for (unsigned index = 0; index < shared_count; index++)
    lock_take(&shared[index].lock);
  system_lock();
}

void buckets_unlock(void) {
  system_unlock();
  for (unsigned index = 0; index < shared_count; index++)
    lock_drop(&shared[index].lock);
  numbers_unlock();
}

void buckets_after_fork(void) {
  system_after_fork();
  numbers_after_fork(thread.number);
  for (unsigned index = 0; fork_among_threads && index < shared_count + owned_count; index++)
    bucket_after_fork(&shared[index]);
}

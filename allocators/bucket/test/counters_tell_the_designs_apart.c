/* SPDX-License-Identifier: MIT */
/* The exact cost of a pair of malloc and free in locks and atomic operations under each switch; and which threads own a
   bucket. */
#include "allocators/common/entry.h"
#include "allocators/test/counted.h"
#include "core/test/usual.h"

enum { PAIRS = 1000 };

/* The cost of PAIRS calls of malloc and free. */
struct cost {
  uint64_t parent_locks, cache_locks, oversize_locks, atomics;
};

static struct cost all_so_far(void) {
  return (struct cost){counted("parent_locks"), counted("cache_locks"), counted("oversize_locks"), counted("atomics")};
}

static void make_pairs(size_t object_bytes) {
  for (int pair = 0; pair < PAIRS; pair++)
    allocator_free(allocator_malloc(object_bytes));
}

static struct cost cost_of_pairs(size_t object_bytes) {
  allocator_free(allocator_malloc(object_bytes)); /* gives the thread a bucket, and maps what is needed */
  struct cost before = all_so_far();
  make_pairs(object_bytes);
  struct cost after = all_so_far();
  return (struct cost){after.parent_locks - before.parent_locks, after.cache_locks - before.cache_locks,
                       after.oversize_locks - before.oversize_locks, after.atomics - before.atomics};
}

static void *run_pairs(void *cost) {
  *(struct cost *)cost = cost_of_pairs(24);
  return NULL;
}

/* In a new thread, the second that allocates. */
static struct cost cost_in_thread(void) {
  struct cost cost;
  pthread_t thread;
  allocator_free(allocator_malloc(24)); /* this thread is the first */
  if (pthread_create(&thread, NULL, run_pairs, &cost) != 0)
    exit(2);
  pthread_join(thread, NULL);
  return cost;
}

static bool is_cost(const char *what, struct cost cost, const uint64_t per_pair[4]) {
  const uint64_t *have = (const uint64_t *)&cost;
  static const char *const names[] = {"parent locks", "cache locks", "oversize locks", "atomic operations"};
  bool right = true;
  for (int index = 0; index < 4; index++)
    if (have[index] != per_pair[index] * PAIRS) {
      fprintf(stderr, "%s: %lu %s, not %lu\n", what, have[index], names[index], per_pair[index] * PAIRS);
      right = false;
    }
  return right;
}

/* A lock costs an atomic operation to take and one to drop. In a pair, malloc takes the parent lock; both calls take
   the cache's, or change a bit and a count. */
static const struct {
  const char *tunables, *what;
  uint64_t per_pair[4];
} expected[] = {
    {"cache_lock=mutex", "small", {1, 2, 0, 6}},
    {"cache_lock=atomic", "small", {1, 0, 0, 6}},
    {"exclusive=1:cache_lock=mutex", "small", {0, 2, 0, 4}},
    {"exclusive=1:cache_lock=atomic", "small", {0, 0, 0, 4}},
    {"cache_lock=atomic", "large", {0, 0, 2, 4}},
    {"cache_lock=atomic:max_cached=131072", "large", {1, 0, 0, 6}},
    /* Numbers 0 and 1 own a bucket, whichever thread has number 1. */
    {"exclusive=1:buckets=2", "thread", {0, 0, 0, 4}},
    {"exclusive=1:buckets=2", "second thread", {0, 0, 0, 4}},
    {"exclusive=1:buckets=1", "thread", {1, 0, 0, 6}},
};

static int check(const char *number) {
  size_t index = (size_t)atoi(number);
  const char *what = expected[index].what;
  if (strcmp(what, "second thread") == 0)
    cost_in_thread();
  struct cost cost =
      strstr(what, "thread") ? cost_in_thread() : cost_of_pairs(strcmp(what, "large") == 0 ? 100000 : 24);
  return is_cost(what, cost, expected[index].per_pair) ? 0 : 1;
}

static int check_in_child(char **arguments, size_t index) {
  char tunables[200], number[20];
  snprintf(tunables, sizeof tunables, "single_thread=0:stats=1:%s", expected[index].tunables);
  snprintf(number, sizeof number, "%zu", index);
  return run_under(arguments, tunables, number);
}

int main(int argument_count, char **arguments) {
  if (argument_count > 1)
    return check(arguments[1]);
  int bad = 0;
  for (size_t index = 0; index < sizeof expected / sizeof *expected; index++)
    bad += check_in_child(arguments, index);
  return bad != 0;
}

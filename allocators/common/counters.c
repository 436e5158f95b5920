#include "allocators/common/counters.h"

#include "allocators/common/futex.h"

/* Counts of a thread; in a list so that others can read them. Written by their thread only. */
struct counts {
  uint64_t values[COUNTERS];
  struct counts *next, **place;
  bool listed, ended; /* ended: its counts are in the sum of ended threads */
};

static __thread struct counts mine __attribute__((tls_model("initial-exec")));
static struct counts *listed;
static uint64_t ended[COUNTERS]; /* of threads that have ended */
static struct lock list_lock;

static void enlist(void) {
  lock_take_uncounted(&list_lock);
  mine.next = listed;
  mine.place = &listed;
  if (listed)
    listed->place = &mine.next;
  listed = &mine;
  mine.listed = true;
  lock_drop_uncounted(&list_lock);
}

void counters_add(enum counter counter, uint64_t amount) {
  if (UNLIKELY(mine.ended)) { /* destructors of other libraries still run in this thread */
    __atomic_fetch_add(&ended[counter], amount, __ATOMIC_RELAXED);
    return;
  }
  if (UNLIKELY(!mine.listed))
    enlist();
  __atomic_store_n(&mine.values[counter], mine.values[counter] + amount, __ATOMIC_RELAXED);
}

void counters_end_thread(void) {
  if (!mine.listed)
    return;
  lock_take_uncounted(&list_lock);
  *mine.place = mine.next;
  if (mine.next)
    mine.next->place = mine.place;
  for (int counter = 0; counter < COUNTERS; counter++)
    __atomic_fetch_add(&ended[counter], mine.values[counter], __ATOMIC_RELAXED);
  mine.listed = false;
  mine.ended = true;
  lock_drop_uncounted(&list_lock);
}

void counters_after_fork(void) {
  lock_reset(&list_lock);
  listed = NULL;
  if (!mine.listed)
    return;
  mine.next = NULL;
  mine.place = &listed;
  listed = &mine;
}

void counters_sum(uint64_t sums[COUNTERS]) {
  lock_take_uncounted(&list_lock);
  for (size_t index = 0; index < COUNTERS; index++) {
    sums[index] = __atomic_load_n(&ended[index], __ATOMIC_RELAXED);
    for (const struct counts *counts = listed; counts; counts = counts->next)
      sums[index] += __atomic_load_n(&counts->values[index], __ATOMIC_RELAXED);
  }
  lock_drop_uncounted(&list_lock);
}

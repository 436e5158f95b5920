/* SPDX-License-Identifier: MIT */
#include "convert/history/parking.h"

#include <stdlib.h>
#include <string.h>

bool parking_init(struct parking *parking, uint32_t threads) {
  memset(parking, 0, sizeof *parking);
  memset(parking->buckets, 0xff, sizeof parking->buckets);
  parking->oldest = parking->newest = PARKING_NONE;
  parking->threads = calloc(threads + 1, sizeof *parking->threads);
  return parking->threads != NULL;
}

void parking_free(struct parking *parking) {
  free(parking->threads);
}

static uint32_t *bucket_of(struct parking *parking, uint64_t address) {
  return &parking->buckets[(address * 0x9e3779b97f4a7c15u >> 32) % PARKING_BUCKETS];
}

/* Inserts it into the list by stamp, from the newest end: threads mostly park in the order of their stamps. */
static void list_insert(struct parking *parking, uint32_t number) {
  struct parked_thread *threads = parking->threads, *thread = &threads[number];
  uint32_t older = parking->newest;
  while (older != PARKING_NONE && threads[older].stamp > thread->stamp)
    older = threads[older].older;
  thread->older = older;
  thread->newer = older == PARKING_NONE ? parking->oldest : threads[older].newer;
  *(older == PARKING_NONE ? &parking->oldest : &threads[older].newer) = number;
  *(thread->newer == PARKING_NONE ? &parking->newest : &threads[thread->newer].older) = number;
}

static void list_remove(struct parking *parking, uint32_t number) {
  struct parked_thread *threads = parking->threads, *thread = &threads[number];
  *(thread->older == PARKING_NONE ? &parking->oldest : &threads[thread->older].newer) = thread->newer;
  *(thread->newer == PARKING_NONE ? &parking->newest : &threads[thread->newer].older) = thread->older;
}

void parking_park(struct parking *parking, struct merge *merge, const struct merge_step *step, uint64_t steps_placed) {
  struct parked_thread *thread = &parking->threads[step->thread];
  uint32_t *bucket;
  if (!thread->waited) {
    thread->since = steps_placed;
    thread->waited = true;
    parking->any_flag++;
  }
  thread->wants_live = !step->acquires;
  thread->address = step->acquires ? step->event->acquired : step->event->released;
  thread->stamp = step->stamp;
  thread->woken = false;
  thread->parked = true;
  bucket = bucket_of(parking, thread->address);
  thread->next_in_bucket = *bucket;
  *bucket = step->thread;
  list_insert(parking, step->thread);
  parking->count++;
  merge_park(merge);
}

/* Removes the thread that *link names from its bucket and the list, and returns it to the merge. */
static void unpark(struct parking *parking, struct merge *merge, uint32_t *link) {
  uint32_t number = *link;
  struct parked_thread *thread = &parking->threads[number];
  *link = thread->next_in_bucket;
  list_remove(parking, number);
  thread->parked = false;
  parking->count--;
  merge_resume(merge, number);
}

void parking_wake_slowly(struct parking *parking, struct merge *merge, uint64_t address, bool live, uint64_t stamp) {
  uint32_t *link = bucket_of(parking, address);
  while (*link != PARKING_NONE) {
    struct parked_thread *thread = &parking->threads[*link];
    if (thread->address == address && thread->wants_live == live) {
      thread->woken = true;
      thread->awaited_stamp = stamp;
      unpark(parking, merge, link);
    } else {
      link = &thread->next_in_bucket;
    }
  }
}

bool parking_is_overdue(const struct parking *parking, uint64_t stamp, uint64_t horizon) {
  uint64_t oldest = parking->threads[parking->oldest].stamp;
  return stamp > oldest && stamp - oldest > horizon;
}

void parking_give_up(struct parking *parking, struct merge *merge) {
  uint32_t number = parking->oldest;
  struct parked_thread *thread = &parking->threads[number];
  uint32_t *link = bucket_of(parking, thread->address);
  while (*link != number)
    link = &parking->threads[*link].next_in_bucket;
  thread->forced = true;
  unpark(parking, merge, link);
}

bool parking_is_forced(const struct parking *parking, uint32_t thread) {
  return parking->threads[thread].forced;
}

bool parking_was_woken(const struct parking *parking, uint32_t number, uint64_t *since, uint64_t *awaited_stamp) {
  const struct parked_thread *thread = &parking->threads[number];
  *since = thread->since;
  *awaited_stamp = thread->awaited_stamp;
  return thread->woken && !thread->forced;
}

void parking_clear(struct parking *parking, uint32_t number) {
  struct parked_thread *thread = &parking->threads[number];
  parking->any_flag -= thread->waited;
  thread->waited = thread->woken = thread->forced = false;
}

/* SPDX-License-Identifier: MIT */
#include "convert/history/merge.h"

#include "core/base/assert.h"

#include <stdlib.h>

static inline uint32_t winner_of(const struct merge *merge, uint32_t node) {
  return node >= merge->leaf_count ? node - merge->leaf_count : merge->winners[node];
}

static void replay_node(struct merge *merge, uint32_t node) {
  uint32_t left = winner_of(merge, 2 * node), right = winner_of(merge, 2 * node + 1);
  merge->winners[node] = merge->keys[right] < merge->keys[left] ? right : left;
}

static void find_winner(struct merge *merge) {
  merge->winner = winner_of(merge, 1);
  merge->challenger = MERGE_KEY_NONE;
  for (uint32_t node = merge->winner + merge->leaf_count; node > 1; node /= 2) {
    uint64_t key = merge->keys[winner_of(merge, node ^ 1)];
    if (key < merge->challenger)
      merge->challenger = key;
  }
}

void merge_set_key(struct merge *merge, uint32_t thread, uint64_t key) {
  merge->keys[thread] = key;
  for (uint32_t node = (thread + merge->leaf_count) / 2; node >= 1; node /= 2)
    replay_node(merge, node);
  find_winner(merge);
}

int merge_open(struct merge **out, struct trace_reader *reader, uint32_t thread, const struct merge_lookups *lookups,
               struct error *error) {
  uint32_t threads = trace_reader_summary(reader)->threads;
  struct merge *merge = calloc(1, sizeof *merge);
  *out = merge;
  if (!merge)
    return error_set(error, trace_reader_path(reader), "out of memory");
  merge->lookups = lookups;
  merge->threads_count = threads;
  merge->leaf_count = 1;
  while (merge->leaf_count < threads)
    merge->leaf_count *= 2;
  merge->threads = calloc(merge->leaf_count, sizeof *merge->threads);
  merge->keys = calloc(merge->leaf_count, sizeof *merge->keys);
  merge->winners = calloc(merge->leaf_count, sizeof *merge->winners);
  if (!merge->threads || !merge->keys || !merge->winners || read_ahead_open(&merge->ahead, reader, error) != 0) {
    merge_close(merge);
    *out = NULL;
    return error_set(error, trace_reader_path(reader), "out of memory");
  }
  for (uint32_t i = 0; i < merge->leaf_count; i++) {
    bool wanted =
        i < threads && (thread == MERGE_ALL_THREADS || thread == i) && trace_reader_thread_events(reader, i) > 0;
    uint64_t stamp = wanted ? trace_reader_thread_first_stamp(reader, i) : MERGE_KEY_NONE;
    merge->threads[i].step = (struct merge_step){.stamp = stamp, .thread = i};
    merge->keys[i] = wanted ? merge_key_of(stamp) : MERGE_KEY_NONE;
  }
  for (uint32_t node = merge->leaf_count - 1; node >= 1; node--)
    replay_node(merge, node);
  find_winner(merge);
  return 0;
}

void merge_close(struct merge *merge) {
  if (!merge)
    return;
  read_ahead_close(merge->ahead);
  free(merge->threads);
  free(merge->keys);
  free(merge->winners);
  free(merge);
}

/* The thread's events in memory are used up: gets more. Returns 1, 0 if it has ended, -1 on error. */
static int refill(struct merge *merge, uint32_t number) {
  struct merge_thread *thread = &merge->threads[number];
  int got = read_ahead_next(merge->ahead, number, &thread->ahead);
  if (got <= 0) {
    merge_rekey(merge, number, MERGE_KEY_NONE);
    return got;
  }
  for (int i = 0; merge->lookups && i < MERGE_PREFETCH_DISTANCE && i < thread->ahead.end - thread->ahead.at; i++)
    merge_prefetch_entries(merge->lookups->map, thread->ahead.at + i);
  return 1;
}

/* Moves to the thread's next event. Returns 1, 0 if it has ended, -1 on error. */
static int load(struct merge *merge, uint32_t number) {
  struct merge_thread *thread = &merge->threads[number];
  int got = thread->ahead.at == thread->ahead.end ? refill(merge, number) : 1;
  if (got > 0)
    merge_take_event(merge, number);
  return got;
}

int merge_begin_threads(struct merge *merge) {
  while (merge->keys[merge->winner] != MERGE_KEY_NONE) {
    struct merge_thread *thread = &merge->threads[merge->winner];
    if (thread->loaded)
      return 1;
    thread->loaded = true;
    if (read_ahead_begin(merge->ahead, merge->winner) != 0 || load(merge, merge->winner) < 0)
      return -1;
  }
  return 0;
}

int merge_advance_slowly(struct merge *merge) {
  uint32_t number = merge->current;
  struct merge_step *step = &merge->threads[number].step;
  if (step->is_last)
    return load(merge, number);
  step->acquires = step->is_last = true; /* the second step of the same event */
  HT_ASSERT(step->event->acquire_stamp >= step->stamp);
  step->stamp = step->event->acquire_stamp;
  merge_rekey(merge, number, merge_key_of(step->stamp));
  return 1;
}

void merge_park(struct merge *merge) {
  merge_set_key(merge, merge->current, MERGE_KEY_NONE);
}

void merge_resume(struct merge *merge, uint32_t thread) {
  merge_set_key(merge, thread, merge_key_of(merge->threads[thread].step.stamp));
}

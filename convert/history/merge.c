#include "convert/history/merge.h"

#include "convert/history/read_ahead.h"
#include "core/base/assert.h"

#include <stdlib.h>

/* A key above all stamps: the thread is parked or has ended. A real stamp of that value counts as one less. */
#define KEY_NONE UINT64_MAX

/* How far ahead in a thread's events the map's entries are fetched into the cache, and then the slots they name. */
enum { PREFETCH_DISTANCE = 8, PREFETCH_SLOT_DISTANCE = 4 };

struct merge_thread {
  struct merge_step step; /* the one to come; before the first event is loaded, its stamp is a lower bound */
  struct event_span ahead; /* the events after step.event that are here */
  bool loaded;
};

struct merge {
  struct read_ahead *ahead;
  const struct merge_lookups *lookups; /* NULL: none */
  struct merge_thread *threads;
  uint64_t *keys;    /* leaves: stamp of each thread, KEY_NONE if it is out; leaf_count of them */
  uint32_t *winners; /* [1] is the tree's root, children of i are 2 i and 2 i + 1; leaves follow the inner nodes */
  uint32_t threads_count, leaf_count;
  uint32_t winner;     /* thread with the lowest key */
  uint32_t current;    /* thread of the step that merge_peek gave; others may come back below it before it is passed */
  uint64_t challenger; /* lowest key among all threads but the winner */
};

static inline uint32_t winner_of(const struct merge *merge, uint32_t node) {
  return node >= merge->leaf_count ? node - merge->leaf_count : merge->winners[node];
}

static void replay_node(struct merge *merge, uint32_t node) {
  uint32_t left = winner_of(merge, 2 * node), right = winner_of(merge, 2 * node + 1);
  merge->winners[node] = merge->keys[right] < merge->keys[left] ? right : left;
}

static void find_winner(struct merge *merge) {
  merge->winner = winner_of(merge, 1);
  merge->challenger = KEY_NONE;
  for (uint32_t node = merge->winner + merge->leaf_count; node > 1; node /= 2) {
    uint64_t key = merge->keys[winner_of(merge, node ^ 1)];
    if (key < merge->challenger)
      merge->challenger = key;
  }
}

static void set_key(struct merge *merge, uint32_t thread, uint64_t key) {
  merge->keys[thread] = key;
  for (uint32_t node = (thread + merge->leaf_count) / 2; node >= 1; node /= 2)
    replay_node(merge, node);
  find_winner(merge);
}

static uint64_t key_of(uint64_t stamp) {
  return stamp == KEY_NONE ? KEY_NONE - 1 : stamp;
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
    uint64_t stamp = wanted ? trace_reader_thread_first_stamp(reader, i) : KEY_NONE;
    merge->threads[i].step = (struct merge_step){.stamp = stamp, .thread = i};
    merge->keys[i] = wanted ? key_of(stamp) : KEY_NONE;
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

/* Gives the thread its new key; the tree is only touched when the thread is not the winner before and after. */
static inline void rekey(struct merge *merge, uint32_t thread, uint64_t key) {
  if (key < merge->challenger && merge->winner == thread)
    merge->keys[thread] = key;
  else
    set_key(merge, thread, key);
}

static void prefetch_entries(const struct address_map *map, const struct trace_event *event) {
  if (event->released)
    __builtin_prefetch(&map->entries[address_map_home(map, event->released)], 1);
  if (event->acquired)
    __builtin_prefetch(&map->entries[address_map_home(map, event->acquired)], 1);
}

static void prefetch_slot(const struct merge_lookups *lookups, const struct trace_event *event) {
  const struct address_entry *entry = &lookups->map->entries[address_map_home(lookups->map, event->released)];
  if (event->released && entry->address == event->released)
    __builtin_prefetch(&lookups->slots->at[entry->slot], 1);
}

/* What the events to come will need, so far as they are here. */
static inline void prefetch(const struct merge_lookups *lookups, const struct event_span *ahead) {
  if (ahead->end - ahead->at <= PREFETCH_DISTANCE)
    return;
  prefetch_entries(lookups->map, ahead->at + PREFETCH_DISTANCE);
  prefetch_slot(lookups, ahead->at + PREFETCH_SLOT_DISTANCE);
}

/* The thread's events that are here are done with: gets more. 1, 0 if it has ended, -1 on error. */
static int refill(struct merge *merge, uint32_t number) {
  struct merge_thread *thread = &merge->threads[number];
  int got = read_ahead_next(merge->ahead, number, &thread->ahead);
  if (got <= 0) {
    rekey(merge, number, KEY_NONE);
    return got;
  }
  for (int i = 0; merge->lookups && i < PREFETCH_DISTANCE && i < thread->ahead.end - thread->ahead.at; i++)
    prefetch_entries(merge->lookups->map, thread->ahead.at + i);
  return 1;
}

/* Moves on to the thread's next event. 1, 0 if it has ended, -1 on error. */
static inline int load(struct merge *merge, uint32_t number) {
  struct merge_thread *thread = &merge->threads[number];
  if (__builtin_expect(thread->ahead.at == thread->ahead.end, 0)) {
    int got = refill(merge, number);
    if (got <= 0)
      return got;
  }
  const struct trace_event *event = thread->ahead.at;
  if (merge->lookups)
    prefetch(merge->lookups, &thread->ahead);
  thread->ahead.at++;
  struct merge_step *step = &thread->step;
  step->event = event;
  step->traits = trace_event_traits(event);
  step->acquires = (step->traits & EVENT_TWO_STEPS) == EVENT_ACQUIRES;
  uint64_t stamp = step->traits & EVENT_TAKES ? event->release_stamp : event->acquire_stamp;
  HT_ASSERT(stamp >= step->stamp);
  step->stamp = stamp;
  rekey(merge, number, key_of(stamp));
  return 1;
}

/* Loads the first event of the winner, until one that is loaded wins. As merge_peek. */
static __attribute__((noinline)) int begin_threads(struct merge *merge) {
  while (merge->keys[merge->winner] != KEY_NONE) {
    struct merge_thread *thread = &merge->threads[merge->winner];
    if (thread->loaded)
      return 1;
    thread->loaded = true;
    if (read_ahead_begin(merge->ahead, merge->winner) != 0 || load(merge, merge->winner) < 0)
      return -1;
  }
  return 0;
}

int merge_peek(struct merge *merge, const struct merge_step **step) {
  if (__builtin_expect(merge->keys[merge->winner] == KEY_NONE || !merge->threads[merge->winner].loaded, 0)) {
    int got = begin_threads(merge);
    if (got <= 0)
      return got;
  }
  merge->current = merge->winner;
  *step = &merge->threads[merge->current].step;
  return 1;
}

int merge_advance(struct merge *merge) {
  uint32_t number = merge->current;
  struct merge_step *step = &merge->threads[number].step;
  if (merge_step_is_last(step))
    return load(merge, number);
  step->acquires = true; /* the second step of the same event */
  HT_ASSERT(step->event->acquire_stamp >= step->stamp);
  step->stamp = step->event->acquire_stamp;
  rekey(merge, number, key_of(step->stamp));
  return 1;
}

void merge_park(struct merge *merge) {
  set_key(merge, merge->current, KEY_NONE);
}

void merge_resume(struct merge *merge, uint32_t thread) {
  set_key(merge, thread, key_of(merge->threads[thread].step.stamp));
}

#include "convert/history/merge.h"

#include "convert/history/read_ahead.h"
#include "core/base/assert.h"

#include <stdlib.h>

/* A key above all stamps: the thread is parked or has ended. A real stamp of that value counts as one less. */
#define KEY_NONE UINT64_MAX

/* How far ahead in a thread's events the map's entries are fetched into the cache, and then the slots they name. */
enum { PREFETCH_DISTANCE = 8, PREFETCH_SLOT_DISTANCE = 4 };

struct merge_thread {
  const struct trace_event *event; /* the present one */
  uint64_t stamp;                  /* of the step to come; before the first event is loaded, a lower bound of it */
  uint8_t traits;                  /* of event */
  bool loaded;
  bool second; /* the step to come is the second one of event */
};

struct merge {
  struct read_ahead *ahead;
  const struct merge_lookups *lookups; /* NULL: none */
  struct merge_thread *threads;
  uint64_t *keys;    /* leaves: stamp of each thread, KEY_NONE if it is out; leaf_count of them */
  uint32_t *winners; /* [1] is the tree's root, children of i are 2 i and 2 i + 1; leaves follow the inner nodes */
  uint32_t threads_count, leaf_count;
  uint32_t current;    /* thread of the step that merge_peek gave; others may come back below it before it is passed */
  uint64_t challenger; /* lowest key among all threads but the winner */
  uint8_t traits[256]; /* by call byte without NULL_OUT */
};

static inline uint32_t winner_of(const struct merge *merge, uint32_t node) {
  return node >= merge->leaf_count ? node - merge->leaf_count : merge->winners[node];
}

static void replay_node(struct merge *merge, uint32_t node) {
  uint32_t left = winner_of(merge, 2 * node), right = winner_of(merge, 2 * node + 1);
  merge->winners[node] = merge->keys[right] < merge->keys[left] ? right : left;
}

static void find_challenger(struct merge *merge) {
  merge->challenger = KEY_NONE;
  for (uint32_t node = winner_of(merge, 1) + merge->leaf_count; node > 1; node /= 2) {
    uint64_t key = merge->keys[winner_of(merge, node ^ 1)];
    if (key < merge->challenger)
      merge->challenger = key;
  }
}

static void set_key(struct merge *merge, uint32_t thread, uint64_t key) {
  merge->keys[thread] = key;
  for (uint32_t node = (thread + merge->leaf_count) / 2; node >= 1; node /= 2)
    replay_node(merge, node);
  find_challenger(merge);
}

static uint64_t key_of(uint64_t stamp) {
  return stamp == KEY_NONE ? KEY_NONE - 1 : stamp;
}

static uint8_t find_traits(const struct trace_event *event) {
  return (uint8_t)((trace_event_takes(event) ? EVENT_TAKES : 0) | (trace_event_releases(event) ? EVENT_RELEASES : 0) |
                   (trace_event_acquires(event) ? EVENT_ACQUIRES : 0));
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
    merge->threads[i].stamp = wanted ? trace_reader_thread_first_stamp(reader, i) : KEY_NONE;
    merge->keys[i] = wanted ? key_of(merge->threads[i].stamp) : KEY_NONE;
  }
  for (uint32_t node = merge->leaf_count - 1; node >= 1; node--)
    replay_node(merge, node);
  find_challenger(merge);
  for (unsigned call = 0; call < CALL_NULL_OUT; call++)
    merge->traits[call] = find_traits(&(struct trace_event){.call = (uint8_t)call});
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
  if (key < merge->challenger && winner_of(merge, 1) == thread)
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

static inline void prefetch(const struct merge *merge, uint32_t number) {
  const struct trace_event *later = read_ahead_peek(merge->ahead, number, PREFETCH_DISTANCE);
  if (!later)
    return;
  prefetch_entries(merge->lookups->map, later);
  prefetch_slot(merge->lookups, read_ahead_peek(merge->ahead, number, PREFETCH_SLOT_DISTANCE));
}

/* The call byte tells all but whether a realloc that gave NULL freed its object: that depends on the size. */
static inline uint8_t traits_of(const struct merge *merge, const struct trace_event *event) {
  return event->call & CALL_NULL_OUT ? find_traits(event) : merge->traits[event->call];
}

/* Moves on to the thread's next event. 1, 0 if it has ended, -1 on error. */
static int load(struct merge *merge, uint32_t number) {
  struct merge_thread *thread = &merge->threads[number];
  int got = read_ahead_next(merge->ahead, number, &thread->event);
  if (got <= 0) {
    rekey(merge, number, KEY_NONE);
    return got;
  }
  if (merge->lookups)
    prefetch(merge, number);
  thread->second = false;
  thread->traits = traits_of(merge, thread->event);
  uint64_t stamp = thread->traits & EVENT_TAKES ? thread->event->release_stamp : thread->event->acquire_stamp;
  HT_ASSERT(stamp >= thread->stamp);
  thread->stamp = stamp;
  rekey(merge, number, key_of(thread->stamp));
  return 1;
}

int merge_peek(struct merge *merge, struct merge_step *step) {
  for (;;) {
    uint32_t number = winner_of(merge, 1);
    struct merge_thread *thread = &merge->threads[number];
    if (merge->keys[number] == KEY_NONE)
      return 0;
    if (!thread->loaded) {
      thread->loaded = true;
      if (read_ahead_begin(merge->ahead, number) != 0 || load(merge, number) < 0)
        return -1;
      continue;
    }
    merge->current = number;
    step->event = thread->event;
    step->thread = number;
    step->stamp = thread->stamp;
    step->traits = thread->traits;
    step->acquires = (thread->traits & EVENT_ACQUIRES) && (thread->second || !(thread->traits & EVENT_RELEASES));
    return 1;
  }
}

int merge_advance(struct merge *merge) {
  uint32_t number = merge->current;
  struct merge_thread *thread = &merge->threads[number];
  if (!thread->second && (thread->traits & EVENT_TWO_STEPS) == EVENT_TWO_STEPS) {
    thread->second = true;
    HT_ASSERT(thread->event->acquire_stamp >= thread->stamp);
    thread->stamp = thread->event->acquire_stamp;
    rekey(merge, number, key_of(thread->stamp));
    return 1;
  }
  return load(merge, number);
}

void merge_park(struct merge *merge) {
  set_key(merge, merge->current, KEY_NONE);
}

void merge_resume(struct merge *merge, uint32_t thread) {
  set_key(merge, thread, key_of(merge->threads[thread].stamp));
}

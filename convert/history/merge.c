/* SPDX-License-Identifier: MIT */
#include "convert/history/merge.h"

#include "core/base/assert.h"
#include "core/base/os.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Decodes the events of many threads ahead of their use, in a helper thread, so that decoding and the history use two
   processors.

   Each thread that has begun has a ring of events: the helper fills it, the user empties it. All rings together hold
   about READ_AHEAD_BYTES, a ring at least 16 events. If there is no helper (one processor, or no thread can be created)
   the user decodes, with the same result. Not its job: order. Events come exactly as from the cursor, errors after the
   events before them. For use by one thread. */
enum { READ_AHEAD_BYTES = 16 << 20 };

/* Each handover of a ring may wake a thread, so a ring must hold many times the work of a wakeup. With at most 4,096
   events there was no gain on a one-threaded trace, with 16,384 a gain of a tenth to a fifth. HELPED_MIN_EVENTS: if so
   many threads share the memory that rings are shorter, decoding in place is faster (check, 2,000 threads that take
   turns: 280 instead of 580 ns per event). Then a ring need only be long enough for the user's prefetch distance, and
   short enough to stay in the first-level cache. */
enum {
  RING_MIN_EVENTS = 16,
  RING_MAX_EVENTS = 16384,
  HELPED_MIN_EVENTS = 2048,
  UNHELPED_EVENTS = 256,
  PUBLISH_EVENTS = 128
};

/* FILL_EVENTS: the helper decodes this many events of a ring before it continues with the next ring that is not full.
   It bounds the wait of the user, who needs the events of all threads that take turns. LOOKS: number of checks for
   events before it sleeps, about 10 us: sleeping and waking takes as long. */
enum { FILL_EVENTS = 2048, LOOKS = 256 };

/* A span is at most 1 / RING_SPANS of a ring that a helper fills, so that there is room while the user works through
   it. */
enum { RING_SPANS = 8 };

#define THREAD_NONE UINT32_MAX

enum state { MORE, ENDED, FAILED };

struct ring {
  struct trace_cursor *cursor;
  struct trace_event *events; /* NULL: not begun, or ended */
  uint32_t room;              /* a power of two */
  uint32_t known;             /* filled, as last read by the user */
  uint32_t next_request;      /* next in the list of requests */
  uint32_t given;             /* events from used on that were given to the user */
  _Atomic uint32_t filled;    /* events decoded so far; written by the helper */
  _Atomic uint32_t used;      /* events used up; written by the user */
  _Atomic bool requested;     /* the helper is to fill it, or is filling it */
  _Atomic int state;          /* set after the last event has been published */
};

struct read_ahead {
  struct trace_reader *reader;
  struct error *error;       /* of the user */
  struct error helper_error; /* of the cursors */
  struct ring *rings;
  uint32_t threads, ring_events;
  bool helped;
  pthread_t helper;
  pthread_mutex_t mutex;
  pthread_cond_t requested, filled;
  uint32_t first_request, last_request; /* under mutex, as is stopping */
  bool stopping;
};

static uint32_t least(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

/* Decodes until the ring is full or its thread ends, but at most about `most` events. Returns true if there is more to
   do. */
static bool fill(struct ring *ring, uint32_t most) {
  uint32_t filled = atomic_load_explicit(&ring->filled, memory_order_relaxed), first = filled, empty;
  while ((empty = ring->room - (filled - atomic_load_explicit(&ring->used, memory_order_acquire)))) {
    if (filled - first >= most)
      return true;
    uint32_t at = filled & (ring->room - 1), count = least(least(empty, ring->room - at), PUBLISH_EVENTS);
    int got = trace_cursor_read(ring->cursor, &ring->events[at], (int)count);
    if (got <= 0) {
      atomic_store_explicit(&ring->state, got == 0 ? ENDED : FAILED, memory_order_release);
      return false;
    }
    filled += (uint32_t)got;
    atomic_store_explicit(&ring->filled, filled, memory_order_release);
  }
  return false;
}

/* Puts the ring at the end of the list of requests; under mutex. */
static void append_request(struct read_ahead *ahead, struct ring *ring) {
  uint32_t number = (uint32_t)(ring - ahead->rings);
  ring->next_request = THREAD_NONE;
  if (ahead->first_request == THREAD_NONE)
    ahead->first_request = number;
  else
    ahead->rings[ahead->last_request].next_request = number;
  ahead->last_request = number;
}

static void *help(void *argument) {
  struct read_ahead *ahead = argument;
  pthread_mutex_lock(&ahead->mutex);
  for (;;) {
    while (ahead->first_request == THREAD_NONE && !ahead->stopping)
      pthread_cond_wait(&ahead->requested, &ahead->mutex);
    if (ahead->stopping)
      break;
    struct ring *ring = &ahead->rings[ahead->first_request];
    ahead->first_request = ring->next_request;
    pthread_mutex_unlock(&ahead->mutex);
    bool more = fill(ring, FILL_EVENTS);
    pthread_mutex_lock(&ahead->mutex);
    if (more)
      append_request(ahead, ring);
    else
      atomic_store_explicit(&ring->requested, false, memory_order_release);
    pthread_cond_signal(&ahead->filled);
  }
  pthread_mutex_unlock(&ahead->mutex);
  return NULL;
}

static void request(struct read_ahead *ahead, struct ring *ring) {
  if (!ahead->helped) {
    fill(ring, UINT32_MAX);
    return;
  }
  atomic_store_explicit(&ring->requested, true, memory_order_relaxed);
  pthread_mutex_lock(&ahead->mutex);
  append_request(ahead, ring);
  pthread_cond_signal(&ahead->requested);
  pthread_mutex_unlock(&ahead->mutex);
}

/* error must outlive it. Returns 0 or -1. */
static int read_ahead_open(struct read_ahead **out, struct trace_reader *reader, struct error *error) {
  struct read_ahead *ahead = calloc(1, sizeof *ahead);
  uint32_t threads = trace_reader_summary(reader)->threads;
  *out = ahead;
  if (!ahead || !(ahead->rings = calloc(threads + 1, sizeof *ahead->rings))) {
    free(ahead);
    *out = NULL;
    return error_set(error, trace_reader_path(reader), "out of memory");
  }
  ahead->reader = reader;
  ahead->error = error;
  ahead->threads = threads;
  ahead->first_request = THREAD_NONE;
  ahead->ring_events = RING_MAX_EVENTS;
  while (ahead->ring_events > RING_MIN_EVENTS &&
         (uint64_t)ahead->ring_events * sizeof(struct trace_event) * threads > READ_AHEAD_BYTES)
    ahead->ring_events /= 2;
  pthread_mutex_init(&ahead->mutex, NULL);
  pthread_cond_init(&ahead->requested, NULL);
  pthread_cond_init(&ahead->filled, NULL);
  ahead->helped = ahead->ring_events >= HELPED_MIN_EVENTS && os_processors() > 1 &&
                  pthread_create(&ahead->helper, NULL, help, ahead) == 0;
  if (!ahead->helped)
    ahead->ring_events = least(ahead->ring_events, UNHELPED_EVENTS);
  return 0;
}

static void drop(struct ring *ring) {
  trace_cursor_close(ring->cursor);
  free(ring->events);
  ring->cursor = NULL;
  ring->events = NULL;
}

static void read_ahead_close(struct read_ahead *ahead) {
  if (!ahead)
    return;
  if (ahead->helped) {
    pthread_mutex_lock(&ahead->mutex);
    ahead->stopping = true;
    pthread_cond_signal(&ahead->requested);
    pthread_mutex_unlock(&ahead->mutex);
    pthread_join(ahead->helper, NULL);
  }
  for (uint32_t i = 0; i < ahead->threads; i++)
    drop(&ahead->rings[i]);
  pthread_mutex_destroy(&ahead->mutex);
  pthread_cond_destroy(&ahead->requested);
  pthread_cond_destroy(&ahead->filled);
  free(ahead->rings);
  free(ahead);
}

static int read_ahead_begin(struct read_ahead *ahead, uint32_t thread) {
  struct ring *ring = &ahead->rings[thread];
  ring->room = ahead->ring_events;
  while (ring->room > RING_MIN_EVENTS && ring->room / 2 >= trace_reader_thread_events(ahead->reader, thread))
    ring->room /= 2;
  ring->events = malloc(ring->room * sizeof *ring->events);
  if (!ring->events)
    return error_set(ahead->error, trace_reader_path(ahead->reader), "out of memory");
  if (trace_cursor_open(&ring->cursor, ahead->reader, thread, ahead->helped ? &ahead->helper_error : ahead->error) != 0)
    return error_set(ahead->error, trace_reader_path(ahead->reader), "out of memory");
  request(ahead, ring);
  return 0;
}

/* Polls for a while until the helper has decoded an event after the used ones, or stops. */
static bool poll_for_event(const struct ring *ring, uint32_t used) {
  for (int looks = 0; looks < LOOKS; looks++) {
    if (atomic_load_explicit(&ring->filled, memory_order_relaxed) != used ||
        !atomic_load_explicit(&ring->requested, memory_order_relaxed))
      return true;
    os_spin_pause();
  }
  return false;
}

/* Waits until the ring has an event after the used ones. Returns false if there will be none. */
static bool wait_for_event(struct read_ahead *ahead, struct ring *ring, uint32_t used) {
  for (;;) {
    int state = atomic_load_explicit(&ring->state, memory_order_acquire);
    ring->known = atomic_load_explicit(&ring->filled, memory_order_acquire);
    if (ring->known != used)
      return true;
    if (state != MORE)
      return false;
    if (!atomic_load_explicit(&ring->requested, memory_order_acquire)) {
      request(ahead, ring);
      continue;
    }
    if (poll_for_event(ring, used))
      continue;
    pthread_mutex_lock(&ahead->mutex);
    while (atomic_load_explicit(&ring->requested, memory_order_relaxed) &&
           atomic_load_explicit(&ring->filled, memory_order_relaxed) == used)
      pthread_cond_wait(&ahead->filled, &ahead->mutex);
    pthread_mutex_unlock(&ahead->mutex);
  }
}

static int end(struct read_ahead *ahead, struct ring *ring) {
  if (atomic_load_explicit(&ring->state, memory_order_relaxed) == FAILED) {
    if (ahead->helped)
      *ahead->error = ahead->helper_error;
    return -1;
  }
  /* The helper may still be about to leave fill. */
  while (atomic_load_explicit(&ring->requested, memory_order_acquire)) {
    pthread_mutex_lock(&ahead->mutex);
    if (atomic_load_explicit(&ring->requested, memory_order_relaxed))
      pthread_cond_wait(&ahead->filled, &ahead->mutex);
    pthread_mutex_unlock(&ahead->mutex);
  }
  drop(ring);
  return 0;
}

/* Requests that the ring is filled again once half of it is used. */
static void request_if_half_used(struct read_ahead *ahead, struct ring *ring, uint32_t used) {
  if (ring->known - used > ring->room / 2 || atomic_load_explicit(&ring->requested, memory_order_acquire) ||
      atomic_load_explicit(&ring->state, memory_order_acquire) != MORE)
    return;
  ring->known = atomic_load_explicit(&ring->filled, memory_order_acquire);
  if (ring->known - used <= ring->room / 2)
    request(ahead, ring);
}

/* Gives the thread's next events, at least one, in *span. They are valid until the next call for this thread. Returns
   1, 0 if the thread has ended (its memory is then freed), -1. */
static int read_ahead_next(struct read_ahead *ahead, uint32_t thread, struct event_span *span) {
  struct ring *ring = &ahead->rings[thread];
  uint32_t used = atomic_load_explicit(&ring->used, memory_order_relaxed) + ring->given;
  ring->given = 0;
  atomic_store_explicit(&ring->used, used, memory_order_release);
  if (ring->known == used && !wait_for_event(ahead, ring, used))
    return end(ahead, ring);
  if (ahead->helped)
    request_if_half_used(ahead, ring, used);
  uint32_t at = used & (ring->room - 1), most = ahead->helped ? ring->room / RING_SPANS : ring->room;
  ring->given = least(least(ring->known - used, ring->room - at), most);
  *span = (struct event_span){ring->events + at, ring->events + at + ring->given};
  return 1;
}

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

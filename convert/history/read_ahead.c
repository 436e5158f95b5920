/* SPDX-License-Identifier: MIT */
#include "convert/history/read_ahead.h"

#include "core/base/os.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

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

int read_ahead_open(struct read_ahead **out, struct trace_reader *reader, struct error *error) {
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

void read_ahead_close(struct read_ahead *ahead) {
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

int read_ahead_begin(struct read_ahead *ahead, uint32_t thread) {
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

int read_ahead_next(struct read_ahead *ahead, uint32_t thread, struct event_span *span) {
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

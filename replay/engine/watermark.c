/* SPDX-License-Identifier: MIT */
#include "replay/engine/watermark.h"

#include "core/base/os.h"

/* A sleeper's first sleep, and all later ones: by the end of the first every store buffer has drained, so that later
   sleeps are not needed to find a missed wake-up; they have a time limit only as a precaution. */
static const uint64_t FIRST_SLEEP_NS = 100000, LATER_SLEEP_NS = 100000000;

/* On the sleeper's stack, in its watermark's list until a thread wakes it, or until it finds that its value was
 * reached. */
struct watermark_sleeper {
  struct watermark_sleeper *next;
  uint64_t value;
  _Atomic uint32_t woken; /* the futex word; 1: no longer in the list */
};

static struct crowd crowd;

static __thread uint64_t wake_cpu_ns;

void watermark_setup(struct crowd who) {
  crowd = who;
}

void watermark_init(struct watermark *watermark, uint64_t value) {
  atomic_store_explicit(&watermark->value, value, memory_order_relaxed);
  atomic_store_explicit(&watermark->wake_at, UINT64_MAX, memory_order_relaxed);
  watermark->sleepers = NULL;
  watermark->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void set_wake_at(struct watermark *watermark) {
  atomic_store(&watermark->wake_at, watermark->sleepers ? watermark->sleepers->value : UINT64_MAX);
}

/* Takes the sleepers whose value is reached out of the list: returns them, still linked. */
static struct watermark_sleeper *take_due(struct watermark *watermark) {
  pthread_mutex_lock(&watermark->lock);
  struct watermark_sleeper *due = watermark->sleepers, **end = &due;
  uint64_t value = atomic_load(&watermark->value);
  while (*end && (*end)->value <= value)
    end = &(*end)->next;
  watermark->sleepers = *end;
  *end = NULL;
  set_wake_at(watermark);
  pthread_mutex_unlock(&watermark->lock);
  return due;
}

void watermark_wake(struct watermark *watermark) {
  uint64_t begin_ns = os_thread_cpu_ns();
  for (struct watermark_sleeper *sleeper = take_due(watermark), *next; sleeper; sleeper = next) {
    next = sleeper->next;
    _Atomic uint32_t *woken = &sleeper->woken;
    atomic_store(woken, 1);
    /* The sleeper may be gone from here on: a superfluous wake-up is harmless, and the engine's stacks stay mapped. */
    os_futex_wake((const uint32_t *)woken, 1, false);
  }
  wake_cpu_ns += os_thread_cpu_ns() - begin_ns;
}

uint64_t watermark_wake_cpu_ns(void) {
  return wake_cpu_ns;
}

/* Waits at fenced watermarks are long: no spinning there. */
static bool spin_for(const struct watermark *watermark, uint64_t value, bool fenced) {
  uint32_t live = atomic_load_explicit(crowd.live, memory_order_relaxed);
  uint32_t blocked = atomic_load_explicit(crowd.blocked, memory_order_relaxed);
  uint32_t spins = fenced ? 0 : live <= crowd.processors + blocked ? SPINS : CROWDED_SPINS;
  for (uint32_t spin = 0; spin < spins; spin++) {
    if (watermark_value(watermark) >= value)
      return true;
    os_spin_pause();
  }
  return watermark_value(watermark) >= value;
}

static void join_sleepers(struct watermark *watermark, struct watermark_sleeper *sleeper) {
  pthread_mutex_lock(&watermark->lock);
  struct watermark_sleeper **place = &watermark->sleepers;
  while (*place && (*place)->value <= sleeper->value)
    place = &(*place)->next;
  sleeper->next = *place;
  *place = sleeper;
  set_wake_at(watermark);
  pthread_mutex_unlock(&watermark->lock);
}

/* Returns false if another thread took it out before, and has woken it or is about to. */
static bool leave_sleepers(struct watermark *watermark, struct watermark_sleeper *sleeper) {
  pthread_mutex_lock(&watermark->lock);
  struct watermark_sleeper **place = &watermark->sleepers;
  while (*place && *place != sleeper)
    place = &(*place)->next;
  bool found = *place != NULL;
  if (found)
    *place = sleeper->next;
  set_wake_at(watermark);
  pthread_mutex_unlock(&watermark->lock);
  return found;
}

static void sleep_until_woken(struct watermark *watermark, uint64_t value, bool fenced) {
  struct watermark_sleeper sleeper = {.value = value};
  join_sleepers(watermark, &sleeper);
  for (uint64_t sleep_ns = FIRST_SLEEP_NS; !atomic_load(&sleeper.woken); sleep_ns = LATER_SLEEP_NS) {
    if (atomic_load(&watermark->value) >= value && leave_sleepers(watermark, &sleeper))
      return;
    os_futex_wait((const uint32_t *)&sleeper.woken, 0, fenced ? 0 : sleep_ns, false);
  }
}

void watermark_wait(struct watermark *watermark, uint64_t value, bool fenced) {
  if (spin_for(watermark, value, fenced))
    return;
  atomic_fetch_add_explicit(crowd.blocked, 1, memory_order_relaxed);
  sleep_until_woken(watermark, value, fenced);
  atomic_fetch_sub_explicit(crowd.blocked, 1, memory_order_relaxed);
}

/* SPDX-License-Identifier: MIT */
#include "replay/passes/contention/contention.h"

#include "replay/passes/contention/places.h"
#include "replay/passes/contention/trap.h"

#include <errno.h>
#include <sys/resource.h>

enum { PROBES = 64 };

__thread struct contention_mark contention_mark;
uint64_t contention_switch_armed;

static struct contention *figures;

static void add_wait(struct wait_sums *sums, const struct trapped_wait *wait) {
  atomic_fetch_add(&sums->count, 1);
  atomic_fetch_add(&sums->at_once, wait->at_once);
  atomic_fetch_add(&sums->time_ns, wait->time_ns);
  uint64_t most = atomic_load(&sums->max_ns);
  while (wait->time_ns > most && !atomic_compare_exchange_weak(&sums->max_ns, &most, wait->time_ns))
    ;
}

/* Finds or makes the row; NULL: its part of the rows is full. */
static struct wait_row *row_of(uint64_t key) {
  uint64_t place = key * 0x9e3779b97f4a7c15u >> 50;
  for (unsigned probe = 0; probe < PROBES && key; probe++, place++) {
    struct wait_row *row = &figures->rows[place & (WAIT_ROWS - 1)];
    uint64_t found = 0;
    if (atomic_compare_exchange_strong(&row->key, &found, key) || found == key)
      return row;
  }
  return NULL;
}

static void on_wait(const struct trapped_wait *wait) {
  const struct contention_mark *mark = &contention_mark;
  if (!mark->inside) {
    atomic_fetch_add(&figures->outside, 1);
    return;
  }
  struct wait_row *row = row_of(wait_key(wait->address, wait->kind, mark->call, mark->size_class));
  add_wait(row ? &row->sums : &figures->overflow[wait->kind][mark->call][mark->size_class], wait);
}

static void read_switches(uint64_t *voluntary, uint64_t *involuntary) {
  struct rusage usage = {0};
  getrusage(RUSAGE_THREAD, &usage);
  *voluntary = (uint64_t)usage.ru_nvcsw;
  *involuntary = (uint64_t)usage.ru_nivcsw;
}

void contention_was_off(void) {
  read_switches(&contention_mark.voluntary, &contention_mark.involuntary);
}

void contention_switched_inside(void) {
  struct contention_mark *mark = &contention_mark;
  uint64_t voluntary = mark->voluntary, involuntary = mark->involuntary;
  read_switches(&mark->voluntary, &mark->involuntary);
  atomic_fetch_add(&figures->voluntary[mark->call], mark->voluntary - voluntary);
  atomic_fetch_add(&figures->involuntary[mark->call], mark->involuntary - involuntary);
}

void contention_setup(struct contention *contention) {
  figures = contention;
  contention_switch_armed = os_switch_armed();
  figures->switches_known = contention_switch_armed != 0 && os_switch_word();
  if (!figures->switches_known)
    contention_switch_armed = 1; /* written to words that the kernel does not clear */
  if (trap_install(on_wait) != 0) {
    figures->filter_error = errno;
    return;
  }
  figures->trap_ns = trap_measure_ns();
  atomic_store(&figures->outside, 0); /* the waits of the measurement */
}

void contention_begin_thread(void) {
  struct contention_mark *mark = &contention_mark;
  mark->inside = false;
  mark->switch_word = figures->switches_known ? os_switch_word() : NULL;
  if (!mark->switch_word)
    mark->switch_word = &mark->no_switch_word;
  contention_was_off();
}

void contention_thread_ends(void) {
  contention_mark.call = WAIT_CALL_THREAD_END;
  contention_mark.size_class = 0;
  atomic_signal_fence(memory_order_seq_cst);
  contention_mark.inside = true;
}

void contention_end(void) {
  places_find(figures);
}

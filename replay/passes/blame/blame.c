/* SPDX-License-Identifier: MIT */
#include "replay/passes/blame/blame.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "replay/engine/faults.h"
#include "replay/memory/memory_map.h"
#include "replay/passes/blame/attribution.h"
#include "replay/passes/blame/groups.h"
#include "replay/passes/memory.h"

#include <errno.h>
#include <string.h>

enum {
  FOLD_SHARE = 1000,
  PEAK_STEP = 32,    /* attributes at once where RSS exceeds the highest attributed RSS by 1/32 */
  PEAK_PATIENCE = 2, /* or where it exceeds that at all, and 1/2 of an interval has passed since the last attribution */
  PEAK_NEAR = 8,     /* neither below 7/8 of the peak of live bytes, until that peak has passed */
};

struct blame_watch blame_watch;

static struct {
  uint64_t interval, next_even; /* UINT64_MAX: no more */
  uint32_t next_asked;
  uint64_t last_position;       /* attributed */
  uint64_t peak_rss_anon_bytes; /* the highest attributed */
} due;

static struct blame_result *blame(void) {
  return &engine.result->blame;
}

static const struct blame_setup *setup(void) {
  return &engine.result->setup.blame;
}

static void set_next_position(void) {
  uint64_t asked = due.next_asked < setup()->asked_count ? setup()->asked[due.next_asked].position : UINT64_MAX;
  blame_watch.next_position = asked < due.next_even ? asked : due.next_even;
}

void blame_setup(void) {
  blame()->measured = engine.result->map_residency != 0;
  blame_watch.next_position = UINT64_MAX;
  births_setup(&engine.result->setup);
  if (blame()->measured && attribution_setup() != 0)
    engine_fail(NULL, "no memory for the blame pass: %s", strerror(errno));
  uint64_t ops = engine.workload.header.ops;
  due.interval = setup()->even == 0 ? UINT64_MAX : ops / setup()->even + 1;
  due.next_even = due.interval;
  if (blame()->measured)
    set_next_position();
}

/* Returns the reasons to attribute here, and advances past them. */
static uint32_t reasons_at(uint64_t position) {
  uint32_t why = 0;
  if (position >= due.next_even) {
    why |= BLAME_BECAUSE_EVEN;
    uint64_t left = UINT64_MAX - position;
    due.next_even = due.interval < left ? position - position % due.interval + due.interval : UINT64_MAX;
  }
  for (; due.next_asked < setup()->asked_count && setup()->asked[due.next_asked].position <= position; due.next_asked++)
    why |= setup()->asked[due.next_asked].why;
  set_next_position();
  return why;
}

/* Where RSS rises far below the peak of live bytes, which the workload file has, the peak of RSS is yet to come:
   attributing there, too, would cost as much as at all evenly spaced positions. */
static bool may_be_peak(uint64_t position, uint64_t rss_anon_bytes) {
  uint64_t live_peak_bytes = engine.workload.header.peak_live_bytes;
  return rss_anon_bytes >= live_peak_bytes - live_peak_bytes / PEAK_NEAR ||
         position > engine.workload.header.peak_position;
}

static bool is_new_peak(uint64_t position, uint64_t rss_anon_bytes) {
  if (rss_anon_bytes <= due.peak_rss_anon_bytes || !may_be_peak(position, rss_anon_bytes))
    return false;
  return rss_anon_bytes - due.peak_rss_anon_bytes >= due.peak_rss_anon_bytes / PEAK_STEP ||
         (due.interval != UINT64_MAX && position - due.last_position >= due.interval / PEAK_PATIENCE);
}

/* Adds the rows of the groups as they are now. */
static void put_position(const struct blame_position *position) {
  struct blame_result *result = blame();
  uint64_t resident_bytes = position->parts.sum.live_bytes + position->parts.sum.rounding_bytes +
                            position->parts.sum.beside_bytes + position->parts.sum.empty_bytes +
                            position->parts.sum.untouched_bytes;
  if (position->why && result->position_count < BLAME_POSITIONS) {
    struct blame_rows rows = {result->rows, result->row_count, BLAME_ROWS, result->rows_lost};
    bool fold = position->why == BLAME_BECAUSE_EVEN;
    groups_put(&rows, result->position_count, fold ? (resident_bytes + FOLD_SHARE - 1) / FOLD_SHARE : 0);
    result->positions[result->position_count++] = *position;
    result->row_count = rows.count;
    result->rows_lost = rows.lost;
  }
  if (position->parts.rss_anon_bytes > due.peak_rss_anon_bytes) {
    struct blame_rows rows = {result->peak_rows, 0, BLAME_PEAK_ROWS, 0};
    groups_put(&rows, 0, 0);
    result->peak = *position;
    result->peak_row_count = rows.count;
    result->peak_rows_lost = rows.lost;
    due.peak_rss_anon_bytes = position->parts.rss_anon_bytes;
  }
}

/* Right after the memory map has sampled the position. */
static void attribute(const struct fragmentation_row *parts, uint32_t why) {
  struct blame_position position = {.parts = *parts, .why = why};
  position.live_objects = attribution_make(parts);
  put_position(&position);
  groups_clear();
  due.last_position = parts->position;
}

static void look_at(uint64_t position, uint32_t why, uint64_t rss_anon_bytes) {
  struct fragmentation_row parts;
  memory_map_look(position, rss_anon_bytes, why & (BLAME_BECAUSE_EVEN | BLAME_BECAUSE_END), &parts);
  attribute(&parts, why);
}

/* rss_anon_bytes: 0: not read yet. */
static void attribute_if_due(uint64_t position) {
  const struct replay_result *result = engine.result;
  uint32_t why = reasons_at(position);
  uint64_t rss_anon_bytes = 0, vm_size_bytes;
  bool sampled = result->rows != blame_watch.rows;
  blame_watch.rows = result->rows;
  if (sampled && result->rows > 0 && result->timeline[result->rows - 1].position == position)
    rss_anon_bytes = result->timeline[result->rows - 1].rss_anon_bytes;
  if (why == 0 && !is_new_peak(position, rss_anon_bytes))
    return;
  if (position == engine.workload.header.ops) /* attributed when all threads have ended */
    return;
  if (rss_anon_bytes > 0 || memory_read(&rss_anon_bytes, &vm_size_bytes) == 0)
    look_at(position, why, rss_anon_bytes);
}

void blame_begin(void) {
  if (!blame()->measured)
    return;
  if (setup()->asked_count > 0 && setup()->asked[0].position == 0)
    attribute_if_due(0);
}

void blame_end(void) {
  struct replay_result *result = engine.result;
  if (!blame()->measured || result->rows == 0)
    return;
  const struct replay_row *row = &result->timeline[result->rows - 1];
  look_at(row->position, BLAME_BECAUSE_END | setup()->end_why | (setup()->even ? BLAME_BECAUSE_EVEN : 0),
          row->rss_anon_bytes);
}

void blame_look(struct worker *worker) {
  uint64_t faults = faults_of_thread();
  if (blame()->measured)
    attribute_if_due(atomic_load(&engine.result->done));
  else
    blame_watch.rows = engine.result->rows;
  worker->engine_faults += faults_of_thread() - faults;
}

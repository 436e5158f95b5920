/* SPDX-License-Identifier: MIT */
#include "allocators/magazine/zone/runs.h"

#include "allocators/common/lock.h"
#include "allocators/magazine/zone/system.h"

#include <errno.h>

enum { SLACK_SHARE = 4 /* a run serves requests down to 3/4 of its size */ };

static struct lock lock;
static struct zone *kept; /* newest first */
static size_t kept_bytes;

static void unlink_run(struct zone *run) {
  *(run->prev ? &run->prev->next : &kept) = run->next;
  if (run->next)
    run->next->prev = run->prev;
  kept_bytes -= run->run_bytes;
}

static struct zone *take_between(size_t least_bytes, size_t most_bytes) {
  lock_take(&lock);
  struct zone *best = NULL;
  for (struct zone *run = kept; run; run = run->next)
    if (run->run_bytes >= least_bytes && run->run_bytes <= most_bytes && (!best || run->run_bytes < best->run_bytes))
      best = run;
  if (best)
    unlink_run(best);
  lock_drop(&lock);
  return best;
}

struct zone *runs_take(size_t bytes) {
  return take_between(bytes, bytes + bytes / (SLACK_SHARE - 1));
}

struct zone *runs_take_smallest(size_t most_bytes) {
  return take_between(0, most_bytes);
}

static void unmap(struct zone *run) {
  int error = errno;
  system_unmap(run, run->run_bytes);
  errno = error;
}

void runs_give(struct zone *run) {
  lock_take(&lock);
  bool keep = kept_bytes + run->run_bytes <= tunables.run_cache;
  if (keep) {
    run->next = kept;
    run->prev = NULL;
    if (kept)
      kept->prev = run;
    kept = run;
    kept_bytes += run->run_bytes;
  }
  lock_drop(&lock);
  if (!keep)
    unmap(run);
}

bool runs_trim(void) {
  lock_take(&lock);
  bool any = kept != NULL;
  while (kept) {
    struct zone *run = kept;
    unlink_run(run);
    unmap(run);
  }
  lock_drop(&lock);
  return any;
}

void runs_walk(void (*visit)(const struct zone *run, void *context), void *context) {
  lock_take(&lock);
  for (const struct zone *run = kept; run; run = run->next)
    visit(run, context);
  lock_drop(&lock);
}

void runs_lock(void) {
  lock_take(&lock);
}

void runs_unlock(void) {
  lock_drop(&lock);
}

void runs_after_fork(void) {
  lock_reset(&lock);
}

/* SPDX-License-Identifier: MIT */
/* Hooks with which the common code starts this allocator, and handles a fork.

   Order of locks: a class's slabs, the zone magazine, the runs. A depot's is taken alone. */
#include "allocators/common/hooks.h"
#include "allocators/magazine/cache.h"
#include "allocators/magazine/depot.h"
#include "allocators/magazine/zone/runs.h"
#include "allocators/magazine/zone/slab.h"
#include "allocators/magazine/zone/zones.h"

void allocator_start(void) {
  class_setup();
  depot_setup();
  cache_setup();
}

void allocator_before_fork(void) {
  for (unsigned number = 0; number < CLASSES; number++) {
    depot_lock(number);
    slab_lock(number);
  }
  zones_lock();
  runs_lock();
}

void allocator_after_fork_in_parent(void) {
  runs_unlock();
  zones_unlock();
  for (unsigned number = 0; number < CLASSES; number++) {
    slab_unlock(number);
    depot_unlock(number);
  }
}

void allocator_after_fork_in_child(void) {
  runs_after_fork();
  zones_after_fork();
  for (unsigned number = 0; number < CLASSES; number++) {
    slab_after_fork(number);
    depot_after_fork(number);
  }
}

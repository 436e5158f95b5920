/* SPDX-License-Identifier: MIT */
/* Hooks with which the common code starts this allocator, and handles a fork. */
#include "allocators/common/hooks.h"
#include "allocators/reference/arena/arena.h"
#include "allocators/reference/arena/arenas.h"
#include "allocators/reference/base/settings.h"
#include "allocators/reference/tcache.h"

void allocator_start(void) {
  settings_setup();
  bins_setup(&main_arena.bins);
  tcache_setup();
}

void allocator_before_fork(void) {
  arenas_lock_all();
}

void allocator_after_fork_in_parent(void) {
  arenas_unlock_all();
}

void allocator_after_fork_in_child(void) {
  arenas_after_fork();
}

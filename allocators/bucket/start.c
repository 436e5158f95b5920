/* SPDX-License-Identifier: MIT */
/* Hooks with which the common code starts this allocator, and handles a fork. */
#include "allocators/bucket/heap/buckets.h"
#include "allocators/bucket/heap/oversize.h"
#include "allocators/bucket/settings.h"
#include "allocators/common/base/secret.h"
#include "allocators/common/counters.h"
#include "allocators/common/hooks.h"
#include "allocators/common/thread_end.h"

static void on_thread_end(void *unused) {
  (void)unused;
  buckets_detach();
  counters_end_thread();
}

void allocator_start(void) {
  uintptr_t words[2];
  secret_words(words);
  block_secret = words[0];
  settings_setup();
  buckets_setup();
  thread_end_setup(on_thread_end);
}

void allocator_before_fork(void) {
  buckets_lock();
  oversize_lock();
}

void allocator_after_fork_in_parent(void) {
  oversize_unlock();
  buckets_unlock();
}

void allocator_after_fork_in_child(void) {
  oversize_after_fork();
  buckets_after_fork();
}

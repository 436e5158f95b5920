/* SPDX-License-Identifier: MIT */
#include "allocators/common/thread_end.h"

#include <pthread.h>
#include <stdbool.h>

static pthread_key_t key;
static bool key_exists;

void thread_end_setup(void (*on_end)(void *unused)) {
  key_exists = pthread_key_create(&key, on_end) == 0;
}

void thread_end_watch(void) {
  if (key_exists)
    pthread_setspecific(key, &key);
}

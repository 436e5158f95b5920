/* SPDX-License-Identifier: MIT */
/* The three kinds of lock, each counted separately: of a bucket ("parent"), of a cache, of the oversize blocks. */
#pragma once

#include "allocators/common/lock.h"

enum { CACHE_LOCK_MUTEX, CACHE_LOCK_ATOMIC }; /* the tunable cache_lock */

/* kind: parent, cache or oversize. */
#define LOCK_TAKE_AS(kind, lock)                                                                                       \
  do {                                                                                                                 \
    if (!threads_may_run())                                                                                            \
      break;                                                                                                           \
    COUNT(kind##_locks);                                                                                               \
    if (!lock_try(lock)) {                                                                                             \
      COUNT(kind##_locks_contended);                                                                                   \
      lock_await(lock);                                                                                                \
    }                                                                                                                  \
  } while (0)

/* SPDX-License-Identifier: MIT */
#include "allocators/common/base/futex.h"

#include "core/base/os.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A lock is held for tens of ns, waking a sleeper costs thousands: first spin for about that long. */
enum { SPINS = 100 };

void lock_wait(struct lock *lock) {
  for (int spin = 0; spin < SPINS; spin++) {
    if (atomic_load_explicit(&lock->state, memory_order_relaxed) == LOCK_FREE && lock_try_uncounted(lock))
      return;
    os_spin_pause();
  }
  int error = errno;
  while (atomic_exchange_explicit(&lock->state, LOCK_AWAITED, memory_order_acquire) != LOCK_FREE)
    syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, LOCK_AWAITED, NULL, NULL, 0);
  errno = error;
}

void lock_wake(struct lock *lock) {
  int error = errno;
  syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  errno = error;
}

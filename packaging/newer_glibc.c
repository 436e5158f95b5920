/* SPDX-License-Identifier: MIT */
/* What Debian 12's libstdc++.a and C++ headers need of C libraries that are newer than a wheel's. Linked into a library
   of the wheel heaptape-allocators, hidden there. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/single_threaded.h>
#include <time.h>

char __libc_single_threaded = 0; /* counts are always atomic */

uint32_t arc4random(void) {
  uint32_t number;
  while (getrandom(&number, sizeof number, 0) != sizeof number)
    continue;
  return number;
}

/* The same moment on the clock that the older functions take. */
static struct timespec on_realtime(clockid_t clock, const struct timespec *until) {
  enum { SECOND = 1000000000 };
  struct timespec from, to;
  clock_gettime(clock, &from);
  clock_gettime(CLOCK_REALTIME, &to);
  to.tv_sec += until->tv_sec - from.tv_sec;
  to.tv_nsec += until->tv_nsec - from.tv_nsec;
  for (; to.tv_nsec < 0; to.tv_nsec += SECOND)
    to.tv_sec--;
  for (; to.tv_nsec >= SECOND; to.tv_nsec -= SECOND)
    to.tv_sec++;
  return to;
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until) {
  struct timespec moment = on_realtime(clock, until);
  return pthread_cond_timedwait(condition, mutex, &moment);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until) {
  struct timespec moment = on_realtime(clock, until);
  return sem_timedwait(semaphore, &moment);
}

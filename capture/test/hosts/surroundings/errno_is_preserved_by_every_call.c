/* SPDX-License-Identifier: MIT */
/* Every entry point leaves errno as the real call does: untouched where it succeeds, ENOMEM where it fails; also where
   the call waits for the collector, attaches to it, or is a thread's or a fork child's first. */
#include "capture/test/hosts/recording.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile size_t huge = SIZE_MAX; /* volatile: the compiler warns of calls it knows to be too large */

#define KEEPS(call)                                                                                                    \
  do {                                                                                                                 \
    errno = EXDEV;                                                                                                     \
    keep((void *)(uintptr_t)(call));                                                                                   \
    CHECK(errno == EXDEV, #call " changed errno to %d", errno);                                                        \
  } while (0)

static void *all_calls(void *context) {
  void *object, *other = NULL;
  (void)context;
  KEEPS(object = malloc(100));
  KEEPS(object = realloc(object, 100000));
  KEEPS(object = reallocarray(object, 10, 10));
  KEEPS(malloc_usable_size(object));
  KEEPS((free(object), 0));
  KEEPS(object = calloc(10, 10));
  KEEPS((free(object), 0));
  KEEPS((free(NULL), 0));
  KEEPS(posix_memalign(&other, 64, 100));
  KEEPS((free(other), 0));
  KEEPS(posix_memalign(&other, 3, 100));
  KEEPS(object = aligned_alloc(64, 128));
  KEEPS((free(object), 0));
  KEEPS(object = memalign(64, 128));
  KEEPS((free(object), 0));
  KEEPS(object = valloc(128));
  KEEPS((free(object), 0));
  KEEPS(object = pvalloc(128));
  KEEPS((free(object), 0));
  errno = 0;
  CHECK(!keep(malloc(huge / 2)) && errno == ENOMEM, "errno %d", errno);
  errno = 0;
  CHECK(!keep(reallocarray(NULL, huge, 16)) && errno == ENOMEM, "errno %d", errno);
  return NULL;
}

int host(void) {
  all_calls(NULL);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, all_calls, NULL) == 0, "pthread_create");
  pthread_join(thread, NULL);
  int pid = fork(), status;
  if (pid == 0) {
    all_calls(NULL);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the fork child failed");
  for (int i = 0; i < 300000; i++) {
    void *object;
    KEEPS(object = malloc(32));
    KEEPS((free(object), 0));
  }
  return 0;
}

int test(void) {
  int status = record_self(NULL);
  CHECK(status == 0, "status %x", status);
  CHECK(read_trace("t.tape", NULL, NULL).events >= 600000, "too few events");
  return 0;
}

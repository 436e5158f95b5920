/* SPDX-License-Identifier: MIT */
/* A program that closes every descriptor again and again, opens others in their place, and starts threads meanwhile:
   all is recorded, and we write nothing into its files. */
#include "capture/test/hosts/recording.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS = 100, BYTES = 5555 };

static void *run(void *context) {
  (void)context;
  free(keep(malloc(BYTES)));
  return NULL;
}

int host(void) {
  for (int round = 0; round < ROUNDS; round++) {
    for (int fd = 0; fd < 64; fd++)
      close(fd);
    for (int fd = 0; fd < 3; fd++)
      if (open("filled", O_RDWR | O_CREAT, 0600) != fd)
        return 2;
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0)
      return 3;
    pthread_join(thread, NULL);
    for (int i = 0; i < 2000; i++)
      run(NULL);
    if (fcntl(3, F_GETFD) != -1)
      return 4; /* a descriptor was left open */
  }
  return 0;
}

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  (void)thread;
  *(int *)context += event->size_bytes == BYTES;
}

int test(void) {
  int status = record_self(NULL);
  CHECK(status == 0, "status %x", status);
  int counted = 0;
  read_trace("t.tape", count, &counted);
  CHECK(counted == ROUNDS * 2001, "%d calls", counted);
  struct stat filled;
  CHECK(stat("filled", &filled) == 0 && filled.st_size == 0, "%ld bytes were written into the host's file",
        (long)filled.st_size);
  return 0;
}

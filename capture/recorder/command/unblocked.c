/* SPDX-License-Identifier: MIT */
#include "capture/recorder/command/unblocked.h"

#include "capture/recorder/command/settings.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEPT_BYTES = 256 << 10, LINE_BYTES = 16 << 10, PART_BYTES = 4 << 10, PATIENCE_S = 5 };

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  char text[KEPT_BYTES];
  size_t bytes;         /* of text that wait */
  unsigned long missed; /* lines, since the last one that was kept */
  bool begun, has_thread;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Writes what can be written. Returns bytes taken; those that can never be written count as taken. */
static size_t pass_on(const char *text, size_t bytes) {
  ssize_t wrote = write(STDERR_FILENO, text, bytes);
  if (wrote >= 0)
    return (size_t)wrote;
  if (errno == EAGAIN) { /* the program shares the descriptor's flags with us */
    struct pollfd writable = {STDERR_FILENO, POLLOUT, 0};
    poll(&writable, 1, -1);
  }
  return errno == EAGAIN || errno == EINTR ? 0 : bytes;
}

/* Called with the lock, which it releases meanwhile. Only one thread calls it at a time. */
static void pass_part_on(void) {
  char part[PART_BYTES];
  size_t bytes = kept.bytes < sizeof part ? kept.bytes : sizeof part;
  memcpy(part, kept.text, bytes);
  pthread_mutex_unlock(&kept.lock);
  size_t taken = pass_on(part, bytes);
  pthread_mutex_lock(&kept.lock);
  kept.bytes -= taken;
  memmove(kept.text, kept.text + taken, kept.bytes);
  pthread_cond_broadcast(&kept.changed);
}

static void *pass_all_on(void *context) {
  pthread_mutex_lock(&kept.lock);
  for (;;)
    if (kept.bytes)
      pass_part_on();
    else
      pthread_cond_wait(&kept.changed, &kept.lock);
  return context;
}

static void start_thread(void) {
  pthread_t thread;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  kept.has_thread = pthread_create(&thread, NULL, pass_all_on, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (kept.has_thread)
    pthread_detach(thread);
}

static void append(const char *text, size_t bytes) {
  memcpy(kept.text + kept.bytes, text, bytes);
  kept.bytes += bytes;
}

/* Says in place of lines that they are missing, where there is room for that and for as much again. */
static void append_missed(size_t room) {
  char line[100];
  int bytes = snprintf(line, sizeof line, RECORD ": %lu line%s missing here: nobody read standard error\n", kept.missed,
                       kept.missed == 1 ? " is" : "s are");
  if (!kept.missed || kept.bytes + (size_t)bytes + room > sizeof kept.text)
    return;
  append(line, (size_t)bytes);
  kept.missed = 0;
}

/* The stream's buffer holds a line, so that each call has whole ones. */
static ssize_t keep(void *context, const char *text, size_t bytes) {
  (void)context;
  pthread_mutex_lock(&kept.lock);
  append_missed(bytes);
  if (!kept.missed && kept.bytes + bytes <= sizeof kept.text)
    append(text, bytes);
  else
    for (size_t i = 0; i < bytes; i++)
      kept.missed += text[i] == '\n';
  if (!kept.has_thread)
    start_thread();
  pthread_cond_broadcast(&kept.changed);
  pthread_mutex_unlock(&kept.lock);
  return (ssize_t)bytes;
}

void unblocked_begin(void) {
  static char line[LINE_BYTES];
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&kept.changed, &attributes);
  FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = keep});
  if (!stream)
    return;
  setvbuf(stream, line, _IOLBF, sizeof line);
  stderr = stream;
  kept.begun = true;
  atexit(unblocked_end);
}

/* Returns whether any was taken in time, or someone is there to take it. Called with the lock. */
static bool wait_for_reader(void) {
  size_t before = kept.bytes;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += PATIENCE_S;
  while (kept.bytes == before)
    if (pthread_cond_timedwait(&kept.changed, &kept.lock, &until) == ETIMEDOUT)
      return isatty(STDERR_FILENO) == 1;
  return true;
}

void unblocked_end(void) {
  static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
  if (!kept.begun)
    return;
  fflush(stderr);
  for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
    signal(ending[i], SIG_DFL);
  pthread_mutex_lock(&kept.lock);
  bool patient = true;
  while (kept.bytes && patient) {
    if (kept.has_thread)
      patient = wait_for_reader();
    else
      pass_part_on();
    append_missed(0);
  }
  pthread_mutex_unlock(&kept.lock);
  kept.begun = false;
}

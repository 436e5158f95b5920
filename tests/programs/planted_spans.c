/* SPDX-License-Identifier: MIT */
/* Marks spans as a test runner does, with objects of known sizes in and between them (convert/test/test_spans.py).
   With an argument it kills itself in the last span. */
#include "capture/wire/heaptape.h"
#include "core/test/usual.h"

/* Hidden from the compiler, which would otherwise remove malloc and free together. */
static void *volatile kept[4];

static void *acquire(size_t size_bytes, const char *place) {
  heaptape_mark(place);
  return malloc(size_bytes);
}

static void *in_thread(void *unused) {
  (void)unused;
  kept[0] = acquire(700000, "heaptape:at 3");
  free(kept[0]);
  kept[1] = malloc(70);
  return NULL;
}

static void begin(const char *text) {
  heaptape_mark(text);
  heaptape_mark("heaptape:own");
}

static void end(void) {
  heaptape_mark("heaptape:rest");
  heaptape_mark("heaptape:end");
}

/* The peak is 3000000 + 2000000 bytes at places 1 and 2; 11 bytes are left. */
static void peak_span(void) {
  begin("heaptape:begin peak");
  void *first = kept[0] = acquire(1000000, "heaptape:at 1");
  void *second = kept[1] = acquire(2000000, "heaptape:at 2");
  first = kept[0] = realloc(first, 3000000);
  free(second);
  free(first);
  kept[2] = malloc(11);
  end();
}

/* Objects that fixtures acquire and releases of older objects do not count; a realloc of an older object does. */
static void rest_span(void *older, void *resized) {
  begin("heaptape:begin rest");
  free(older);
  heaptape_mark("heaptape:rest");
  kept[3] = malloc(5000000);
  heaptape_mark("heaptape:own");
  kept[0] = realloc(resized, 40000);
  end();
}

static int thread_span(void) {
  pthread_t thread;
  begin("heaptape:begin thread");
  if (pthread_create(&thread, NULL, in_thread, NULL) != 0 || pthread_join(thread, NULL) != 0)
    return 1;
  end();
  return 0;
}

int main(int argc, char **argv) {
  (void)argv;
  void *older = kept[0] = malloc(900000), *resized = kept[1] = malloc(30000);
  peak_span();
  rest_span(older, resized);
  heaptape_mark("a mark of the program's own");
  if (thread_span() != 0)
    return 1;
  begin("heaptape:begin last");
  kept[0] = malloc(123456);
  if (argc > 1)
    kill(getpid(), SIGKILL);
  end();
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* Marks of several threads come back complete and at their place: after as many events of their thread as it had made.
   Texts have all lengths up to 255 bytes, and are cut between characters beyond that; also by a thread that has no
   event before it, in a pause, and with more marks than the ring holds. */
#include "capture/test/hosts/recording.h"
#include "capture/wire/heaptape.h"
#include "core/trace/read/trace_read.h"

#include <pthread.h>
#include <string.h>

enum { THREADS = 3, MARKS = 6000, BYTES = 40 };

/* A text that holds its own thread, number and length. */
static void make_text(char *text, int thread, int number) {
  int length = 20 + number % 236;
  memset(text, 'a' + number % 26, (size_t)length);
  char head[21];
  snprintf(head, sizeof head, "%02d %07d %07d ", thread, number, length);
  memcpy(text, head, 19);
  text[length] = '\0';
}

static void *work(void *argument) {
  int thread = *(int *)argument;
  char text[300];
  for (int i = 0; i < MARKS; i++) {
    make_text(text, thread, i);
    heaptape_mark(text);
    free(keep(malloc(BYTES)));
  }
  return NULL;
}

int host(void) {
  char text[300];
  memset(text, 'x', sizeof text);
  memcpy(text + 254, "\xc3\xa9", 2); /* a character across byte 255 */
  text[299] = '\0';
  heaptape_pause();
  heaptape_mark(text);
  heaptape_mark(NULL);
  heaptape_resume();
  pthread_t threads[THREADS];
  int numbers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    pthread_create(&threads[i], NULL, work, &numbers[i]);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  heaptape_mark("");
  return 0;
}

static struct {
  int seen[THREADS];
  uint64_t events_before[THREADS];
  int cut, empty;
} found;

static int visit(void *context, const struct trace_mark *mark) {
  (void)context;
  char expected[300];
  int thread, number;
  if (mark->text[0] == '\0') {
    found.empty++;
  } else if (mark->text[0] == 'x') {
    found.cut++;
    CHECK(strlen(mark->text) == 254, "cut to %zu bytes", strlen(mark->text));
  } else {
    CHECK(sscanf(mark->text, "%d %d", &thread, &number) == 2 && thread < THREADS, "%s", mark->text);
    make_text(expected, thread, number);
    CHECK(strcmp(mark->text, expected) == 0, "%s is not %s", mark->text, expected);
    CHECK(number == found.seen[thread], "mark %d of thread %d came as number %d", number, thread, found.seen[thread]);
    if (number == 0)
      found.events_before[thread] = mark->events;
    CHECK(mark->events == found.events_before[thread] + 2u * (unsigned)number, "mark %d after %llu events", number,
          (unsigned long long)mark->events);
    found.seen[thread]++;
  }
  return 0;
}

int test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  struct error error = {""};
  struct trace_reader *reader;
  CHECK(trace_reader_open(&reader, "t.tape", &error) == 0, "%s", error.text);
  CHECK(trace_reader_marks(reader, visit, NULL, &error) == 0, "%s", error.text);
  trace_reader_close(reader);
  for (int i = 0; i < THREADS; i++)
    CHECK(found.seen[i] == MARKS, "%d marks of thread %d", found.seen[i], i);
  CHECK(found.cut == 1 && found.empty == 1, "%d cut and %d empty marks", found.cut, found.empty);
  return 0;
}

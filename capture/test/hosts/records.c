/* SPDX-License-Identifier: MIT */
#include "capture/test/hosts/recording.h"
#include "capture/wire/heaptape.h"
#include "core/trace/read/trace_read.h"

/* An allocator whose calloc and realloc call its own malloc: the program's calls are events, the allocator's are not.
   Excluded calls are not either. */

enum { NESTED_ROUNDS = 1000, NESTED_BYTES = 99 };

static int nested_host(void) {
  for (int i = 0; i < NESTED_ROUNDS; i++)
    free(keep(realloc(keep(calloc(1, NESTED_BYTES)), NESTED_BYTES)));
  heaptape_exclude();
  heaptape_exclude();
  free(keep(malloc(NESTED_BYTES)));
  heaptape_include();
  free(keep(malloc(NESTED_BYTES)));
  heaptape_include();
  free(keep(malloc(NESTED_BYTES + 1)));
  return 0;
}

static int nested_test(void) {
  record_self_on_bump();
  struct recorded recorded = read_trace("t.tape", NULL, NULL);
  static const int calls[] = {CALL_malloc, CALL_calloc, CALL_realloc};
  for (int i = 0; i < 3; i++) {
    uint64_t count = count_events("t.tape", calls[i], NESTED_BYTES);
    CHECK(count == (i ? NESTED_ROUNDS : 0), "%lu calls of call %d", count, calls[i]);
  }
  CHECK(count_events("t.tape", CALL_malloc, NESTED_BYTES + 1) == 1, "the last malloc is missing");
  CHECK(recorded.nested == 0, "%ld calls of the allocator reached us", recorded.nested);
  return 0;
}

/* With --on-full=drop and a collector that stands still, two threads drop events and never wait: recorded + dropped =
 * calls. */

enum { DROP_ROUNDS = 60000, DROP_BYTES = 6666 };

static void *run(void *context) {
  (void)context;
  for (int i = 0; i < DROP_ROUNDS; i++)
    free(keep(realloc(keep(aligned_alloc(64, DROP_BYTES)), DROP_BYTES + 64)));
  return NULL;
}

static int drop_host(void) {
  kill(getppid(), SIGSTOP);
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL) != 0)
    return 1;
  run(NULL);
  pthread_join(thread, NULL);
  kill(getppid(), SIGCONT);
  for (int i = 0; i < 4; i++) { /* the trace continues after the gap */
    usleep(5000);
    run(NULL);
  }
  return 0;
}

static int drop_test(void) {
  int status = record_self((const char *const[]){"--on-full", "drop", NULL});
  CHECK(status == 0, "status %x", status);
  struct recorded recorded = read_trace("t.tape", NULL, NULL);
  uint64_t calls = (uint64_t)6 * 3 * DROP_ROUNDS,
           counted = recorded.calls[CALL_aligned_alloc] + recorded.calls[CALL_realloc] + recorded.calls[CALL_free];
  uint64_t others = recorded.events - counted; /* pthread_create's calloc, which may itself have been dropped */
  CHECK(recorded.dropped > 1000 && recorded.calls[CALL_aligned_alloc] > 1000, "%lu dropped", recorded.dropped);
  uint64_t accounted = counted + others + recorded.dropped;
  CHECK(accounted >= calls && accounted <= calls + 8, "%lu recorded, %lu dropped, of %lu calls", recorded.events,
        recorded.dropped, calls);
  return 0;
}

/* The resident OS pages that the trace has for a large object are that object's own, with threads that allocate and
   release at the same time, and with more live objects than some sets of the table hold: some of those are not known.
 */

enum {
  LARGE_THREADS = 4,
  LARGE_ROUNDS = 2000,
  CROWD = 15000,
  PAGE_BYTES = 4096,
  PAGES_MAX = 15,
  LARGE_OBJECT_BYTES = 64 * PAGE_BYTES
};

/* The request encodes how many OS pages will be touched: 0 or 2 .. PAGES_MAX. */
static char *object_of(unsigned pages) {
  volatile char *object = keep(malloc(LARGE_OBJECT_BYTES + 16 * pages));
  for (unsigned i = 0; i < pages; i++)
    object[i * PAGE_BYTES] = 1;
  return (char *)object;
}

static unsigned pages_of(unsigned seed) {
  unsigned pages = seed * 2654435761u >> 28;
  return pages == 1 ? 0 : pages;
}

static void *large_work(void *argument) {
  unsigned seed = *(unsigned *)argument;
  for (unsigned i = 0; i < LARGE_ROUNDS; i++)
    free(object_of(pages_of(seed += 7)));
  return NULL;
}

static char *crowd[CROWD];

static int large_host(void) {
  mallopt(M_MMAP_THRESHOLD,
          LARGE_OBJECT_BYTES /
              2); /* fixed, and larger than an arena's first memory: no memory that was resident before */
  unsigned seeds[LARGE_THREADS];
  for (unsigned i = 0; i < LARGE_THREADS; i++)
    seeds[i] = i * 1000003;
  run_threads(LARGE_THREADS, large_work, seeds, sizeof *seeds);
  for (unsigned i = 0; i < CROWD; i++)
    crowd[i] = object_of(i % 16 == 0 ? 2 + i / 16 % 4 : 0);
  for (int i = 0; i < CROWD; i++)
    free(crowd[i]);
  return 0;
}

static struct {
  uint32_t thread;
  int first, count;
  long known, unknown;
  struct {
    uint64_t address;
    unsigned pages;
  } live[CROWD + 1]; /* in the order of their releases */
} large_seen;

static void large_compare(void *context, uint32_t thread, const struct trace_event *event) {
  (void)context;
  if (large_seen.thread != thread || large_seen.first == large_seen.count)
    large_seen.first = large_seen.count = 0;
  large_seen.thread = thread;
  if (event->call == CALL_malloc && event->size_bytes - LARGE_OBJECT_BYTES <= 16 * PAGES_MAX &&
      large_seen.count < CROWD) {
    large_seen.live[large_seen.count].address = event->acquired;
    large_seen.live[large_seen.count++].pages = (unsigned)(event->size_bytes - LARGE_OBJECT_BYTES) / 16;
  } else if (event->call == CALL_free && large_seen.first < large_seen.count &&
             event->released == large_seen.live[large_seen.first].address) {
    unsigned pages = large_seen.live[large_seen.first++].pages;
    CHECK(!event->touched_os_pages || event->touched_os_pages == pages + 1, "%u OS pages, not %u", pages,
          event->touched_os_pages - 1);
    large_seen.known += event->touched_os_pages != 0;
    large_seen.unknown += event->touched_os_pages == 0;
  }
}

static int large_test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  read_trace("t.tape", large_compare, NULL);
  CHECK(large_seen.known + large_seen.unknown == LARGE_THREADS * LARGE_ROUNDS + CROWD, "%ld known, %ld unknown",
        large_seen.known, large_seen.unknown);
  CHECK(large_seen.known > LARGE_THREADS * LARGE_ROUNDS + CROWD / 2, "only %ld known", large_seen.known);
  CHECK(large_seen.unknown > 0, "no set was ever full, so this shows nothing");
  return 0;
}

/* The touched OS pages of large objects that are never freed are in the trace when the program ends by exit or by
   return from main; a freed object is not among them, and a program that ends by _exit leaves none of them. */

enum { EXIT_OBJECT_BYTES = 1 << 20 };

static void *touched_object(long os_pages) {
  char *object = keep(malloc(EXIT_OBJECT_BYTES));
  for (long i = 0; i < os_pages; i++)
    ((volatile char *)object)[i * sysconf(_SC_PAGESIZE)] = 1;
  return object;
}

static int exit_host(void) {
  mallopt(M_MMAP_THRESHOLD, 128 << 10); /* fixed: memory that was resident before is not handed out again */
  touched_object(11);
  touched_object(0);
  touched_object(40);
  free(touched_object(77));
  volatile char *sparse = keep(malloc(EXIT_OBJECT_BYTES));
  sparse[5 << 16] = sparse[(9 << 16) + 5000] = 1;
  keep(malloc(1000));
  if (strcmp(host_arguments[0], "quick") == 0)
    _exit(0);
  return 0;
}

struct exit_seen {
  uint32_t rows;
  uint32_t os_pages[16], parts;
};

static int note(void *context, uint64_t address, struct touched touched) {
  struct exit_seen *seen = context;
  CHECK(address && seen->rows < 16, "row %u at %lx", seen->rows, address);
  seen->parts |= touched.parts;
  seen->os_pages[seen->rows++] = touched.os_pages;
  return 0;
}

static int by_value(const void *left, const void *right) {
  return (int)*(const uint32_t *)left - (int)*(const uint32_t *)right;
}

static struct exit_seen exit_record(const char *how) {
  struct exit_seen seen = {0};
  struct error error = {0};
  struct trace_reader *reader;
  CHECK(record_program(NULL, (const char *const[]){self_path(), "host", how, NULL}) == 0, "the host failed");
  CHECK(trace_reader_open(&reader, "t.tape", &error) == 0, "%s", error.text);
  CHECK(trace_reader_touched(reader, note, &seen, &error) == 0, "%s", error.text);
  trace_reader_close(reader);
  qsort(seen.os_pages, seen.rows, sizeof *seen.os_pages, by_value);
  return seen;
}

static int exit_test(void) {
  struct exit_seen seen = exit_record("slow");
  const uint32_t *os_pages = seen.os_pages;
  CHECK(seen.rows == 4, "%u rows", seen.rows);
  CHECK(os_pages[0] == 0 && os_pages[1] == 2 && os_pages[2] == 11 && os_pages[3] == 40, "%u, %u, %u and %u OS pages",
        os_pages[0], os_pages[1], os_pages[2], os_pages[3]);
  CHECK(seen.parts == (1 << 5 | 1 << 9), "only of the sparse object is it recorded where: %x", seen.parts);
  seen = exit_record("quick");
  CHECK(seen.rows == 0, "%u rows after _exit", seen.rows);
  return 0;
}

/* Marks of several threads come back complete and at their place: after as many events of their thread as it had made.
   Texts have all lengths up to 255 bytes, and are cut between characters beyond that; also by a thread that has no
   event before it, in a pause, and with more marks than the ring holds. */

enum { MARKS_THREADS = 3, MARKS = 6000, MARKS_BYTES = 40 };

/* A text that holds its own thread, number and length. */
static void make_text(char *text, int thread, int number) {
  int length = 20 + number % 236;
  memset(text, 'a' + number % 26, (size_t)length);
  char head[21];
  snprintf(head, sizeof head, "%02d %07d %07d ", thread, number, length);
  memcpy(text, head, 19);
  text[length] = '\0';
}

static void *marks_work(void *argument) {
  int thread = *(int *)argument;
  char text[300];
  for (int i = 0; i < MARKS; i++) {
    make_text(text, thread, i);
    heaptape_mark(text);
    free(keep(malloc(MARKS_BYTES)));
  }
  return NULL;
}

static int marks_host(void) {
  char text[300];
  memset(text, 'x', sizeof text);
  memcpy(text + 254, "\xc3\xa9", 2); /* a character across byte 255 */
  text[299] = '\0';
  heaptape_pause();
  heaptape_mark(text);
  heaptape_mark(NULL);
  heaptape_resume();
  int numbers[MARKS_THREADS] = {0, 1, 2};
  run_threads(MARKS_THREADS, marks_work, numbers, sizeof *numbers);
  heaptape_mark("");
  return 0;
}

static struct {
  int seen[MARKS_THREADS];
  uint64_t events_before[MARKS_THREADS];
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
    CHECK(sscanf(mark->text, "%d %d", &thread, &number) == 2 && thread < MARKS_THREADS, "%s", mark->text);
    make_text(expected, thread, number);
    CHECK(strcmp(mark->text, expected) == 0, "%s is not %s", mark->text, expected);
    CHECK(number == found.seen[thread], "mark %d of thread %d came as number %d", number, thread, found.seen[thread]);
    if (number == 0)
      found.events_before[thread] = mark->events;
    CHECK(mark->events == found.events_before[thread] + 2u * (unsigned)number, "mark %d after %lu events", number,
          mark->events);
    found.seen[thread]++;
  }
  return 0;
}

static int marks_test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  struct error error = {0};
  struct trace_reader *reader;
  CHECK(trace_reader_open(&reader, "t.tape", &error) == 0, "%s", error.text);
  CHECK(trace_reader_marks(reader, visit, NULL, &error) == 0, "%s", error.text);
  trace_reader_close(reader);
  for (int i = 0; i < MARKS_THREADS; i++)
    CHECK(found.seen[i] == MARKS, "%d marks of thread %d", found.seen[i], i);
  CHECK(found.cut == 1 && found.empty == 1, "%d cut and %d empty marks", found.cut, found.empty);
  return 0;
}

/* realloc(p, 0), a failed realloc, free(NULL), a failed posix_memalign, an overflowing reallocarray and the like:
   events hold the request and the result. */

enum { ODD_MARK_BYTES = 4321 };
static volatile size_t odd_huge = SIZE_MAX; /* volatile: the compiler warns of calls it knows to be too large */

static int odd_host(void) {
  void *other = NULL;
  void *object = keep(malloc(ODD_MARK_BYTES));
  void *same = object; /* hides from the compiler that a failed resize leaves the object alone */
  __asm__ volatile("" : "+r"(same));
  if (keep(realloc(object, odd_huge / 2)))
    return 2;
  void *gone = keep(realloc(same, 0));
  free(gone);
  free(keep(NULL));
  object = keep(realloc(NULL, ODD_MARK_BYTES));
  same = object;
  __asm__ volatile("" : "+r"(same));
  if (keep(reallocarray(object, odd_huge, 16))) /* overflows */
    return 3;
  object = same;
  malloc_usable_size(object);
  malloc_usable_size(keep(NULL));
  object = keep(reallocarray(object, 3, ODD_MARK_BYTES));
  free(object);
  if (posix_memalign(&other, 3, ODD_MARK_BYTES) == 0 || posix_memalign(&other, 64, ODD_MARK_BYTES) != 0)
    return 1;
  free(other);
  free(keep(calloc(3, ODD_MARK_BYTES)));
  free(keep(aligned_alloc(128, ODD_MARK_BYTES)));
  free(keep(malloc(odd_huge / 2)));
  return 0;
}

#define N CALL_NULL_IN
#define F CALL_NULL_OUT
static const struct odd_expected {
  uint8_t call;
  uint64_t size, param;
} odd_expected[] = {
    {CALL_malloc, ODD_MARK_BYTES, 0},
    {CALL_realloc | F, SIZE_MAX / 2, 0},
    {CALL_realloc | F, 0, 0},
    {CALL_free | N, 0, 0},
    {CALL_free | N, 0, 0},
    {CALL_realloc | N, ODD_MARK_BYTES, 0},
    {CALL_reallocarray | F, 16, SIZE_MAX},
    {CALL_malloc_usable_size, 0, 0},
    {CALL_malloc_usable_size | N, 0, 0},
    {CALL_reallocarray, ODD_MARK_BYTES, 3},
    {CALL_free, 0, 0},
    {CALL_posix_memalign | F, ODD_MARK_BYTES, 3},
    {CALL_posix_memalign, ODD_MARK_BYTES, 64},
    {CALL_free, 0, 0},
    {CALL_calloc, ODD_MARK_BYTES, 3},
    {CALL_free, 0, 0},
    {CALL_aligned_alloc, ODD_MARK_BYTES, 128},
    {CALL_free, 0, 0},
    {CALL_malloc | F, SIZE_MAX / 2, 0},
    {CALL_free | N, 0, 0},
};
enum { ODD_EXPECTED = sizeof odd_expected / sizeof *odd_expected };

static void odd_compare(void *context, uint32_t thread, const struct trace_event *event) {
  int *at = context;
  (void)thread;
  if (*at == 0 && event->size_bytes != ODD_MARK_BYTES)
    return; /* the program has not begun */
  if (*at >= ODD_EXPECTED)
    return; /* it has ended */
  const struct odd_expected *e = &odd_expected[*at];
  CHECK(event->call == e->call && event->size_bytes == e->size && event->param == e->param,
        "event %d: call %#x size %#lx param %#lx", *at, event->call, event->size_bytes, event->param);
  ++*at;
}

static int odd_test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  int at = 0;
  read_trace("t.tape", odd_compare, &at);
  CHECK(at == ODD_EXPECTED, "only %d of %d events", at, ODD_EXPECTED);
  return 0;
}

/* heaptape_pause hides the calls of all threads until heaptape_resume; the trace has a gap of exactly as many calls,
   also for threads that start in the pause, for one that makes no call after it, and for a fork child of a paused
   program. */

enum { PAUSE_THREADS = 4, SEEN = 1000, HIDDEN = 777, SEEN_BYTES = 40, HIDDEN_BYTES = 72 };

static pthread_barrier_t before, after;

static void call(int pairs, size_t bytes) {
  for (int i = 0; i < pairs; i++)
    free(keep(malloc(bytes)));
}

static void *pause_work(void *last_calls_are_hidden) {
  call(SEEN, SEEN_BYTES);
  pthread_barrier_wait(&before);
  pthread_barrier_wait(&after); /* paused from here ... */
  call(HIDDEN, HIDDEN_BYTES);
  pthread_barrier_wait(&before);
  pthread_barrier_wait(&after); /* ... to here */
  if (!last_calls_are_hidden)
    call(SEEN, SEEN_BYTES);
  return NULL;
}

static void *born_in_pause(void *unused) {
  call(HIDDEN, HIDDEN_BYTES);
  return unused;
}

static int pause_host(void) {
  pthread_t threads[PAUSE_THREADS];
  pthread_barrier_init(&before, NULL, PAUSE_THREADS + 1);
  pthread_barrier_init(&after, NULL, PAUSE_THREADS + 1);
  for (int i = 0; i < PAUSE_THREADS; i++)
    pthread_create(&threads[i], NULL, pause_work, i == 0 ? &threads : NULL);
  pthread_barrier_wait(&before);
  heaptape_pause();
  heaptape_pause();
  heaptape_resume();
  pthread_barrier_wait(&after);
  run_threads(1, born_in_pause, NULL, 0);
  int child = fork();
  if (child == 0) {
    call(HIDDEN, HIDDEN_BYTES);
    heaptape_resume();
    call(SEEN, SEEN_BYTES);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  pthread_barrier_wait(&before);
  heaptape_resume();
  pthread_barrier_wait(&after);
  for (int i = 0; i < PAUSE_THREADS; i++)
    pthread_join(threads[i], NULL);
  return 0;
}

static int pause_test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  char paths[3][256];
  CHECK(list_traces(paths, 3) == 2, "not the traces of parent and child");
  for (int i = 0; i < 2; i++) {
    bool child = strcmp(paths[i], "t.tape") != 0;
    struct recorded recorded = read_trace(paths[i], NULL, NULL);
    uint64_t counts[2] = {count_events(paths[i], -1, SEEN_BYTES), count_events(paths[i], -1, HIDDEN_BYTES)};
    uint64_t seen = child ? SEEN : (2 * PAUSE_THREADS - 1) * SEEN,
             hidden = 2ull * HIDDEN * (child ? 1 : PAUSE_THREADS + 1);
    CHECK(counts[0] == seen, "%s: %lu allocations seen, not %lu", paths[i], counts[0], seen);
    CHECK(counts[1] == 0, "%s: %lu hidden ones seen", paths[i], counts[1]);
    /* The C library's own calls, for the start of the thread and its end. */
    CHECK(recorded.dropped >= hidden && recorded.dropped <= hidden + 40, "%s: %lu calls counted, not %lu", paths[i],
          recorded.dropped, hidden);
  }
  return 0;
}

/* C23's sized frees are recorded with their sizes and reach the allocator's own; where it has none, its free. A
   reallocarray that another library implements by realloc is one event, as is its aligned_alloc by memalign. */

enum { SIZED_ROUNDS = 100, SIZED_BYTES = 123, ALIGN_BYTES = 16 };

/* Not in this libc: libheaptape.so has them, where the program is recorded. */
__attribute__((weak)) void free_sized(void *object, size_t size);
__attribute__((weak)) void free_aligned_sized(void *object, size_t align, size_t size);

static int sized_host(void) {
  union {
    void *data;
    size_t (*code)(void);
  } sized_frees = {dlsym(RTLD_DEFAULT, "sized_frees")};
  for (int i = 0; i < SIZED_ROUNDS; i++) {
    free_sized(keep(malloc(SIZED_BYTES)), SIZED_BYTES);
    free_aligned_sized(keep(malloc(SIZED_BYTES)), ALIGN_BYTES, SIZED_BYTES);
    free(keep(reallocarray(keep(malloc(SIZED_BYTES)), 2, SIZED_BYTES)));
    free(keep(aligned_alloc(ALIGN_BYTES, ALIGN_BYTES)));
  }
  return sized_frees.data && sized_frees.code() != 2 * SIZED_ROUNDS;
}

struct sized_seen {
  int sized, aligned, resized, plain_resized;
};

static void sized_count(void *context, uint32_t thread, const struct trace_event *event) {
  struct sized_seen *seen = context;
  (void)thread;
  if (event->size_bytes != SIZED_BYTES)
    return;
  int id = event->call & CALL_ID_MASK;
  seen->sized += id == CALL_free_sized;
  seen->aligned += id == CALL_free_aligned_sized && event->param == ALIGN_BYTES;
  seen->resized += id == CALL_reallocarray && event->param == 2;
  seen->plain_resized += id == CALL_realloc;
}

static void try_on(const char *first, const char *second) {
  char preload[2][512];
  const char *options[8] = {NULL}, *libraries[2] = {first, second};
  int used = 0;
  for (int i = 0; i < 2 && libraries[i]; i++) {
    snprintf(preload[i], sizeof preload[i], "%s", built_file(libraries[i]));
    options[used++] = "--preload";
    options[used++] = preload[i];
  }
  CHECK(record_self(options) == 0, "the host failed on %s", first ? first : "the C library");
  struct sized_seen seen = {0};
  struct recorded recorded = read_trace("t.tape", sized_count, &seen);
  CHECK(seen.sized == SIZED_ROUNDS && seen.aligned == SIZED_ROUNDS, "%d sized, %d aligned", seen.sized, seen.aligned);
  CHECK(seen.resized == SIZED_ROUNDS && seen.plain_resized == 0, "%d reallocarray, %d realloc of the same size",
        seen.resized, seen.plain_resized);
  CHECK(recorded.calls[CALL_realloc] == 0, "%ld calls of realloc", (long)recorded.calls[CALL_realloc]);
  CHECK(recorded.calls[CALL_aligned_alloc] == SIZED_ROUNDS && recorded.calls[CALL_memalign] == 0,
        "%ld calls of aligned_alloc, %ld of memalign", (long)recorded.calls[CALL_aligned_alloc],
        (long)recorded.calls[CALL_memalign]);
}

static int sized_test(void) {
  try_on(NULL, NULL);
  try_on("lib/test/libbump.so", NULL);
  try_on("lib/test/libforwards.so", "lib/test/libbump.so");
  return 0;
}

/* The trace has the number of OS pages of a large object that were resident when it was released by free, realloc or
   reallocarray, and none for smaller objects, for failed resizes, or with --touch-min 0. The host's errno is
   unchanged. */

enum {
  TOUCH_MARK_BYTES = 4321,
  TOUCH_OBJECT_BYTES = 1 << 20,
  BIG_BYTES = 40 << 20,
  SMALL_BYTES = 60000,
  LEAST_BYTES = 64 << 10
};
static volatile size_t touch_huge = SIZE_MAX;
static long page_bytes;

static char *touch(char *object, long pages) {
  for (long i = 0; i < pages; i++)
    ((volatile char *)object)[i * page_bytes] = 1;
  return object;
}

static void release(char *object) {
  errno = 1234;
  free(object);
  if (errno != 1234)
    _exit(3);
}

static int touch_host(void) {
  page_bytes = sysconf(_SC_PAGESIZE);
  mallopt(M_MMAP_THRESHOLD, 128 << 10); /* fixed: memory that was resident before is not handed out again */
  free(keep(malloc(TOUCH_MARK_BYTES)));
  release(keep(malloc(TOUCH_OBJECT_BYTES)));
  release(touch(keep(malloc(TOUCH_OBJECT_BYTES)), 10));
  char *all = keep(malloc(TOUCH_OBJECT_BYTES));
  memset(all, 1, TOUCH_OBJECT_BYTES);
  release(all);
  char *aligned = keep(aligned_alloc(1 << 16, TOUCH_OBJECT_BYTES));
  release(touch(aligned, 7));

  char *grown = touch(keep(malloc(TOUCH_OBJECT_BYTES)), 20);
  grown = keep(realloc(grown, 3 * TOUCH_OBJECT_BYTES));
  grown = keep(reallocarray(touch(grown, 30), BIG_BYTES / 8, 8));
  char *same = grown;
  __asm__ volatile("" : "+r"(same));
  if (keep(realloc(same, touch_huge / 2)))
    return 2;
  memset(grown, 1, BIG_BYTES / 2);
  grown = keep(realloc(grown, BIG_BYTES + TOUCH_OBJECT_BYTES)); /* sampled */
  grown = keep(realloc(grown, TOUCH_MARK_BYTES));
  release(grown);

  release(touch(keep(calloc(16, LEAST_BYTES)), 5));
  char *small = keep(malloc(SMALL_BYTES));
  memset(small, 1, SMALL_BYTES);
  release(small);
  return 0;
}

#define UNKNOWN -1
static const struct touch_expected {
  uint8_t call;
  long least, most;
} touch_expected[] = {
    {CALL_free, 0, 0},
    {CALL_free, 10, 10},
    {CALL_free, 256, 256},
    {CALL_free, 7, 7},
    {CALL_realloc, 20, 20},
    {CALL_reallocarray, 30, 30},
    {CALL_realloc | CALL_NULL_OUT, UNKNOWN, UNKNOWN},
    {CALL_realloc, 5120 * 29 / 32, 5120 * 35 / 32},
    {CALL_realloc, 5120 * 29 / 32, 5120 * 35 / 32},
    {CALL_free, UNKNOWN, UNKNOWN},
    {CALL_free, 5, 5},
    {CALL_free, UNKNOWN, UNKNOWN},
};
enum { TOUCH_EXPECTED = sizeof touch_expected / sizeof *touch_expected };

static struct {
  uint64_t mark;
  int at;
  long known;
  bool off;
} touch_seen;

static void touch_compare(void *context, uint32_t thread, const struct trace_event *event) {
  (void)context;
  (void)thread;
  touch_seen.known += event->touched_os_pages != 0;
  if (event->call == CALL_malloc && event->size_bytes == TOUCH_MARK_BYTES && !touch_seen.mark)
    touch_seen.mark = event->acquired;
  if (!touch_seen.mark || !trace_event_takes(event) || (touch_seen.at == 0 && event->released == touch_seen.mark) ||
      touch_seen.at == TOUCH_EXPECTED)
    return;
  const struct touch_expected *e = &touch_expected[touch_seen.at];
  long touched = (long)event->touched_os_pages - 1;
  CHECK(event->call == e->call, "release %d: call %#x", touch_seen.at, event->call);
  CHECK(touch_seen.off ? touched == UNKNOWN : touched >= e->least && touched <= e->most, "release %d: %ld OS pages",
        touch_seen.at, touched);
  touch_seen.at++;
}

static void touch_record(const char *touch_min, bool off) {
  CHECK(record_self((const char *const[]){"--touch-min", touch_min, NULL}) == 0, "the host failed");
  memset(&touch_seen, 0, sizeof touch_seen);
  touch_seen.off = off;
  read_trace("t.tape", touch_compare, NULL);
  CHECK(touch_seen.at == TOUCH_EXPECTED, "only %d of %d releases", touch_seen.at, TOUCH_EXPECTED);
  CHECK((touch_seen.known == 0) == off, "%ld releases known", touch_seen.known);
}

static int touch_test(void) {
  touch_record("65536", false);
  touch_record("0", true);
  return 0;
}

const struct claim claims[] = {
    {"calls_made_by_the_allocator_are_no_events", nested_test, nested_host, ANYWHERE},
    {"drop_policy_counts_exactly", drop_test, drop_host, ANYWHERE},
    {"large_objects_are_never_mistaken_for_others", large_test, large_host, OS_PAGES_OF_4_KIB},
    {"large_objects_live_at_exit_are_recorded", exit_test, exit_host, ANYWHERE},
    {"marks_stand_where_the_program_set_them", marks_test, marks_host, ANYWHERE},
    {"odd_calls_are_recorded_truly", odd_test, odd_host, ANYWHERE},
    {"paused_calls_are_counted_not_recorded", pause_test, pause_host, ANYWHERE},
    {"sized_frees_reach_an_allocator_that_has_them", sized_test, sized_host, ANYWHERE},
    {"touched_os_pages_of_large_objects_are_recorded", touch_test, touch_host, OS_PAGES_OF_4_KIB},
    {.name = NULL},
};

/* SPDX-License-Identifier: MIT */
/* The resident OS pages that the trace has for a large object are that object's own, with threads that allocate and
   release at the same time, and with more live objects than some sets of the table hold: some of those are not known.
 */
#include "capture/test/hosts/recording.h"

#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 2000, CROWD = 15000, PAGE_BYTES = 4096, PAGES_MAX = 15, OBJECT_BYTES = 64 * PAGE_BYTES };

/* The request encodes how many OS pages will be touched: 0 or 2 .. PAGES_MAX. */
static char *object_of(unsigned pages) {
  volatile char *object = keep(malloc(OBJECT_BYTES + 16 * pages));
  for (unsigned i = 0; i < pages; i++)
    object[i * PAGE_BYTES] = 1;
  return (char *)object;
}

static unsigned pages_of(unsigned seed) {
  unsigned pages = seed * 2654435761u >> 28;
  return pages == 1 ? 0 : pages;
}

static void *work(void *argument) {
  unsigned seed = *(unsigned *)argument;
  for (unsigned i = 0; i < ROUNDS; i++)
    free(object_of(pages_of(seed += 7)));
  return NULL;
}

static char *crowd[CROWD];

int host(void) {
  mallopt(M_MMAP_THRESHOLD,
          OBJECT_BYTES / 2); /* fixed, and larger than an arena's first memory: no memory that was resident before */
  pthread_t threads[THREADS];
  unsigned seeds[THREADS];
  for (unsigned i = 0; i < THREADS; i++) {
    seeds[i] = i * 1000003;
    pthread_create(&threads[i], NULL, work, &seeds[i]);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
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
} seen;

static void compare(void *context, uint32_t thread, const struct trace_event *event) {
  (void)context;
  if (seen.thread != thread || seen.first == seen.count)
    seen.first = seen.count = 0;
  seen.thread = thread;
  if (event->call == CALL_malloc && event->size_bytes - OBJECT_BYTES <= 16 * PAGES_MAX && seen.count < CROWD) {
    seen.live[seen.count].address = event->acquired;
    seen.live[seen.count++].pages = (unsigned)(event->size_bytes - OBJECT_BYTES) / 16;
  } else if (event->call == CALL_free && seen.first < seen.count && event->released == seen.live[seen.first].address) {
    unsigned pages = seen.live[seen.first++].pages;
    CHECK(!event->touched_os_pages || event->touched_os_pages == pages + 1, "%u OS pages, not %u", pages,
          event->touched_os_pages - 1);
    seen.known += event->touched_os_pages != 0;
    seen.unknown += event->touched_os_pages == 0;
  }
}

int test(void) {
  if (sysconf(_SC_PAGESIZE) != PAGE_BYTES) {
    puts("the numbers here are of OS pages of 4096 bytes");
    return 77;
  }
  CHECK(record_self(NULL) == 0, "the host failed");
  read_trace("t.tape", compare, NULL);
  CHECK(seen.known + seen.unknown == THREADS * ROUNDS + CROWD, "%ld known, %ld unknown", seen.known, seen.unknown);
  CHECK(seen.known > THREADS * ROUNDS + CROWD / 2, "only %ld known", seen.known);
  CHECK(seen.unknown > 0, "no set was ever full, so this shows nothing");
  return 0;
}

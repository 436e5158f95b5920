/* SPDX-License-Identifier: MIT */
/* An allocator whose calloc and realloc call its own malloc: the program's calls are events, the allocator's are
   counted. Excluded calls are neither. */
#include "capture/test/hosts/recording.h"
#include "capture/wire/heaptape.h"

enum { ROUNDS = 1000, BYTES = 99 };

int host(void) {
  for (int i = 0; i < ROUNDS; i++)
    free(keep(realloc(keep(calloc(1, BYTES)), BYTES)));
  heaptape_exclude();
  heaptape_exclude();
  free(keep(malloc(BYTES)));
  heaptape_include();
  free(keep(malloc(BYTES)));
  heaptape_include();
  free(keep(malloc(BYTES + 1)));
  return 0;
}

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  int *counts = context;
  (void)thread;
  int id = event->call & CALL_ID_MASK;
  if (event->size_bytes == BYTES || event->size_bytes == BYTES + 1)
    counts[id == CALL_malloc ? 0 : id == CALL_calloc ? 1 : 2]++;
}

int test(void) {
  record_self_on_bump();
  int counts[3] = {0};
  struct recorded recorded = read_trace("t.tape", count, counts);
  CHECK(counts[0] == 1 && counts[1] == ROUNDS && counts[2] == ROUNDS, "malloc %d, calloc %d, realloc %d", counts[0],
        counts[1], counts[2]);
  CHECK(recorded.nested >= 2 * ROUNDS && recorded.nested < 2 * ROUNDS + 100, "%ld nested", recorded.nested);
  return 0;
}

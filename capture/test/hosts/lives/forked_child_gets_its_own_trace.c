/* SPDX-License-Identifier: MIT */
/* A fork child, and its child, write their own traces; each holds its own process's calls and no others. */
#include "capture/test/hosts/recording.h"

#include <sys/wait.h>
#include <unistd.h>

enum { PARENT_BYTES = 1111, CHILD_BYTES = 2222, GRANDCHILD_BYTES = 3333, REPEATS = 5000 };

static void allocate(size_t bytes) {
  for (int i = 0; i < REPEATS; i++)
    free(keep(malloc(bytes)));
}

int host(void) {
  allocate(PARENT_BYTES);
  int child = fork(), status;
  if (child == 0) {
    allocate(CHILD_BYTES);
    int grandchild = fork();
    if (grandchild == 0) {
      allocate(GRANDCHILD_BYTES);
      _exit(0);
    }
    allocate(CHILD_BYTES);
    waitpid(grandchild, &status, 0);
    _exit(status ? 1 : 0);
  }
  allocate(PARENT_BYTES);
  waitpid(child, &status, 0);
  return status ? 1 : 0;
}

static void count_sizes(void *context, uint32_t thread, const struct trace_event *event) {
  int *counts = context;
  (void)thread;
  if ((event->call & CALL_ID_MASK) == CALL_malloc && event->size_bytes % 1111 == 0 && event->size_bytes <= 3333)
    counts[event->size_bytes / 1111]++;
}

static void check(const char *option, int traces) {
  CHECK(record_self((const char *const[]){option, NULL}) == 0, "the host failed");
  char paths[8][256];
  int found = list_traces(paths, 8);
  CHECK(found == traces, "%d traces, not %d", found, traces);
  int seen[4] = {0};
  for (int i = 0; i < found; i++) {
    int counts[4] = {0};
    read_trace(paths[i], count_sizes, counts);
    int kinds = 0;
    for (int k = 1; k < 4; k++) {
      kinds += counts[k] != 0;
      if (counts[k])
        seen[k] = counts[k];
    }
    CHECK(kinds == 1, "%s mixes processes: %d %d %d", paths[i], counts[1], counts[2], counts[3]);
    unlink(paths[i]);
  }
  CHECK(seen[1] == 2 * REPEATS, "%d calls of the parent", seen[1]);
  CHECK(traces == 1 || (seen[2] == 2 * REPEATS && seen[3] == REPEATS), "%d, %d calls of the children", seen[2],
        seen[3]);
}

int test(void) {
  check(NULL, 3);
  check("--no-follow", 1);
  return 0;
}

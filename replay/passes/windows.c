/* SPDX-License-Identifier: MIT */
#include "replay/passes/windows.h"

#include "core/system/valgrind_requests.h"

static struct {
  const struct window_edges *edges;
  uint32_t passed;
  uint64_t done, next; /* ops; UINT64_MAX: no more edges */
} windows = {.next = UINT64_MAX};

static void look_for_edge(void) {
  if (windows.passed < windows.edges->count && windows.edges->positions[windows.passed] == windows.done) {
    valgrind_request(VALGRIND_REQUEST_SNAPSHOT, (const unsigned long[VALGRIND_ARGUMENTS]){0});
    windows.passed++;
  }
  windows.next = windows.passed < windows.edges->count ? windows.edges->positions[windows.passed] : UINT64_MAX;
}

void windows_begin(const struct window_edges *edges) {
  windows.edges = edges;
  look_for_edge();
}

void windows_after_op(void) {
  if (++windows.done == windows.next)
    look_for_edge();
}

/* SPDX-License-Identifier: MIT */
#include "replay/memory/figures.h"

#include <string.h>

typedef void walk_visit(const void *address, size_t bytes, unsigned state, void *context);

/* Weak, not dlsym: a failing dlsym calls malloc for its message. */
extern void heaptape_heap_walk(walk_visit *visit, void *context) __attribute__((weak, visibility("default")));
extern const char *heaptape_heap_walk_state(unsigned state) __attribute__((weak, visibility("default")));

unsigned heap_walk_states(char names[WALK_STATES][WALK_STATE_NAME_BYTES]) {
  unsigned count = 0;
  if (!heaptape_heap_walk || !heaptape_heap_walk_state)
    return 0;
  for (const char *name; count < WALK_STATES && (name = heaptape_heap_walk_state(count)); count++) {
    strncpy(names[count], name, WALK_STATE_NAME_BYTES - 1);
    names[count][WALK_STATE_NAME_BYTES - 1] = '\0';
  }
  return count;
}

void heap_walk(walk_visit *visit, void *context) {
  heaptape_heap_walk(visit, context);
}

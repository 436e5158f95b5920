/* SPDX-License-Identifier: MIT */
#include "replay/engine/entry_points.h"

#include "core/trace/event.h"
#include "replay/calls/call.h"
#include "replay/engine/state.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>

static const char *library_path(void) {
  Dl_info about;
  return dladdr((void *)allocator.malloc, &about) && about.dli_fname ? about.dli_fname : "the allocator";
}

static bool lacks_any(void) {
  bool any = false;
  for (unsigned byte = 0; byte < 256; byte++)
    any |= call_lacks((uint8_t)byte);
  return any;
}

/* Lists the functions of which one is needed: the call's own and its substitutes. */
static void list_functions(uint8_t id, char *text, size_t bytes) {
  int length = snprintf(text, bytes, "%s", call_table[id].name);
  uint8_t before = id, next = call_substitute(id);
  for (int step = 0; step < MOST_SUBSTITUTES && next != before && next != id && (size_t)length < bytes; step++) {
    length += snprintf(text + length, bytes - (size_t)length, ", %s", call_table[next].name);
    before = next;
    next = call_substitute(next);
  }
}

__attribute__((noreturn)) static void refuse(uint8_t id, uint64_t op, uint32_t thread) {
  char functions[200];
  list_functions(id, functions, sizeof functions);
  engine_fail(NULL, "%s defines none of what op %" PRIu64 " of thread %" PRIu32 " needs: %s", library_path(), op,
              thread, functions);
}

static void check_stream(uint32_t thread) {
  struct workload_stream stream;
  workload_stream_open(&stream, &engine.workload, thread);
  uint64_t op = 0, word;
  bool apart = false; /* the next op is in memory apart */
  while (workload_stream_next(&stream, &word)) {
    uint8_t code = word_code(word);
    if (code == WORD_APART)
      apart = true;
    if (code >= WORD_APART)
      continue;
    if (!apart && call_lacks(code))
      refuse(code & CALL_ID_MASK, op, thread);
    apart = false;
    op++;
  }
}

void entry_points_require(void) {
  if (!allocator.free)
    engine_fail(NULL, "%s defines malloc, but no free", library_path());
  if (!lacks_any())
    return;
  for (uint32_t thread = 0; thread < engine.workload.header.threads; thread++)
    check_stream(thread);
}

/* SPDX-License-Identifier: MIT */
#include "capture/host/accesses.h"

#include "core/trace/event.h"

void accesses_report_event(uint32_t serial, const void *acquired, uint64_t request_bytes, const void *released) {
  valgrind_request(VALGRIND_REQUEST_EVENT,
                   (const unsigned long[VALGRIND_ARGUMENTS]){serial, (unsigned long)(uintptr_t)acquired, request_bytes,
                                                             (unsigned long)(uintptr_t)released});
}

void accesses_report_missing(uint32_t serial, uint64_t calls) {
  for (uint64_t call = 0; accesses_are_recorded() && call < calls; call++)
    accesses_report_event(serial, NULL, 0, NULL);
}

/* calls.def's columns. */
static bool describe(uint8_t id, bool *acquires, bool *releases, bool *counts) {
  switch (id) {
#define CALL(id, ident, name, acquired, released, size, param)                                                         \
  case id:                                                                                                             \
    *acquires = acquired;                                                                                              \
    *releases = released == RELEASES;                                                                                  \
    *counts = param == COUNT;                                                                                          \
    return true;
#include "core/trace/calls.def"
  default:
    return false;
  }
}

void accesses_report_side_record(uint32_t serial, struct accesses_side *side, const uint64_t record[2]) {
  uint8_t op = (uint8_t)record[0];
  const void *address = (const void *)(uintptr_t)(record[0] >> 8);
  bool acquires, releases, counts;
  if (op == RECORD_PARAM) {
    side->param = record[1];
    side->has_param = true;
  } else if (op == RECORD_BEGIN) {
    if (side->resizes < sizeof side->resized / sizeof *side->resized)
      side->resized[side->resizes++] = address;
  } else if (describe(op & CALL_ID_MASK, &acquires, &releases, &counts)) {
    const void *released = releases && !acquires ? address : NULL;
    uint64_t bytes = record[1], product;
    if (side->has_param && counts)
      bytes = __builtin_mul_overflow(bytes, side->param, &product) ? UINT64_MAX : product;
    if (releases && acquires && !(op & CALL_NULL_IN) && side->resizes > 0) {
      released = side->resized[--side->resizes];
      if ((op & CALL_NULL_OUT) && bytes > 0) /* it failed */
        released = NULL;
    }
    side->has_param = false;
    accesses_report_event(serial, acquires ? address : NULL, bytes, released);
  }
}

static _Atomic bool reported_paused;

void accesses_follow(bool paused) {
  if (accesses_are_recorded() && atomic_exchange(&reported_paused, paused) != paused)
    valgrind_request(VALGRIND_REQUEST_RECORDING,
                     (const unsigned long[VALGRIND_ARGUMENTS]){paused ? RECORDING_PAUSES : RECORDING_GOES_ON});
}

static _Atomic uint32_t reported_bursts; /* a fork child continues with its parent's value, as the tool does */

void accesses_follow_operator(void) {
  const struct bank *bank = host_state.bank;
  uint32_t requested = accesses_are_recorded() && bank ? atomic_load(&bank->bursts) : 0;
  if (requested && atomic_exchange(&reported_bursts, requested) != requested)
    valgrind_request(VALGRIND_REQUEST_BURST, (const unsigned long[VALGRIND_ARGUMENTS]){requested % 2});
}

void accesses_report_mark(const char *text, size_t length) {
  if (accesses_are_recorded())
    valgrind_request(VALGRIND_REQUEST_MARK,
                     (const unsigned long[VALGRIND_ARGUMENTS]){(unsigned long)(uintptr_t)text, length});
}

bool accesses_begin(int fd) {
  atomic_store(&reported_paused, false);
  return valgrind_request(VALGRIND_REQUEST_RECORDING,
                          (const unsigned long[VALGRIND_ARGUMENTS]){RECORDING_BEGINS, (unsigned long)fd});
}

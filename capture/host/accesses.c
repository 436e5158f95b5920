/* SPDX-License-Identifier: MIT */
/* Weak functions in place of those of capture/accesses/hooks/, where that is not there: nothing is reported. */
#include "capture/host/accesses.h"

#define WEAK __attribute__((weak))

WEAK void accesses_report_event(uint32_t serial, const void *acquired, uint64_t request_bytes, const void *released) {
  (void)serial, (void)acquired, (void)request_bytes, (void)released;
}

WEAK void accesses_report_missing(uint32_t serial, uint64_t calls) {
  (void)serial, (void)calls;
}

WEAK void accesses_report_side_record(uint32_t serial, struct accesses_side *side, const uint64_t record[2]) {
  (void)serial, (void)side, (void)record;
}

WEAK void accesses_follow(bool paused) {
  (void)paused;
}

WEAK void accesses_follow_operator(void) {}

WEAK void accesses_report_mark(const char *text, size_t length) {
  (void)text, (void)length;
}

WEAK bool accesses_begin(int fd) {
  (void)fd;
  return false;
}

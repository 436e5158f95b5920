/* SPDX-License-Identifier: MIT */
/* Reports to the Valgrind tool which calls are events, where data accesses are recorded (ATTACH_ACCESSES).

   Job: one request for each event, including those counted as missing, in the order of the thread's events in its
   trace. Not its job: the trace itself. Invariants: a request is made in state RECORDING, when the event is in the
   ring. Under ATTACH_ACCESSES each event is stamped, so all events take the slow forms of the hooks, and only these
   report. Keeps errno. */
#pragma once

#include "capture/host/process.h"
#include "core/system/valgrind_requests.h"

static inline bool accesses_are_recorded(void) {
  return __builtin_expect(host_state.flags & ATTACH_ACCESSES, 0);
}

/* The thread with that serial number made an event. acquired, released: NULL where the event did neither. */
void accesses_report_event(uint32_t serial, const void *acquired, uint64_t request_bytes, const void *released);

/* Calls of the thread that are counted, but not recorded. */
void accesses_report_missing(uint32_t serial, uint64_t calls);

/* Records that leave the side buffer, one after another. All zero at the start. */
struct accesses_side {
  uint64_t param;
  bool has_param;
  uint32_t resizes;
  const void *resized[4]; /* deeper only where handlers of handlers resize */
};
void accesses_report_side_record(uint32_t serial, struct accesses_side *side, const uint64_t record[2]);

/* Reports that the process has paused or resumed its recording; does nothing if the tool has that state already. */
void accesses_follow(bool paused);

/* Where accesses are recorded in bursts, begins or ends one if the operator has requested it since the last call. */
void accesses_follow_operator(void);

/* Reports that the program makes that mark: a burst may begin or end at it. */
void accesses_report_mark(const char *text, size_t length);

/* Passes the descriptor of the stream to the tool. False: the tool did not take it. */
bool accesses_begin(int fd);

/* Does the process run under the tool, in a mode that records? */
static inline bool accesses_are_possible(void) {
  return valgrind_request(VALGRIND_REQUEST_RECORDING, (const unsigned long[VALGRIND_ARGUMENTS]){RECORDING_IS_POSSIBLE});
}

/* SPDX-License-Identifier: MIT */
/* heaptape_mark: writes a program's mark into the ring. */
#include "capture/host/accesses.h"
#include "capture/host/producer.h"
#include "capture/wire/heaptape.h"
#include "core/trace/summary.h"

#include <errno.h>
#include <string.h>

/* A mark's records are published one by one. They still follow each other: other threads have their own rings, and
   handlers of this thread use the side buffer. */
static bool put_mark(struct producer *producer, const char *text, size_t length) {
  enum { TEXT_BYTES = 15 };
  for (size_t at = 0; at <= length; at += TEXT_BYTES) {
    size_t count = length - at < TEXT_BYTES ? length - at : TEXT_BYTES;
    uint64_t record[2] = {0};
    memcpy((char *)record + 1, text + at, count);
    if (!producer_put_control(producer, record[0] | RECORD_TEXT, record[1]))
      return false;
  }
  return producer_put_control(producer, RECORD_MARK | (uint64_t)length << 8, ownership_stamp());
}

void heaptape_lib_mark(const char *text) {
  struct producer *producer = text ? producer_of_thread() : NULL;
  if (!producer || (producer->quick.state != host_state.idle && producer->quick.state != PRODUCER_OFF))
    return;
  int error = errno;
  uint32_t was = producer->quick.state;
  producer_hold_rest(producer, os_stack_pointer());
  size_t length = strnlen(text, TRACE_MARK_MAX_BYTES + 1);
  if (length > TRACE_MARK_MAX_BYTES)
    for (length = TRACE_MARK_MAX_BYTES; length > 0 && (text[length] & 0xc0) == 0x80;) /* never half a character */
      length--;
  if (!put_mark(producer, text, length))
    atomic_fetch_add_explicit(&producer->ring->marks_lost, 1, memory_order_relaxed);
  /* A step that a thread makes after it knows of the mark must not inherit an older stamp: the tick makes it take a new
     one. */
  control_advance_tick(&host_state.tables->control);
  accesses_report_mark(text, length);
  producer_set_state(producer, was);
  producer_note_frame(producer, PRODUCER_NO_FRAME);
  if (atomic_load(&producer->side_count))
    producer_flush_side(producer);
  errno = error;
}

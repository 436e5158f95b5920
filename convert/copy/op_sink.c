/* SPDX-License-Identifier: MIT */
#include "convert/copy/op_sink.h"

#include "core/trace/layout.h"

#include <stdlib.h>

/* Each thread gets its addresses from its own regions of 2^REGION_BITS bytes, so that objects of two threads never
   overlap. 2^24 of them fill the address space: one per thread that a trace can have. */
enum { REGION_BITS = 40 };

bool op_sink_init(struct op_sink *sink, struct trace_out *out, uint32_t threads) {
  *sink =
      (struct op_sink){.out = out, .threads = calloc(threads + 1u, sizeof *sink->threads), .last_thread = UINT32_MAX};
  return sink->threads != NULL;
}

void op_sink_free(struct op_sink *sink) {
  free(sink->threads);
}

/* The address that the reader's predictor expects (FORMAT.md section 4: the previous miss, plus 16 x its class), so
   that addresses cost nothing. */
static uint64_t next_address(struct op_sink *sink, const struct history_op *op) {
  struct op_sink_thread *thread = &sink->threads[op->thread];
  uint64_t region_bytes = 1ull << REGION_BITS, bytes = 16 * predictor_class(op->request_bytes);
  if (op->request_bytes >= region_bytes)
    bytes = region_bytes; /* nothing can touch all these bytes: they may overlap, but not the addresses */
  if (thread->region_end - thread->next_address < bytes) {
    /* After 2^24 regions it starts again: those objects ended long ago. */
    thread->next_address = (sink->regions++ % ((1 << 24) - 1) + 1) << REGION_BITS;
    thread->region_end = thread->next_address + region_bytes;
  }
  uint64_t address = thread->next_address;
  thread->next_address += bytes;
  return address;
}

int op_sink_event(struct op_sink *sink, struct trace_event *event, uint32_t thread, uint64_t stamp) {
  if (thread != sink->last_thread || stamp > sink->stamp) {
    sink->stamp = stamp > sink->stamp ? stamp : sink->stamp + 1;
    sink->last_thread = thread;
  }
  event->release_stamp = event->acquire_stamp = sink->stamp;
  return trace_out_event(sink->out, thread, event);
}

int op_sink_put(struct op_sink *sink, const struct history_op *op, uint32_t thread, uint64_t stamp, uint64_t *address) {
  struct trace_event event = {.call = op->call,
                              .size_bytes = op->size_bytes,
                              .param = op->param,
                              .touched_os_pages = op->touched_os_pages,
                              .touched_parts = op->touched_parts};
  if (op->kind != HISTORY_NOTHING && op->kind != HISTORY_ACQUIRE)
    event.released = *address;
  if (op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE)
    event.acquired = *address = next_address(sink, op);
  return op_sink_event(sink, &event, thread, stamp);
}

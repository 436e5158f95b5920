/* SPDX-License-Identifier: MIT */
#include "capture/host/hooks/inner_calls.h"

#include "capture/host/large.h"

enum { HEADER_MOST = 8 * 64 };

__thread struct new_call *new_newest __attribute__((tls_model("initial-exec")));

/* Distances, in words, at which operators new have placed their objects in the blocks that they took: a bit each. */
static _Atomic uint64_t distances;

static void hold_next(struct producer *producer) {
  if (!producer->cursor)
    producer_hold(producer);
  atomic_signal_fence(memory_order_seq_cst);
}

static struct hook_call call_of(const struct inner_event *event) {
  struct hook_call call = call_of_op(event->op & CALL_ID_MASK, &event->sizes);
  call.op = event->op;
  return call;
}

/* Takes an event out of those that are held. */
static struct inner_event take(struct producer *producer, uint32_t number) {
  struct inner_event event = producer->held[number];
  producer->held_count--;
  for (uint32_t i = number; i < producer->held_count; i++)
    producer->held[i] = producer->held[i + 1];
  return event;
}

static void record_held(struct producer_entry in, uint32_t number) {
  struct inner_event event = take(in.producer, number);
  struct hook_call call = call_of(&event);
  bool recorded = producer_record(in, step_of(call, event.address), event.has_columns ? &event.columns : NULL);
  producer_report_event(in, recorded, event.address, call.request_bytes, NULL);
}

bool inner_hold(struct producer_entry in, struct hook_call call, const void *address,
                const struct record_columns *columns) {
  struct producer *producer = in.producer;
  if (in.was != PRODUCER_NEW || !producer->ring)
    return false;
  if (!address) /* that the operator tries again, or fails, is its own event */
    return new_newest && call.request_bytes - new_newest->sizes.size < HEADER_MOST;
  hold_next(producer);
  if (producer->held_count == INNER_HELD_MOST)
    record_held(in, 0);
  producer->held[producer->held_count++] = (struct inner_event){
      .address = address, .sizes = {call.size, call.param ? *call.param : 0}, .op = call.op, .has_columns = columns};
  if (columns)
    producer->held[producer->held_count - 1].columns = *columns;
  producer->quick.limit = NULL;
  return true;
}

/* Is the operator's result in what that call acquired? */
static bool serves(const struct inner_event *event, const void *result) {
  uint64_t distance = (uintptr_t)result - (uintptr_t)event->address;
  if (!result || (distance && distance >= call_of(event).request_bytes))
    return false;
  if (distance && distance < HEADER_MOST)
    atomic_fetch_or_explicit(&distances, (uint64_t)1 << distance / 8, memory_order_relaxed);
  return true;
}

void inner_settle(struct producer_entry in, uint8_t op, const void *result) {
  struct producer *producer = in.producer;
  if (!producer->held_count || in.was == PRODUCER_RECORDING)
    return;
  hold_next(producer);
  for (uint32_t i = 0; i < producer->held_count;)
    if (call_is_new(op & CALL_ID_MASK) && serves(&producer->held[i], result))
      large_take(take(producer, i).address);
    else if (in.was == host_state.idle)
      record_held(in, i);
    else
      i++;
}

void inner_abandoned(struct producer *producer, uintptr_t frame) {
  struct producer_entry in = {producer, host_state.idle};
  producer_begin(producer, PRODUCER_RECORDING, frame);
  inner_settle(in, CALL_malloc, NULL);
  producer_leave(in);
}

static bool is_placed_in(const void *object, const void *block) {
  uint64_t distance = (uintptr_t)object - (uintptr_t)block;
  return distance < HEADER_MOST && (atomic_load_explicit(&distances, memory_order_relaxed) >> distance / 8 & 1);
}

static bool is_of_delete(const struct producer *producer, const void *object) {
  const void *const *deleting = producer->deleting;
  if (!object)
    return !deleting[0];
  return object == deleting[0] || object == deleting[1] || is_placed_in(deleting[0], object);
}

bool inner_is_part(struct producer_entry in, uint8_t op, const void *object) {
  struct producer *producer = in.producer;
  if (in.was == PRODUCER_DELETE && is_of_delete(producer, object))
    return true;
  if (!producer->held_count || in.was == PRODUCER_RECORDING)
    return false;
  for (uint32_t i = 0; i < producer->held_count; i++)
    if (in.was == host_state.idle || producer->held[i].address == object) {
      if (in.was == PRODUCER_NEW && op == CALL_malloc_usable_size)
        return true;
      hold_next(producer);
      record_held(in, i--);
    }
  return false;
}

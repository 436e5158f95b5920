/* SPDX-License-Identifier: MIT */
#include "convert/whatif/emitter.h"

int emitter_init(struct emitter *emitter, const struct history_consumer *consumer, uint32_t threads,
                 uint64_t os_page_bytes) {
  *emitter = (struct emitter){.consumer = consumer};
  emitter->live = (struct live_totals){.os_page_bytes = os_page_bytes, .witness = &emitter->witness};
  return slots_init(&emitter->slots, threads) ? 0 : -1;
}

void emitter_free(struct emitter *emitter) {
  slots_free(&emitter->slots);
}

static int hand_on(struct emitter *emitter, const struct history_op *op) {
  emitter->witness.ops++;
  return emitter->consumer->op(emitter->consumer->context, op, &emitter->live.state, &emitter->slots);
}

static int begin_object(struct emitter *emitter, struct history_op *op) {
  op->slot = slots_take(&emitter->slots, op->thread);
  if (op->slot == SLOTS_NONE)
    return -1;
  emitter->slots.at[op->slot].size_bytes = op->request_bytes;
  if (hand_on(emitter, op) != 0)
    return -1;
  live_begin_object(&emitter->live);
  live_add(&emitter->live, op->request_bytes);
  return 0;
}

static int end_object(struct emitter *emitter, const struct history_op *op) {
  uint64_t size_bytes = emitter->slots.at[op->slot].size_bytes;
  if (hand_on(emitter, op) != 0)
    return -1;
  live_subtract(&emitter->live, size_bytes);
  emitter->live.state.live_objects--;
  slots_give(&emitter->slots, op->slot, op->thread);
  return 0;
}

static int resize_object(struct emitter *emitter, const struct history_op *op) {
  struct slot *slot = &emitter->slots.at[op->slot];
  uint64_t size_bytes = slot->size_bytes;
  if (hand_on(emitter, op) != 0)
    return -1;
  slot->size_bytes = op->request_bytes;
  live_subtract(&emitter->live, size_bytes);
  live_add(&emitter->live, op->request_bytes);
  return 0;
}

int emitter_put(struct emitter *emitter, struct history_op *op) {
  switch (op->kind) {
  case HISTORY_ACQUIRE:
    return begin_object(emitter, op);
  case HISTORY_RELEASE:
    return end_object(emitter, op);
  case HISTORY_MOVE:
    return resize_object(emitter, op);
  case HISTORY_TOUCH:
  case HISTORY_NOTHING:
    break;
  }
  return hand_on(emitter, op);
}

int emitter_leave_out(struct emitter *emitter, const struct history_op *op) {
  const struct merge_step step = {.event = op->event, .stamp = op->stamp, .thread = op->thread, .is_last = true};
  if (!op->event || !emitter->consumer->left_out)
    return 0;
  return emitter->consumer->left_out(emitter->consumer->context, &step, SLOTS_NONE);
}

void emitter_end_thread(struct emitter *emitter, uint32_t thread) {
  slots_end_thread(&emitter->slots, thread);
  if (emitter->consumer->thread_end)
    emitter->consumer->thread_end(emitter->consumer->context, thread);
}

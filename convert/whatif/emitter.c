/* SPDX-License-Identifier: MIT */
#include "convert/whatif/emitter.h"

#include <stdlib.h>

int emitter_init(struct emitter *emitter, const struct history_consumer *consumer, uint32_t threads,
                 uint64_t os_page_bytes) {
  *emitter = (struct emitter){.consumer = consumer};
  emitter->live = (struct live_totals){.os_page_bytes = os_page_bytes, .witness = &emitter->witness};
  return slots_init(&emitter->slots, threads) ? 0 : -1;
}

void emitter_free(struct emitter *emitter) {
  slots_free(&emitter->slots);
}

int emitter_put(struct emitter *emitter, struct history_op *op) {
  bool begins = op->kind == HISTORY_ACQUIRE, ends = op->kind == HISTORY_RELEASE, resizes = op->kind == HISTORY_MOVE;
  if (begins && (op->slot = slots_take(&emitter->slots, op->thread)) == SLOTS_NONE)
    return -1;
  struct slot *slot = begins || ends || resizes ? &emitter->slots.at[op->slot] : NULL;
  uint64_t size_bytes = slot ? slot->size_bytes : 0;
  if (begins)
    slot->size_bytes = op->request_bytes;
  op->before = &emitter->live.state;
  emitter->witness.ops++;
  if (emitter->consumer->op(emitter->consumer->context, op, &emitter->slots) != 0)
    return -1;
  if (ends || resizes)
    live_subtract(&emitter->live, size_bytes);
  if (ends) {
    emitter->live.state.live_objects--;
    slots_give(&emitter->slots, op->slot, op->thread);
  }
  if (begins)
    live_begin_object(&emitter->live);
  if (begins || resizes) {
    slot->size_bytes = op->request_bytes;
    live_add(&emitter->live, op->request_bytes);
  }
  return 0;
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

enum { POOL_ALIGN_BYTES = 16 };

int pools_init(struct pools *pools, struct emitter *emitter, size_t groups, uint32_t threads) {
  *pools = (struct pools){.emitter = emitter, .threads = threads};
  pools->newest = calloc(groups * threads + 1, sizeof *pools->newest);
  return pools->newest ? 0 : -1;
}

void pools_free(struct pools *pools) {
  free(pools->chunks.at);
  free(pools->newest);
}

uint64_t pools_carved_bytes(uint64_t request_bytes) {
  uint64_t bytes = request_bytes ? request_bytes : 1;
  return (bytes + POOL_ALIGN_BYTES - 1) & ~(uint64_t)(POOL_ALIGN_BYTES - 1);
}

bool pools_take(const struct history_op *op, uint64_t chunk_bytes) {
  uint8_t id = op->call & CALL_ID_MASK;
  if (call_table[id].param == ALIGN && op->param > POOL_ALIGN_BYTES)
    return false;
  return id != CALL_valloc && id != CALL_pvalloc && op->request_bytes <= chunk_bytes &&
         pools_carved_bytes(op->request_bytes) <= chunk_bytes;
}

static uint32_t new_chunk(struct pools *pools) {
  uint32_t chunk = pools->free_list;
  if (chunk) {
    pools->free_list = pools->chunks.at[chunk - 1].next;
    return chunk;
  }
  return vector_add(&pools->chunks) ? (uint32_t)pools->chunks.count : 0;
}

/* The chunk's malloc has the call stack that acquires the object. */
static int add_chunk(struct pools *pools, const struct history_op *op, struct pool_order *order, uint32_t pool) {
  uint32_t chunk = new_chunk(pools);
  if (!chunk)
    return -1;
  struct history_op malloc_op = {.kind = HISTORY_ACQUIRE,
                                 .call = CALL_malloc,
                                 .thread = op->thread,
                                 .size_bytes = order->chunk_bytes,
                                 .request_bytes = order->chunk_bytes,
                                 .stamp = op->stamp,
                                 .event = op->event,
                                 .moved = true};
  if (emitter_put(pools->emitter, &malloc_op) != 0)
    return -1;
  pools->chunks.at[chunk - 1] = (struct chunk){.slot = malloc_op.slot, .pool = pool};
  pools->newest[pool] = chunk;
  order->added = true;
  return 0;
}

int pools_carve(struct pools *pools, const struct history_op *op, struct pool_order *order) {
  uint64_t bytes = pools_carved_bytes(op->request_bytes);
  uint32_t pool = (uint32_t)(order->group * pools->threads + op->thread), chunk = pools->newest[pool];
  order->added = false;
  if ((!chunk || pools->chunks.at[chunk - 1].carved_bytes + bytes > order->chunk_bytes) &&
      add_chunk(pools, op, order, pool) != 0)
    return -1;
  order->chunk = pools->newest[pool] - 1;
  pools->chunks.at[order->chunk].carved_bytes += bytes;
  pools->chunks.at[order->chunk].live++;
  return 0;
}

static uint32_t carved_os_pages(const struct pools *pools, const struct chunk *chunk) {
  uint64_t os_page = pools->emitter->live.os_page_bytes;
  return (uint32_t)((chunk->carved_bytes + os_page - 1) / os_page);
}

int pools_drop(struct pools *pools, const struct history_op *op, uint32_t number) {
  struct chunk *chunk = &pools->chunks.at[number];
  if (--chunk->live > 0)
    return 0;
  struct history_op free_op = {.kind = HISTORY_RELEASE,
                               .call = CALL_free,
                               .thread = op->thread,
                               .slot = chunk->slot,
                               .stamp = op->stamp,
                               .touched_os_pages = carved_os_pages(pools, chunk) + 1};
  if (pools->newest[chunk->pool] == number + 1)
    pools->newest[chunk->pool] = 0;
  *chunk = (struct chunk){.slot = SLOTS_NONE, .next = pools->free_list};
  pools->free_list = number + 1;
  return emitter_put(pools->emitter, &free_op);
}

void pools_end(const struct pools *pools) {
  const struct history_consumer *consumer = pools->emitter->consumer;
  for (size_t i = 0; consumer->touched_at_end && i < pools->chunks.count; i++)
    if (pools->chunks.at[i].slot != SLOTS_NONE)
      consumer->touched_at_end(consumer->context, pools->chunks.at[i].slot,
                               (struct touched){.os_pages = carved_os_pages(pools, &pools->chunks.at[i])});
}

int moved_births_init(struct moved_births *moved, uint32_t threads) {
  *moved = (struct moved_births){.free_list = BIRTHS_NONE};
  moved->first = malloc((threads + 1ull) * sizeof *moved->first);
  moved->last = malloc((threads + 1ull) * sizeof *moved->last);
  if (!moved->first || !moved->last)
    return -1;
  for (uint32_t thread = 0; thread < threads; thread++)
    moved->first[thread] = moved->last[thread] = BIRTHS_NONE;
  return 0;
}

void moved_births_free(struct moved_births *moved) {
  free(moved->births.at);
  free(moved->first);
  free(moved->last);
}

uint32_t moved_births_add(struct moved_births *moved, const struct history_op *op) {
  uint32_t number = moved->free_list;
  if (number != BIRTHS_NONE) {
    moved->free_list = moved->births.at[number].next;
  } else {
    if (moved->births.count == BIRTHS_NONE || !vector_add(&moved->births))
      return BIRTHS_NONE;
    number = (uint32_t)moved->births.count - 1;
  }
  uint32_t last = moved->last[op->thread];
  moved->births.at[number] = (struct birth){.size_bytes = op->size_bytes,
                                            .param = op->param,
                                            .request_bytes = op->request_bytes,
                                            .thread = op->thread,
                                            .stack = op->event ? op->event->stack : 0,
                                            .slot = BIRTHS_NONE,
                                            .next = BIRTHS_NONE,
                                            .previous = last,
                                            .call = op->call};
  if (last == BIRTHS_NONE)
    moved->first[op->thread] = number;
  else
    moved->births.at[last].next = number;
  moved->last[op->thread] = number;
  return number;
}

void moved_births_remove(struct moved_births *moved, uint32_t number) {
  struct birth *birth = &moved->births.at[number];
  if (birth->previous == BIRTHS_NONE)
    moved->first[birth->thread] = birth->next;
  else
    moved->births.at[birth->previous].next = birth->next;
  if (birth->next == BIRTHS_NONE)
    moved->last[birth->thread] = birth->previous;
  else
    moved->births.at[birth->next].previous = birth->previous;
  birth->next = moved->free_list;
  moved->free_list = number;
}

struct history_op moved_birth_op(const struct birth *birth, uint64_t stamp, struct trace_event *event) {
  *event = (struct trace_event){
      .size_bytes = birth->size_bytes, .param = birth->param, .stack = birth->stack, .call = birth->call};
  return (struct history_op){.kind = HISTORY_ACQUIRE,
                             .call = birth->call,
                             .thread = birth->thread,
                             .size_bytes = birth->size_bytes,
                             .param = birth->param,
                             .request_bytes = birth->request_bytes,
                             .stamp = stamp,
                             .moved = true,
                             .event = event};
}

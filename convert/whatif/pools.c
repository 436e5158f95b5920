/* SPDX-License-Identifier: MIT */
#include "convert/whatif/pools.h"

#include <stdlib.h>

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
                               carved_os_pages(pools, &pools->chunks.at[i]));
}

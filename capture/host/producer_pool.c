/* SPDX-License-Identifier: MIT */
#include "capture/host/producer_pool.h"

#include "capture/host/attach.h"
#include "capture/host/ownership.h"
#include "capture/host/ring_room.h"
#include "capture/host/stacks/stack.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { POOL_BYTES = 64 << 10 }; /* bytes of producers that are mapped at once */

static bool owner_is_dead(const struct process *process, struct producer *producer, int me) {
  if (host_sandboxed())
    return false;
  int owner = atomic_load_explicit(&producer->owner, memory_order_acquire);
  bool dead = owner == me || (syscall(SYS_tgkill, process->pid, owner, 0) != 0 && errno == ESRCH);
  atomic_thread_fence(memory_order_acquire); /* the kernel has seen all that it wrote; now this thread does, too */
  return dead;
}

struct producer *producer_pool_find_dead(struct process *process, uint32_t looks, int me) {
  for (uint32_t i = 0; i < looks && i < process->producers; i++) {
    process->probe = (process->probe + 1) % process->producers;
    struct producer *producer = process->producer[process->probe];
    if (owner_is_dead(process, producer, me))
      return producer;
  }
  return NULL;
}

/* Precondition: no thread is in a hook, or about to use a producer. */
static void release_all(const struct process *process) {
  for (uint32_t i = 0; i < process->producers; i++)
    stack_memo_free(process->producer[i]->memo);
  for (uint32_t i = 0; i < process->producers; i += POOL_BYTES / PRODUCER_BYTES)
    os_unmap(process->producer[i], POOL_BYTES);
}

struct producer *producer_pool_add(struct process *process) {
  if (process->producers == PRODUCERS_MAX || (process->rings_left == 0 && !attach_region(process)))
    return NULL;
  if (process->pool_bytes < PRODUCER_BYTES) {
    if (host_sandboxed())
      return NULL;
    process->pool = process_map_wiped(POOL_BYTES);
    process->pool_bytes = process->pool ? POOL_BYTES : 0;
    if (!process->pool)
      return NULL;
  }
  struct producer *producer = (struct producer *)process->pool;
  process->pool += PRODUCER_BYTES;
  process->pool_bytes -= PRODUCER_BYTES;

  uint32_t last = process->regions - 1, rings = process->region[last].rings, at = rings - process->rings_left--;
  struct region *region = process->region[last].memory;
  producer->ring = &region->rings[at];
  producer->memory = (char *)region + region_header_bytes(rings) + (uint64_t)at * RING_BYTES;
  producer->quick.next = (uintptr_t)producer->memory;
  producer->quick.limit = (uint64_t *)producer->memory;
  producer->lap = RING_ROOM_FIRST_LAP_BYTES;
  producer->index = process->producers;
  producer->own = producer->tag = producer->index < TAG_LAST ? (uint16_t)(producer->index + 1) : TAG_NONE;
  HT_ASSERT(at < rings && producer->tag != 0 && producer->tag <= TAG_NONE);
  atomic_store_explicit(&producer->ring->lap, producer->lap, memory_order_relaxed);
  atomic_store_explicit(&region->used, at + 1, memory_order_release);
  process->producer[process->producers++] = producer;
  process->release = release_all;
  return producer;
}

/* SPDX-License-Identifier: MIT */
#include "replay/memory/fragmentation.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "replay/calls/call.h"
#include "replay/memory/heap_walk.h"
#include "replay/memory/os_pages.h"
#include "replay/memory/residency.h"

#include <string.h>

uint32_t *fragmentation_rounding;

static struct memory_figures *result;

int fragmentation_setup(struct memory_figures *into) {
  result = into;
  if (!order_by_turns(engine.spec->order) || result->map_residency == RESIDENCY_NONE)
    return 0;
  uint64_t bytes = (engine.workload.header.slots + 1ull) * sizeof *fragmentation_rounding;
  fragmentation_rounding = os_map(bytes, true);
  if (!fragmentation_rounding)
    return -1;
  memset(fragmentation_rounding, 0xff, bytes);
  return 0;
}

void fragmentation_note_object(uint64_t address, uint64_t bytes) {
  os_pages_note_object(address, bytes);
}

static __attribute__((noinline)) uint32_t measure_rounding(uint32_t slot, const struct object *object) {
  size_t usable = engine.spec->null_allocator ? SIZE_MAX : call_usable_size(object->pointer);
  uint64_t rounding = usable == SIZE_MAX || usable < object->size_bytes ? 0 : usable - object->size_bytes;
  result->usable_size_missing |= usable == SIZE_MAX;
  return fragmentation_rounding[slot] = rounding < ROUNDING_UNKNOWN ? (uint32_t)rounding : ROUNDING_UNKNOWN - 1;
}

uint32_t fragmentation_rounding_of(uint32_t slot, const struct object *object) {
  if (!fragmentation_rounding)
    return 0;
  uint32_t known = fragmentation_rounding[slot];
  return known != ROUNDING_UNKNOWN ? known : measure_rounding(slot, object);
}

static void add_walked(const void *address, size_t bytes, unsigned state, void *context) {
  struct fragmentation_row *row = context;
  struct os_pages_split split = {0, 0};
  os_pages_split((uint64_t)(uintptr_t)address, bytes, &split);
  struct walked *walked = &row->walked[state < WALK_STATES ? state : WALK_STATES - 1];
  walked->bytes += bytes;
  walked->beside_bytes += split.beside_bytes;
  walked->empty_bytes += split.empty_bytes;
}

/* The baseline is of a process on libc's malloc. If libc is measured, what start-up made resident in its heap is
   subtracted with the baseline, and must not be counted among the parts. */
void fragmentation_begin(void) {
  if (!fragmentation_rounding || result->fragmentation_count > 0)
    return;
  if (engine.result->malloc_is_of_libc || engine.spec->null_allocator)
    residency_visit(os_pages_leave_out);
  result->walk_states = heap_walk_states(result->walk_state_names);
}

/* The parts of a position are disjoint, and together they are its resident OS pages. */
static void assert_parts_add_up(const struct os_pages_sum *sum) {
  uint64_t os_pages = 0;
  for (unsigned class = 0; class < FILL_CLASSES; class ++)
    os_pages += sum->os_pages[class];
  HT_ASSERT(sum->live_bytes + sum->rounding_bytes + sum->beside_bytes + sum->empty_bytes + sum->untouched_bytes ==
            os_pages * os_page_bytes());
}

void fragmentation_measure(struct fragmentation_row *row) {
  memset(row->walked, 0, sizeof row->walked);
  os_pages_sum_up(&row->sum);
  assert_parts_add_up(&row->sum);
  if (result->walk_states > 0)
    heap_walk(add_walked, row);
}

void fragmentation_add(uint64_t position, uint64_t rss_anon_bytes, uint64_t live_bytes) {
  if (!fragmentation_rounding || result->fragmentation_count == FRAGMENTATION_ROWS)
    return;
  struct fragmentation_row *row = &result->fragmentation[result->fragmentation_count++];
  row->position = position;
  row->rss_anon_bytes = rss_anon_bytes;
  row->live_bytes = live_bytes;
  fragmentation_measure(row);
}

/* SPDX-License-Identifier: MIT */
#include "replay/memory/fragmentation.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "replay/calls/call.h"
#include "replay/memory/figures.h"
#include "replay/memory/os_pages.h"
#include "replay/memory/residency.h"

#include <string.h>

uint32_t *fragmentation_rounding;

static struct memory_figures *result;

typedef void walk_visit(const void *address, size_t bytes, unsigned state, void *context);

/* The allocator's. Weak, not dlsym: a failing dlsym calls malloc for its message. */
extern void heaptape_heap_walk(walk_visit *visit, void *context) __attribute__((weak, visibility("default")));
extern const char *heaptape_heap_walk_state(unsigned state) __attribute__((weak, visibility("default")));

/* Memory pass; call after os_pages_setup. Returns 0, or -1 with errno set. */
static int fragmentation_setup(struct memory_figures *into) {
  result = into;
  if (!order_by_turns(engine.spec->order) || result->map_residency == RESIDENCY_NONE)
    return 0;
  uint64_t bytes = (engine.workload.header.slots + 1ull) * sizeof *fragmentation_rounding;
  fragmentation_rounding = os_map(bytes, true);
  if (!fragmentation_rounding)
    return -1;
  return 0;
}

void fragmentation_measure_rounding(uint32_t slot, const struct object *object) {
  size_t usable = engine.spec->null_allocator ? SIZE_MAX : call_usable_size(object->pointer);
  uint64_t rounding = usable == SIZE_MAX || usable < object->size_bytes ? 0 : usable - object->size_bytes;
  result->usable_size_missing |= usable == SIZE_MAX;
  fragmentation_rounding[slot] = rounding < UINT32_MAX ? (uint32_t)rounding : UINT32_MAX;
}

uint32_t fragmentation_rounding_of(uint32_t slot) {
  return fragmentation_rounding ? fragmentation_rounding[slot] : 0;
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

/* Without states there is no heap walk. */
static void name_walk_states(void) {
  if (!heaptape_heap_walk || !heaptape_heap_walk_state)
    return;
  unsigned *count = &result->walk_states;
  for (const char *name; *count < WALK_STATES && (name = heaptape_heap_walk_state(*count)); ++*count)
    strncpy(result->walk_state_names[*count], name, WALK_STATE_NAME_BYTES - 1);
}

/* The baseline is of a process on libc's malloc. If libc is measured, what start-up made resident in its heap is
   subtracted with the baseline, and must not be counted among the parts. */
static void fragmentation_begin(void) {
  if (!fragmentation_rounding || result->fragmentation_count > 0)
    return;
  if (engine.result->malloc_is_of_libc || engine.spec->null_allocator)
    residency_visit(os_pages_leave_out);
  name_walk_states();
}

/* The parts of a position are disjoint, and together they are its resident OS pages. */
static void assert_parts_add_up(const struct os_pages_sum *sum) {
  uint64_t os_pages = 0;
  for (unsigned class = 0; class < FILL_CLASSES; class ++)
    os_pages += sum->os_pages[class];
  HT_ASSERT(sum->live_bytes + sum->rounding_bytes + sum->beside_bytes + sum->empty_bytes + sum->untouched_bytes ==
            os_pages * os_page_bytes());
}

static void fragmentation_measure(struct fragmentation_row *row) {
  memset(row->walked, 0, sizeof row->walked);
  os_pages_sum_up(&row->sum);
  assert_parts_add_up(&row->sum);
  if (result->walk_states > 0)
    heaptape_heap_walk(add_walked, row);
}

static void fragmentation_add(uint64_t position, uint64_t rss_anon_bytes, uint64_t live_bytes) {
  if (!fragmentation_rounding || result->fragmentation_count == FRAGMENTATION_ROWS)
    return;
  struct fragmentation_row *row = &result->fragmentation[result->fragmentation_count++];
  row->position = position;
  row->rss_anon_bytes = rss_anon_bytes;
  row->live_bytes = live_bytes;
  fragmentation_measure(row);
}

enum {
  CELLS_AT_PEAK = 1024,
  CELL_BYTES = 16,
};

static unsigned cell_shift;

/* The position being written: its cells are in rising order, and the last one is still growing. */
static struct {
  uint64_t begin_bytes; /* in the result's map: where its count is */
  uint32_t count;
  bool fits;
  uint64_t number, live_bytes, resident_bytes;
  uint64_t lost_live_bytes, lost_resident_bytes; /* of all positions: no room in the result */
} cells;

static void ignore_range(uint64_t address, uint64_t bytes) {
  (void)address;
  (void)bytes;
}

int memory_map_setup(struct memory_figures *into) {
  result = into;
  if (os_pages_setup(engine.workload.header.peak_live_os_page_bytes) != 0)
    return -1;
  result->map_residency = residency_setup(true); /* after the largest tables: it leaves out what is there */
  residency_visit(ignore_range);                 /* makes its buffers resident before the baseline is taken */
  for (cell_shift = (unsigned)__builtin_ctzll(os_page_bytes());
       (engine.workload.header.peak_live_os_page_bytes >> cell_shift) > CELLS_AT_PEAK; cell_shift++)
    ;
  if (cell_shift > 31)
    cell_shift = 31;
  result->map_cell_bytes = (uint64_t)1 << cell_shift;
  return fragmentation_setup(result);
}

/* Under some orders other threads may be writing to it: then an object is read with another object's size, or left out,
   and cells are slightly wrong (fragmentation.h). A lock around every op would slow all orders. */
__attribute__((no_sanitize("thread"), noinline)) static struct object object_now(uint32_t slot) {
  return engine.objects[slot];
}

static uint64_t add_objects(void) {
  uint64_t live_bytes = 0;
  for (uint32_t slot = 0; slot < engine.workload.header.slots; slot++) {
    struct object object = object_now(slot);
    if (!object.pointer || object.size_bytes == OBJECT_MISSING)
      continue;
    live_bytes += object.size_bytes;
    os_pages_add_object((uint64_t)(uintptr_t)object.pointer, object.size_bytes, fragmentation_rounding_of(slot));
  }
  return live_bytes;
}

static void put(const void *value, size_t bytes) {
  memcpy(result->map + result->map_used_bytes, value, bytes);
  result->map_used_bytes += bytes;
}

static void end_cell(void) {
  uint32_t live_bytes = (uint32_t)cells.live_bytes, resident_bytes = (uint32_t)cells.resident_bytes;
  if (live_bytes + resident_bytes == 0)
    return;
  if (cells.fits && result->map_used_bytes + CELL_BYTES <= MAP_BYTES) {
    put(&cells.number, sizeof cells.number);
    put(&live_bytes, sizeof live_bytes);
    put(&resident_bytes, sizeof resident_bytes);
    cells.count++;
  } else {
    cells.lost_live_bytes += live_bytes;
    cells.lost_resident_bytes += resident_bytes;
  }
  cells.live_bytes = cells.resident_bytes = 0;
}

/* A piece is at most an OS page, or a span that is completely live. */
static void add_piece(uint64_t address, uint64_t live_bytes, uint64_t resident_bytes) {
  uint64_t cell_bytes = result->map_cell_bytes;
  while (live_bytes > cell_bytes) {
    add_piece(address, cell_bytes, 0);
    address += cell_bytes;
    live_bytes -= cell_bytes;
  }
  if (address >> cell_shift != cells.number) {
    HT_ASSERT(cells.number == UINT64_MAX || address >> cell_shift > cells.number);
    end_cell();
    cells.number = address >> cell_shift;
  }
  cells.live_bytes += live_bytes;
  cells.resident_bytes += resident_bytes;
}

static void add_cells(uint64_t position) {
  cells.begin_bytes = result->map_used_bytes;
  cells.count = 0;
  cells.number = UINT64_MAX;
  cells.fits =
      result->map_positions_count < MAP_POSITIONS + 2 && result->map_used_bytes + sizeof cells.count <= MAP_BYTES;
  if (cells.fits) {
    result->map_positions[result->map_positions_count++] = position;
    put(&cells.count, sizeof cells.count);
  }
  os_pages_visit(add_piece);
  end_cell();
  if (cells.fits)
    memcpy(result->map + cells.begin_bytes, &cells.count, sizeof cells.count);
}

/* Fills in the table of OS pages. Returns the live bytes, resident or not. */
static uint64_t measure_live(void) {
  fragmentation_begin();
  os_pages_begin();
  residency_visit(os_pages_add_resident);
  return add_objects();
}

static void add_position(uint64_t position) {
  add_cells(position);
  os_pages_lost(&result->map_lost_bytes, &result->map_lost_resident_bytes);
  result->map_lost_bytes += cells.lost_live_bytes;
  result->map_lost_resident_bytes += cells.lost_resident_bytes;
}

void memory_map_add(uint64_t position, uint64_t rss_anon_bytes) {
  uint64_t live_bytes = measure_live();
  add_position(position);
  fragmentation_add(position, rss_anon_bytes, live_bytes);
}

void memory_map_sample(uint64_t position, uint64_t rss_anon_bytes, bool add, struct fragmentation_row *parts) {
  *parts =
      (struct fragmentation_row){.position = position, .rss_anon_bytes = rss_anon_bytes, .live_bytes = measure_live()};
  if (add)
    add_position(position);
  fragmentation_measure(parts);
  if (add && result->fragmentation_count < FRAGMENTATION_ROWS)
    result->fragmentation[result->fragmentation_count++] = *parts;
}

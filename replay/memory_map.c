#include "replay/memory_map.h"

#include "replay/residency.h"
#include "trace/os.h"

#include <string.h>

enum {
  TABLE_BITS = 17, /* regions at one position: at most half of this table */
  REGIONS_AT_PEAK = 1024,
  CELL_BYTES = 16,
};

struct cell {
  uint64_t region; /* plus 1; 0: empty */
  uint64_t live_bytes, resident_bytes;
};

static struct replay_result *result;
static struct cell *table;
static uint32_t *used; /* entries of the table in use */
static uint32_t used_count;
static unsigned region_shift;

static void ignore_range(uint64_t address, uint64_t bytes) {
  (void)address;
  (void)bytes;
}

int memory_map_setup(struct replay_result *into) {
  result = into;
  result->map_residency = residency_setup(true);
  residency_visit(ignore_range); /* its buffers become resident before the baseline is taken */
  for (region_shift = 12; (engine.map.header.peak_live_os_page_bytes >> region_shift) > REGIONS_AT_PEAK; region_shift++)
    ;
  if (region_shift > 31)
    region_shift = 31;
  result->map_region_bytes = (uint64_t)1 << region_shift;
  table = os_map(sizeof *table << TABLE_BITS, true);
  used = os_map(sizeof *used << TABLE_BITS, true);
  if (!table || !used)
    return -1;
  memset(table, 0, sizeof *table << TABLE_BITS);
  memset(used, 0, sizeof *used << TABLE_BITS);
  return 0;
}

static void add_to_region(uint64_t region, uint64_t live_bytes, uint64_t resident_bytes) {
  uint32_t entry = (uint32_t)((region * 0x9e3779b97f4a7c15u) >> (64 - TABLE_BITS));
  while (table[entry].region != 0 && table[entry].region != region + 1)
    entry = (entry + 1) & ((1u << TABLE_BITS) - 1);
  if (table[entry].region == 0) {
    if (used_count == 1u << (TABLE_BITS - 1)) {
      result->map_lost_bytes += live_bytes;
      result->map_lost_resident_bytes += resident_bytes;
      return;
    }
    table[entry].region = region + 1;
    used[used_count++] = entry;
  }
  table[entry].live_bytes += live_bytes;
  table[entry].resident_bytes += resident_bytes;
}

/* At most this many regions of one range are told apart; a larger one would fill the table. */
static void add_range(uint64_t address, uint64_t bytes, bool resident) {
  uint64_t end = address + bytes;
  for (unsigned regions = 0; address < end && regions < 1u << (TABLE_BITS - 1); regions++) {
    uint64_t next = ((address >> region_shift) + 1) << region_shift;
    uint64_t here = next < end ? next - address : end - address;
    add_to_region(address >> region_shift, resident ? 0 : here, resident ? here : 0);
    address += here;
  }
  *(resident ? &result->map_lost_resident_bytes : &result->map_lost_bytes) += end - address;
}

static bool before(uint32_t a, uint32_t b) {
  return table[a].region < table[b].region;
}

static void sift_down(uint32_t root, uint32_t count) {
  for (uint32_t child; (child = 2 * root + 1) < count; root = child) {
    if (child + 1 < count && before(used[child], used[child + 1]))
      child++;
    if (!before(used[root], used[child]))
      return;
    uint32_t swapped = used[root];
    used[root] = used[child];
    used[child] = swapped;
  }
}

/* Heap sort: the C library's qsort may call malloc. */
static void sort_regions(void) {
  for (uint32_t root = used_count / 2; root-- > 0;)
    sift_down(root, used_count);
  for (uint32_t last = used_count; last-- > 1;) {
    uint32_t swapped = used[0];
    used[0] = used[last];
    used[last] = swapped;
    sift_down(0, last);
  }
}

static void put(const void *value, size_t bytes) {
  memcpy(result->map + result->map_used_bytes, value, bytes);
  result->map_used_bytes += bytes;
}

/* Other threads may be writing to it where orders let them: an object is then taken with another's size, or left out,
   and cells are a little wrong, which is what memory_map.h says. Locking every op for that would cost all orders. */
__attribute__((no_sanitize("thread"), noinline)) static struct object object_now(uint32_t slot) {
  return engine.objects[slot];
}

static void add_resident(uint64_t address, uint64_t bytes) {
  add_range(address, bytes, true);
}

void memory_map_add(uint64_t position) {
  for (uint32_t slot = 0; slot < engine.map.header.slots; slot++) {
    struct object object = object_now(slot);
    if (object.pointer && object.size_bytes > 0 && object.size_bytes != OBJECT_MISSING)
      add_range((uint64_t)(uintptr_t)object.pointer, object.size_bytes, false);
  }
  residency_visit(add_resident);
  sort_regions();
  bool fits = result->map_positions_count < MAP_POSITIONS + 2 &&
              result->map_used_bytes + sizeof used_count + (uint64_t)used_count * CELL_BYTES <= MAP_BYTES;
  if (fits) {
    result->map_positions[result->map_positions_count++] = position;
    put(&used_count, sizeof used_count);
  }
  for (uint32_t index = 0; index < used_count; index++) {
    struct cell *cell = &table[used[index]];
    uint64_t region = cell->region - 1;
    uint32_t live_bytes = (uint32_t)cell->live_bytes, resident_bytes = (uint32_t)cell->resident_bytes;
    if (fits) {
      put(&region, sizeof region);
      put(&live_bytes, sizeof live_bytes);
      put(&resident_bytes, sizeof resident_bytes);
    } else {
      result->map_lost_bytes += cell->live_bytes;
      result->map_lost_resident_bytes += cell->resident_bytes;
    }
    *cell = (struct cell){0};
  }
  used_count = 0;
}

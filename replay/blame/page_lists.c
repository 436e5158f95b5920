#include "replay/blame/page_lists.h"

#include "core/base/os.h"
#include "replay/memory/os_pages.h"

#include <string.h>

static uint32_t *ends; /* by place: first counts, then where the next object goes, at last the list's end */
static uint32_t *objects;
static uint64_t os_page;

int page_lists_setup(uint32_t limit) {
  os_page = os_page_bytes();
  ends = os_map((OS_PAGES_PLACES + 1ull) * sizeof *ends, true);
  objects = os_map((OS_PAGES_PLACES + 1ull + limit) * sizeof *objects, true);
  return ends && objects ? 0 : -1;
}

void page_lists_begin(void) {
  memset(ends, 0, os_pages_places() * sizeof *ends);
}

/* The next OS page after address where there may be a place again, as none is here. */
static uint64_t next_span(uint64_t address) {
  uint64_t span = os_page * OS_PAGES_OF_SPAN;
  return (address / span + 1) * span;
}

/* Places of [address, address + bytes) from *address on; NO_PLACE: there is none left. Passes it. */
static inline uint32_t next_place(uint64_t *address, uint64_t end) {
  while (*address < end) {
    uint32_t place = os_pages_place(*address);
    *address = place != OS_PAGES_NO_PLACE ? (*address / os_page + 1) * os_page : next_span(*address);
    if (place != OS_PAGES_NO_PLACE)
      return place;
  }
  return OS_PAGES_NO_PLACE;
}

void page_lists_count(uint64_t address, uint64_t bytes) {
  for (uint64_t end = address + bytes;;) {
    uint32_t place = next_place(&address, end);
    if (place == OS_PAGES_NO_PLACE)
      return;
    ends[place]++;
  }
}

void page_lists_lay_out(void) {
  uint32_t next = 0;
  for (uint64_t place = 0; place < os_pages_places(); place++) {
    uint32_t count = ends[place];
    ends[place] = next;
    next += count;
  }
}

void page_lists_put(uint64_t address, uint64_t bytes, uint32_t object) {
  for (uint64_t end = address + bytes;;) {
    uint32_t place = next_place(&address, end);
    if (place == OS_PAGES_NO_PLACE)
      return;
    objects[ends[place]++] = object;
  }
}

const uint32_t *page_lists_of(uint32_t place, uint32_t *count) {
  uint32_t begin = place ? ends[place - 1] : 0;
  *count = ends[place] - begin;
  return objects + begin;
}

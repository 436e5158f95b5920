/* SPDX-License-Identifier: MIT */
#include "replay/passes/blame/page_lists.h"

#include "core/base/os.h"
#include "replay/memory/os_pages.h"

#include <string.h>

/* By place: where its list begins, with one more entry behind the last place; and where the next object goes, finally
   the list's end. Before the lists are laid out, ends are counts. */
static uint32_t *begins, *ends;
static uint32_t *objects;
static uint64_t os_page, limit;

int page_lists_setup(uint32_t most_objects) {
  os_page = os_page_bytes();
  /* Objects that do not overlap are in one OS page each, plus one for each border between two OS pages. */
  limit = OS_PAGES_PLACES + (uint64_t)most_objects;
  begins = os_map((OS_PAGES_PLACES + 1ull) * sizeof *begins, true);
  ends = os_map((OS_PAGES_PLACES + 1ull) * sizeof *ends, true);
  objects = os_map((limit + PAGE_LISTS_BEYOND) * sizeof *objects, true);
  return begins && ends && objects ? 0 : -1;
}

void page_lists_begin(void) {
  memset(ends, 0, os_pages_places() * sizeof *ends);
}

/* Returns the next OS page after address that may have a place, as this one has none. */
static uint64_t next_span(uint64_t address) {
  uint64_t span = os_page * OS_PAGES_OF_SPAN;
  return (address / span + 1) * span;
}

/* Returns the next place in [address, address + bytes) from *address on, and advances *address; NO_PLACE: none left. */
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
  uint64_t room = limit - os_pages_places(); /* for objects that are not the first of their list */
  uint32_t next = 0;
  for (uint64_t place = 0; place < os_pages_places(); place++) {
    uint64_t others = ends[place] > 0 ? ends[place] - 1 : 0;
    if (others > room)
      others = room;
    room -= others;
    begins[place] = next;
    next += (ends[place] > 0) + (uint32_t)others;
    ends[place] = begins[place];
  }
  begins[os_pages_places()] = next;
}

void page_lists_put(uint64_t address, uint64_t bytes, uint32_t object) {
  for (uint64_t end = address + bytes;;) {
    uint32_t place = next_place(&address, end);
    if (place == OS_PAGES_NO_PLACE)
      return;
    if (ends[place] < begins[place + 1])
      objects[ends[place]++] = object;
  }
}

const uint32_t *page_lists_of(uint32_t place, uint32_t *count) {
  *count = ends[place] - begins[place];
  return objects + begins[place];
}

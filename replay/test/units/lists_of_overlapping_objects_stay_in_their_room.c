/* SPDX-License-Identifier: MIT */
/* An allocator that returns the same address for all: 70,000 objects of 256 OS pages each, more entries than fit into
   the lists of all OS pages. Each list has its first objects, at least one, in their order; together they have no more
   than fit; and the next moment's lists are complete. */
#include "replay/memory/os_pages.h"
#include "replay/passes/blame/attribution.h"

#include "core/base/os.h"
#include "core/test/check.h"

enum { OBJECTS = 70000, OS_PAGES = 256, BASE = 1 << 30 };

static uint64_t os_page;

static void make(uint32_t objects) {
  page_lists_begin();
  for (uint32_t object = 0; object < objects; object++)
    page_lists_count(BASE, OS_PAGES * os_page);
  page_lists_lay_out();
  for (uint32_t object = 0; object < objects; object++)
    page_lists_put(BASE, OS_PAGES * os_page, object);
}

/* Returns the number of entries. */
static uint64_t check(uint32_t least, uint32_t most) {
  uint64_t all = 0;
  for (uint32_t number = 0; number < OS_PAGES; number++) {
    uint32_t count;
    const uint32_t *list = page_lists_of(os_pages_place(BASE + number * os_page), &count);
    CHECK(count >= least && count <= most, "OS page %u has %u", number, count);
    for (uint32_t index = 0; index < count; index++)
      CHECK(list[index] == index, "OS page %u has other objects, or another order", number);
    all += count;
  }
  return all;
}

int main(void) {
  os_page = os_page_bytes();
  CHECK(os_pages_setup(0) == 0 && page_lists_setup(OBJECTS) == 0);
  os_pages_begin();
  os_pages_add_resident(BASE, OS_PAGES * os_page);
  make(OBJECTS);
  CHECK(check(1, OBJECTS) <= OS_PAGES_PLACES + (uint64_t)OBJECTS, "the lists have more than there is room for");
  make(3);
  CHECK(check(3, 3) == 3 * OS_PAGES);
}

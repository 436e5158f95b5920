/* SPDX-License-Identifier: MIT */
/* Touches chosen OS pages of a mapping; the walk finds exactly these, by the ioctl (where the kernel has it) and by
   /proc/self/pagemap, and nothing of this program's own data or stack. */
#include "replay/memory/residency.h"

#include "core/base/os.h"
#include "core/test/check.h"

enum { OS_PAGES = 1000 };

static uint8_t *mapping;
static uint8_t data[64 << 10] = {1};
static uint64_t found[OS_PAGES], of_data, of_stack, last_address;
static int stack_mark;

static void visit(uint64_t address, uint64_t bytes) {
  CHECK(address >= last_address, "addresses do not rise");
  last_address = address + bytes;
  uint64_t first = (uint64_t)(uintptr_t)mapping, os_page = os_page_bytes();
  for (uint64_t at = address; at < address + bytes; at += os_page) {
    if (at >= first && at < first + OS_PAGES * os_page)
      found[(at - first) / os_page]++;
    of_data += at <= (uint64_t)(uintptr_t)data && (uint64_t)(uintptr_t)data < at + os_page;
    of_stack += at <= (uint64_t)(uintptr_t)__builtin_frame_address(0) &&
                (uint64_t)(uintptr_t)__builtin_frame_address(0) < at + os_page;
  }
}

static bool touched(unsigned number) {
  return number % 3 == 0 || (number > 500 && number < 700);
}

static void check(enum residency_method method) {
  memset(found, 0, sizeof found);
  last_address = 0;
  residency_visit(visit);
  for (unsigned number = 0; number < OS_PAGES; number++)
    CHECK(found[number] == touched(number), "method %d: OS page %u was found %d times", (int)method, number,
          (int)found[number]);
  CHECK(of_data == 0 && of_stack == 0, "the program's own data or stack was visited");
}

int main(void) {
  data[1] = (uint8_t)stack_mark;
  size_t os_page = os_page_bytes();
  mapping = mmap(NULL, OS_PAGES * os_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint8_t *shared = os_map(OS_PAGES * os_page, true);
  CHECK(mapping != MAP_FAILED && shared);
  madvise(mapping, OS_PAGES * os_page, MADV_NOHUGEPAGE);
  memset(shared, 1, OS_PAGES * os_page);
  for (unsigned number = 0; number < OS_PAGES; number++) {
    if (touched(number))
      mapping[number * os_page] = 1;
  }
  enum residency_method best = residency_setup(true);
  if (best == RESIDENCY_NONE) {
    puts("/proc/self/pagemap can't be read here");
    return 77;
  }
  check(best);
  CHECK(residency_setup(false) == RESIDENCY_PAGEMAP, "the fallback was not taken");
  check(RESIDENCY_PAGEMAP);
  printf("found by method %d and by the fallback\n", (int)best);
  return 0;
}

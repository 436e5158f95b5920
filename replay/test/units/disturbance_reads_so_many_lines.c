/* SPDX-License-Identifier: MIT */
/* It reads the requested number of cache lines of its own buffer, which is larger, and wraps around: shown by the page
   faults of the first reading; a second reading of the same lines has none. */
#include "core/base/os.h"
#include "core/test/usual.h"
#include "replay/passes/time/timing.h"

static long faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

static int expect(const char *what, long found, long least, long most) {
  if (found >= least && found <= most)
    return 0;
  printf("%s: %ld page faults, not %ld to %ld\n", what, found, least, most);
  return 1;
}

int main(void) {
  long page_bytes = (long)os_page_bytes(), pages = 100, all = DISTURB_BYTES / page_bytes;
  enum { SLACK = 10 };
  faults();
  disturb(0);
  long before = faults();
  disturb((uint64_t)(pages * page_bytes / DISTURB_LINE_BYTES));
  long first = faults() - before;
  if (first < SLACK) {
    printf("huge OS pages for shared memory: faults show nothing\n");
    return 77;
  }
  before = faults();
  disturb((uint64_t)((all - pages) * page_bytes / DISTURB_LINE_BYTES));
  long rest = faults() - before;
  before = faults();
  disturb((uint64_t)((all - pages) * page_bytes / DISTURB_LINE_BYTES));
  long again = faults() - before;
  return expect("the first lines", first, pages, pages + SLACK) |
         expect("the rest", rest, all - pages, all - pages + SLACK) | expect("once more", again, 0, SLACK);
}

/* SPDX-License-Identifier: MIT */
/* Overwrites what it shares with other recorded processes: the clock goes everywhere, the recorder has ended. */
#include "capture/test/shared_page.h"

int main(void) {
  struct control *page = shared_page();
  if (!page)
    return 1;
  memset(page, 0xff, sizeof *page);
  return page->collector_futex != UINT32_MAX; /* FUTEX_OWNER_DIED among the bits */
}

#define _GNU_SOURCE
#include "capture/large.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  LOOK_PAGES = 512, /* OS pages of one mincore call: a byte each, on a stack that may be a signal handler's */
  SAMPLE_WINDOWS = 16,
  SAMPLE_PAGES = 64, /* of each window */
};

void large_put(const void *object, uint64_t bytes) {
  uint32_t set = large_set(object);
  struct large_entry *entry = order.tables->large[set];
  for (int way = 0; way < LARGE_WAYS; way++)
    if (atomic_load(&entry[way].address) == (uintptr_t)object) {
      atomic_store(&entry[way].bytes, bytes); /* its release was not seen */
      return;
    }
  for (int way = 0; way < LARGE_WAYS; way++) {
    uintptr_t none = 0;
    if (atomic_compare_exchange_strong(&entry[way].address, &none, (uintptr_t)object)) {
      atomic_store(&entry[way].bytes, bytes);
      atomic_fetch_add(&order.tables->large_use[set], 1);
      return;
    }
  }
  struct large_entry *victim = &entry[(uintptr_t)object / 16 % LARGE_WAYS];
  if (atomic_exchange(&victim->address, (uintptr_t)object) == 0)
    atomic_fetch_add(&order.tables->large_use[set], 1);
  atomic_store(&victim->bytes, bytes);
}

uint64_t large_take(const void *object) {
  uint32_t set = large_set(object);
  struct large_entry *entry = order.tables->large[set];
  for (int way = 0; way < LARGE_WAYS; way++) {
    uintptr_t address = (uintptr_t)object;
    if (atomic_load(&entry[way].address) != address)
      continue;
    /* Before the exchange: whoever takes the entry's place changes the address first. */
    uint64_t bytes = atomic_load(&entry[way].bytes);
    if (!atomic_compare_exchange_strong(&entry[way].address, &address, 0))
      return 0;
    atomic_fetch_sub(&order.tables->large_use[set], 1);
    return bytes;
  }
  return 0;
}

/* How many of these OS pages are resident; -1: not known. */
static int64_t look(uintptr_t from, uint64_t pages) {
  uint8_t resident[LOOK_PAGES];
  int64_t sum = 0;
  for (uint64_t done = 0; done < pages;) {
    uint64_t some = pages - done < LOOK_PAGES ? pages - done : LOOK_PAGES;
    if (syscall(SYS_mincore, from + done * order.os_page_bytes, some * order.os_page_bytes, resident) != 0)
      return -1;
    for (uint64_t i = 0; i < some; i++)
      sum += resident[i] & 1;
    done += some;
  }
  return sum;
}

/* Resident bytes; -1: not known. */
static int64_t resident_bytes(uintptr_t begin, uint64_t bytes, bool quick) {
  uint64_t page = order.os_page_bytes;
  uintptr_t from = (begin + page - 1) & ~(page - 1), to = (begin + bytes) & ~(page - 1);
  if (to <= from)
    return -1;
  uint64_t pages = (to - from) / page;
  if (quick && pages > SAMPLE_WINDOWS * SAMPLE_PAGES) {
    uint64_t stride = pages / SAMPLE_WINDOWS;
    int64_t sum = 0;
    for (uint64_t window = 0; window < SAMPLE_WINDOWS; window++) {
      int64_t some = look(from + (window * stride + (stride - SAMPLE_PAGES) / 2) * page, SAMPLE_PAGES);
      if (some < 0)
        return -1;
      sum += some;
    }
    return (int64_t)(bytes / (SAMPLE_WINDOWS * SAMPLE_PAGES)) * sum;
  }
  int64_t first = look(from, 1), last = look(to - page, 1), between = pages > 2 ? look(from + page, pages - 2) : 0;
  if (first < 0 || last < 0 || between < 0)
    return -1;
  uint64_t head = from - begin, tail = begin + bytes - to;
  uint64_t sum = (uint64_t)between * page;
  sum += first ? head + page : 0;
  sum += last ? tail + (pages > 1 ? page : 0) : 0;
  return (int64_t)sum;
}

uint32_t large_resident_os_pages(const void *object, uint64_t bytes, bool quick) {
  int error = errno;
  int64_t resident = resident_bytes((uintptr_t)object, bytes, quick);
  errno = error;
  if (resident < 0)
    return LARGE_UNKNOWN;
  uint64_t pages = ((uint64_t)resident + order.os_page_bytes - 1) / order.os_page_bytes;
  return pages < LARGE_UNKNOWN - 1 ? (uint32_t)pages : LARGE_UNKNOWN - 1;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/* Touches of OS pages that can be counted by hand. Argument: how many touches to make. "other": each kind of system
   call that gives pages back, once. */
#include "core/test/usual.h"

enum { OS_PAGE = 4096, PAGES = 1000 };

static void touch(volatile char *area, long pages) {
  for (long page = 0; page < pages; page++)
    area[page * OS_PAGE + 8] = 1;
}

static char *map(long pages) {
  char *area = mmap(NULL, (size_t)pages * OS_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED)
    abort();
  return area;
}

static void give_back(const char *how, char *area) {
  size_t bytes = PAGES * OS_PAGE;
  if (strcmp(how, "dontneed") == 0)
    madvise(area, bytes, MADV_DONTNEED);
  else if (strcmp(how, "free") == 0)
    madvise(area, bytes, MADV_FREE);
  else if (strcmp(how, "refused") == 0)
    madvise(area + 1, bytes, MADV_DONTNEED);
  else if (strcmp(how, "half") == 0)
    madvise(area, bytes / 2, MADV_DONTNEED);
  else if (strcmp(how, "over") == 0)
    mmap(area, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  else if (strcmp(how, "again") == 0)
    munmap(area, bytes), mmap(area, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* Each shape touches the same pages twice. */
static void with_area(const char *how) {
  char *area = map(PAGES);
  touch(area, PAGES);
  give_back(how, area);
  touch(area, PAGES);
}

static void with_remap(void) {
  char *area = map(PAGES), *place = map(2 * PAGES);
  touch(area, PAGES);
  char *moved = mremap(area, PAGES * OS_PAGE, 2 * PAGES * OS_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  if (moved != place)
    abort();
  touch(moved, 2 * PAGES);
}

static void with_data_segment(void) {
  char *start = sbrk(0);
  start += -(size_t)start % OS_PAGE;
  for (int round = 0; round < 2; round++) {
    if (brk(start + PAGES * OS_PAGE) != 0)
      abort();
    touch(start, PAGES);
    if (brk(start) != 0)
      abort();
  }
}

/* The child touches the parent's pages, and as many new ones. */
static void with_fork(void) {
  char *area = map(2 * PAGES);
  touch(area, PAGES);
  if (fork() == 0) {
    touch(area, 2 * PAGES);
    _exit(0);
  }
  wait(NULL);
}

int main(int count, char **arguments) {
  const char *how = count > 1 ? arguments[1] : "nothing";
  if (strcmp(how, "remap") == 0)
    with_remap();
  else if (strcmp(how, "segment") == 0)
    with_data_segment();
  else if (strcmp(how, "fork") == 0)
    with_fork();
  else if (strcmp(how, "none") != 0)
    with_area(how);
  return 0;
}

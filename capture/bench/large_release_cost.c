/* SPDX-License-Identifier: MIT */
/* What an allocation and release of a large object costs the program, in ns of its CPU time: the best of seven runs.
   Run it recorded with and without --touch-min 0; the difference is the price of touch truth. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const struct {
  const char *what;
  size_t bytes;
  int touched; /* a byte of each OS page is written */
  int mapped;  /* comes from the system and goes back to it */
  int repeats;
} cases[] = {
    {"1 MiB, written, mapped", 1 << 20, 1, 1, 300}, /* these first: a heap that has grown is used before new mappings */
    {"64 MiB, not written, mapped", 64 << 20, 0, 1, 300},
    {"8 KiB, written, from the heap", 8 << 10, 1, 0, 20000},
    {"64 KiB, written, from the heap", 64 << 10, 1, 0, 20000},
    {"1 MiB, written, from the heap", 1 << 20, 1, 0, 3000},
};

static double cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(void) {
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    mallopt(M_MMAP_THRESHOLD, cases[c].mapped ? 64 << 10 : 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 2000000000);
    double best = 1e18;
    for (int run = 0; run < 7; run++) {
      double begin = cpu_ns();
      for (int i = 0; i < cases[c].repeats; i++) {
        char *volatile object = malloc(cases[c].bytes);
        for (size_t at = 0; cases[c].touched && at < cases[c].bytes; at += 4096)
          object[at] = 1;
        free(object);
      }
      double each = (cpu_ns() - begin) / cases[c].repeats;
      best = each < best ? each : best;
    }
    printf("%-32s %8.0f ns\n", cases[c].what, best);
  }
  return 0;
}

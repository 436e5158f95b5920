/* SPDX-License-Identifier: MIT */
/* Requests in waves, each with objects of another size; of each 32 objects one that group_new acquires is kept to the
   end. waves plain|remove [SCALE, percent]; remove: without group_new's objects, all else is the same. Prints the peak
   of its RssAnon above that at its start, in bytes. Its own data are resident from the start. */
#include "capture/wire/heaptape.h"
#include "core/test/usual.h"

enum { MOST = 1 << 20 };

static uint64_t rss_anon_bytes(void) {
  char text[4096];
  int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  close(fd);
  if (got < 0)
    abort();
  text[got] = '\0';
  const char *at = strstr(text, "RssAnon:");
  return at ? strtoull(at + 8, NULL, 10) << 10 : 0;
}

static __attribute__((noinline)) void *group_new(size_t bytes) {
  void *object = malloc(bytes);
  return memset(object, 1, bytes);
}

int main(int argc, char **argv) {
  static const size_t sizes[] = {96, 160, 288, 416, 672, 928, 1440, 2080};
  int remove = argc > 1 && strcmp(argv[1], "remove") == 0;
  unsigned scale = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100, kept = 0;
  void **objects =
      mmap(NULL, 2 * MOST * sizeof *objects, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (objects == MAP_FAILED)
    return 1;
  uint64_t at_start = rss_anon_bytes(), peak = 0;
  for (unsigned wave = 0; wave < 8; wave++) {
    heaptape_mark(wave % 2 ? "odd wave" : "even wave");
    unsigned count = (unsigned)((uint64_t)(6u << 20) * scale / 100 * 4 / sizes[wave]);
    for (unsigned i = 0; i < count; i++) {
      objects[i] = memset(malloc(sizes[wave]), 2, sizes[wave]);
      if (i % 32 == 0 && !remove)
        objects[MOST + kept++] = group_new(40 + i / 32 * 7 % 33);
    }
    uint64_t rss = rss_anon_bytes() - at_start;
    peak = rss > peak ? rss : peak;
    for (unsigned i = 0; i < count; i++)
      free(objects[i]);
  }
  printf("%llu\n", (unsigned long long)peak);
  return 0;
}

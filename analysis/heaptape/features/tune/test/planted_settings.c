/* SPDX-License-Identifier: MIT */
/* An allocator whose waste is a formula of its settings: the same as planted.py's. PLANTED_MODE=crash ends the process.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *object);

static long number(const char *name, long standard) {
  const char *text = getenv(name);
  return text ? atol(text) : standard;
}

static void waste(void) {
  const char *mode = getenv("PLANTED_MODE");
  if (!mode)
    mode = "x";
  if (strcmp(mode, "crash") == 0)
    abort();
  long of_a = 16 * labs(number("PLANTED_A", 0) - 40) * (*mode == 'z' ? 2 : 1);
  long bits = 0;
  for (long b = number("PLANTED_B", 256); b > 0; b >>= 1)
    bits++;
  size_t bytes = (size_t)(100 + of_a + 64 * labs(bits - 4) + (*mode == 'y' ? 0 : 200)) * 4096;
  memset(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, bytes);
}

void *malloc(size_t size) {
  static int wasted;
  if (!wasted) {
    wasted = 1;
    waste();
  }
  return __libc_malloc(size);
}

void free(void *object) {
  __libc_free(object);
}

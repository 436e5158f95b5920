/* Acquires objects of many sizes by all calls that do, and prints what each may use: request, usable size. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void tell(size_t request, void *object) {
  printf("%zu %zu\n", request, malloc_usable_size(object));
  free(object);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "slow") == 0) {
    for (int i = 0; i < 200; i++)
      free(malloc(i == 100 ? 4242 : 100));
    return 0;
  }
  for (size_t i = 0; i < 300; i++) {
    void *object;
    tell(1000 + i * 7, malloc(1000 + i * 7));
    tell(10000 + i * 3, calloc(1, 10000 + i * 3));
    tell(200000 + i * 1001, realloc(malloc(10), 200000 + i * 1001));
    if (posix_memalign(&object, 64, 50000 + i) == 0)
      tell(50000 + i, object);
    tell(70000 + i, aligned_alloc(4096, 70000 + i));
  }
  free(malloc((size_t)-4096 * 16)); /* fails */
  return 0;
}

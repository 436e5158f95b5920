/* SPDX-License-Identifier: MIT */
/* An allocator as Firefox's: malloc and free are lone jumps to functions that others call directly. Makes argv[1]
   rounds of calls; memalign and aligned_alloc jump to one function. */
#include "core/test/usual.h"

#define OWN __attribute__((noipa))

static char memory[1 << 24], *top = memory;
static void *spare; /* the object freed last; each has room for 256 bytes */

static OWN void *take(size_t bytes) {
  char *at = spare && bytes <= 256 ? spare : top;
  if (at == spare)
    spare = NULL;
  else
    top = at + (bytes < 256 ? 256 : (bytes + 255) & ~(size_t)255);
  return at;
}
static OWN void give(void *object) {
  spare = object;
}
static OWN void *take_aligned(size_t align, size_t bytes) {
  return align <= 256 ? take(bytes) : NULL;
}
static OWN void *take_again(void *object, size_t bytes) {
  return object && bytes <= 256 ? object : take(bytes);
}

OWN void *malloc(size_t bytes) {
  return take(bytes);
}
OWN void free(void *object) {
  give(object);
}
OWN void cfree(void *object) {
  free(object);
}
OWN void *calloc(size_t count, size_t bytes) {
  return memset(take(count * bytes), 0, count * bytes);
}
OWN void *realloc(void *object, size_t bytes) {
  return take_again(object, bytes);
}
OWN void *memalign(size_t align, size_t bytes) {
  return take_aligned(align, bytes);
}
OWN void *aligned_alloc(size_t align, size_t bytes) {
  return take_aligned(align, bytes);
}
OWN char *strdup(const char *text) {
  return strcpy(take(strlen(text) + 1), text);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 1;
  for (int i = 0; i < rounds; i++) {
    char *volatile a = strdup("four");
    free(a);
    a = malloc(100);
    give(a);
    a = take(120);
    cfree(a);
    a = calloc(3, 30);
    a = realloc(a, 130);
    free(a);
    a = memalign(64, 140);
    free(a);
    a = aligned_alloc(128, 150);
    free(a);
  }
  fputs("done\n", stderr);
  return 0;
}

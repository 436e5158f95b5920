/* SPDX-License-Identifier: MIT */
/* An allocator with a malloc of its own and Firefox's functions that take an arena, none of which calls another, and
   calls of each, argv[1] rounds. What one function hands out, another takes back. With argv[2], each round takes an
   object more, by a function of no such name, into which the compiler has copied the allocator's; with "forked" in a
   fork child alone. */
#include "core/test/usual.h"

#define OWN __attribute__((noipa))
#define INSIDE static inline __attribute__((always_inline))

static char memory[1 << 24], *top = memory;
static void *spare; /* the object freed last */

INSIDE void *take(size_t align, size_t bytes) {
  char *at = spare && (size_t)spare % align == 0 && bytes <= 256 ? spare : NULL;
  if (at) {
    spare = NULL;
    return at;
  }
  at = (char *)(((size_t)top + align - 1) & -align);
  top = at + (bytes < 256 ? 256 : (bytes + 15) & ~(size_t)15);
  return at;
}

OWN void *malloc(size_t bytes) {
  return take(16, bytes);
}
OWN void free(void *object) {
  spare = object;
}
OWN void *calloc(size_t count, size_t bytes) {
  return memset(take(16, count * bytes), 0, count * bytes);
}
OWN void *realloc(void *object, size_t bytes) {
  (void)object;
  return take(16, bytes);
}
OWN void *moz_arena_malloc(size_t arena, size_t bytes) {
  return take(16, bytes + 0 * arena);
}
OWN void *moz_arena_calloc(size_t arena, size_t count, size_t bytes) {
  return memset(take(16, count * bytes + 0 * arena), 0, count * bytes);
}
OWN void *moz_arena_realloc(size_t arena, void *object, size_t bytes) {
  return bytes <= 256 ? object : take(16, bytes + 0 * arena);
}
OWN void *moz_arena_memalign(size_t arena, size_t align, size_t bytes) {
  return take(align, bytes + 0 * arena);
}
OWN void moz_arena_free(size_t arena, void *object) {
  spare = arena ? object : NULL;
}

OWN void *by_another_name(size_t bytes) {
  return take(16, bytes);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 1, status = 0;
  if (argc > 2 && strcmp(argv[2], "forked") == 0 && fork() != 0)
    return wait(&status) < 0 || status;
  for (int i = 0; i < rounds; i++) {
    void *volatile a = moz_arena_malloc(1, 100);
    free(a);
    a = malloc(101);
    moz_arena_free(1, a);
    a = moz_arena_calloc(2, 3, 30);
    a = moz_arena_realloc(2, a, 120);
    free(a);
    a = moz_arena_memalign(3, 64, 200);
    free(a);
    if (argc > 2)
      free(by_another_name(60));
  }
  fputs("done\n", stderr);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* An allocator with the names and parameters of mimalloc's functions, on top of libc's, and calls of each, argv[1]
   rounds. Calls that one of its functions makes to another, or to libc, are a part of its call. */
#include "core/test/usual.h"

#define OWN __attribute__((noipa))

OWN void mi_collect(int force) {
  (void)force;
}
OWN void *mi_malloc(size_t size) {
  return malloc(size);
}
OWN void mi_free(void *object) {
  free(object);
}
OWN void *mi_zalloc(size_t size) {
  return memset(mi_malloc(size), 0, size);
}
OWN void *mi_calloc(size_t count, size_t size) {
  return mi_zalloc(count * size);
}
OWN void *mi_mallocn(size_t count, size_t size) {
  return mi_malloc(count * size);
}
OWN void *mi_realloc(void *object, size_t size) {
  return realloc(object, size);
}
OWN void *mi_reallocn(void *object, size_t count, size_t size) {
  return mi_realloc(object, count * size);
}
OWN void *mi_malloc_aligned(size_t size, size_t align) {
  return aligned_alloc(align, (size + align - 1) / align * align);
}
OWN void *mi_calloc_aligned(size_t count, size_t size, size_t align) {
  return memset(mi_malloc_aligned(count * size, align), 0, count * size);
}
OWN void *mi_realloc_aligned(void *object, size_t size, size_t align) {
  void *moved = mi_malloc_aligned(size, align);
  memcpy(moved, object, size / 2);
  mi_free(object);
  return moved;
}
OWN void mi_free_size(void *object, size_t size) {
  (void)size;
  mi_free(object);
}
OWN void mi_free_size_aligned(void *object, size_t size, size_t align) {
  (void)align;
  mi_free_size(object, size);
}
OWN void *mi_heap_calloc(void *heap, size_t count, size_t size) {
  (void)heap;
  return mi_calloc(count, size);
}
OWN char *mi_strdup(const char *text) {
  return strcpy(mi_malloc(strlen(text) + 1), text);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 1;
  for (int i = 0; i < rounds; i++) {
    void *a = mi_malloc(100), *b = mi_zalloc(200), *c = mi_calloc(3, 30), *d = mi_mallocn(4, 40);
    void *e = mi_malloc_aligned(500, 128), *f = mi_calloc_aligned(6, 60, 64), *g = mi_heap_calloc(NULL, 7, 70);
    a = mi_realloc(a, 1000);
    d = mi_reallocn(d, 8, 40);
    e = mi_realloc_aligned(e, 900, 128);
    mi_free(a);
    mi_free(b);
    mi_free_size(c, 90);
    mi_free(d);
    mi_free_size_aligned(e, 900, 128);
    mi_free(f);
    mi_free(g);
    if (argc > 2)
      mi_free(mi_strdup(argv[2]));
  }
  mi_collect(0);
  puts("done");
  return 0;
}

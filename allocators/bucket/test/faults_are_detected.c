/* SPDX-License-Identifier: MIT */
/* Each way to corrupt a heap of the bucket allocator, and the line that reports it. */
#include "allocators/bucket/buckets.h"
#include "allocators/test/expect_fault.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The header shows it, before the bit does. */
static void double_free_of_a_cached_object(void) {
  void *object = object_before_another(24);
  allocator_free(object);
  allocator_free(object);
}

/* It has its own header within another object. */
static void double_free_of_an_aligned_object(void) {
  void *object = NULL;
  do /* until one is within another */
    object = allocator_aligned_alloc(64, 100);
  while (((uintptr_t)object & 127) != 64);
  allocator_free(object);
  allocator_free(object);
}

/* Not merged with anything: an object separates it from other free memory. */
static void double_free_of_an_oversize_object(void) {
  void *object = object_before_another(100000);
  allocator_free(object);
  allocator_free(object);
}

/* Aligned, but there is no header before it. */
static void free_of_a_pointer_into_an_object(void) {
  allocator_free((char *)memset(object_before_another(1000), 0, 1000) + 160);
}

/* There is no header of ours before it. */
static void free_of_an_object_of_another_allocator(void) {
  static _Alignas(16) char not_ours[64];
  allocator_free(not_ours + 32);
}

/* By an underflow from its first block. */
static void overwritten_head_of_a_cache(void) {
  char *object = object_before_another(24);
  struct cache *cache = block_owner(block_of(object));
  cache->block_bytes = 4096;
  allocator_free(object);
}

/* Detected when the block is handed out again: the lowest free block is the next. */
static void overwritten_header_of_a_free_object(void) {
  char *first = allocator_malloc(64), *second = allocator_malloc(64);
  allocator_free(second);
  memset(first, 1, 64 + 16);
  allocator_malloc(64);
}

/* By an overflow from the object before; detected when the block is handed out again. */
static void overwritten_header_of_a_free_oversize_object(void) {
  char *first = allocator_malloc(100000), *second = object_before_another(100000);
  if (second < first)
    exit(4);
  allocator_free(second);
  ((size_t *)second)[-2] ^= 4096; /* struct block */
  allocator_malloc(100000);
}

/* By an overflow from the object before it. */
static void overwritten_header_of_a_used_object(void) {
  char *first = allocator_malloc(64), *second = allocator_malloc(64);
  memset(first, 1, 64 + 8);
  allocator_free(second);
}

/* A write after the free. */
static void overwritten_links_of_a_free_oversize_object(void) {
  char *object = object_before_another(100000);
  allocator_free(object);
  memset(object + 8, 1, 16);
  allocator_malloc(100000);
}

/* By an overflow that ends before the seal of the block behind. */
static void overwritten_size_behind_an_oversize_object(void) {
  char *object = object_before_another(100000);
  memset(object, 1, allocator_malloc_usable_size(object) + 16);
  allocator_free(object);
}

/* By a write before the object. */
static void overwritten_size_of_an_oversize_object(void) {
  size_t *object = object_before_another(100000);
  object[-6] += 64; /* struct oversize */
  allocator_free(object);
}

/* It must neither be copied nor grown in place. */
static void realloc_of_a_freed_object(void) {
  void *object = object_before_another(24);
  allocator_free(object);
  allocator_realloc(object, 10);
}

/* Aligned, but there is no header before it. */
static void realloc_of_a_pointer_into_an_object(void) {
  allocator_realloc((char *)memset(object_before_another(1000), 0, 1000) + 160, 10);
}

static const struct fault_case cases[] = {
    FAULT(double_free_of_a_cached_object, "", "free: double free"),
    FAULT(double_free_of_an_aligned_object, "", "free: double free"),
    FAULT(double_free_of_an_oversize_object, "", "free: double free"),
    FAULT(free_of_a_pointer_into_an_object, "", "free: invalid pointer, or overwritten header"),
    FAULT(free_of_an_object_of_another_allocator, "", "free: invalid pointer, or overwritten header"),
    FAULT(overwritten_head_of_a_cache, "", "free: overwritten head of a cache"),
    FAULT(overwritten_header_of_a_free_object, "", "malloc: overwritten header of a free block"),
    FAULT(overwritten_header_of_a_free_oversize_object, "", "overwritten header of a free oversize block"),
    FAULT(overwritten_header_of_a_used_object, "", "free: invalid pointer, or overwritten header"),
    FAULT(overwritten_links_of_a_free_oversize_object, "", "overwritten links of a free oversize block"),
    FAULT(overwritten_size_behind_an_oversize_object, "", "overwritten size, of this oversize block or beside it"),
    FAULT(overwritten_size_of_an_oversize_object, "", "free: overwritten size, of this oversize block or beside it"),
    FAULT(realloc_of_a_freed_object, "", "realloc: double free, or an object that was freed"),
    FAULT(realloc_of_a_pointer_into_an_object, "", "realloc: invalid pointer, or overwritten header"),
    {0},
};

int main(int argument_count, char **arguments) {
  return expect_faults(argument_count, arguments, cases);
}

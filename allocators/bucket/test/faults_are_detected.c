/* SPDX-License-Identifier: MIT */
/* Each way to corrupt a heap of the bucket allocator, and the line that reports it. */
#include "allocators/bucket/buckets.h"
#include "allocators/test/expect_fault.h"
#include "core/test/usual.h"

/* It has its own header within another object. */
static void double_free_of_an_aligned_object(void) {
  void *object = NULL;
  do /* until one is within another */
    object = allocator_aligned_alloc(64, 100);
  while (((uintptr_t)object & 127) != 64);
  allocator_free(object);
  allocator_free(object);
}

/* There is no header of ours before it. */
static void free_of_an_object_of_another_allocator(void) {
  static _Alignas(16) char not_ours[64];
  allocator_free(not_ours + 32);
}

/* By an underflow from its first block. */
static void overwritten_head_of_a_cache(void) {
  char *object = allocator_malloc(24);
  allocator_malloc(24);
  struct cache *cache = block_owner(block_of(object));
  cache->block_bytes = 4096;
  allocator_free(object);
}

/* By an overflow from the object before; detected when the block is handed out again. */
static void overwritten_header_of_a_free_oversize_object(void) {
  char *first = allocator_malloc(100000), *second = allocator_malloc(100000);
  allocator_malloc(100000);
  if (second < first)
    exit(4);
  allocator_free(second);
  ((size_t *)second)[-2] ^= 4096; /* struct block */
  allocator_malloc(100000);
}

static const struct fault_case cases[] = {
    /* The header shows it, before the bit does. */
    {"double_free_of_a_cached_object", "", "g24 f0 f0", "free: double free", NULL},
    FAULT(double_free_of_an_aligned_object, "", "free: double free"),
    /* Not merged with anything: an object separates it from other free memory. */
    {"double_free_of_an_oversize_object", "", "g100000 f0 f0", "free: double free", NULL},
    /* Aligned, but there is no header before it. */
    {"free_of_a_pointer_into_an_object", "", "g1000 w0,1000=0 f0+160", "free: invalid pointer, or overwritten header",
     NULL},
    FAULT(free_of_an_object_of_another_allocator, "", "free: invalid pointer, or overwritten header"),
    FAULT(overwritten_head_of_a_cache, "", "free: overwritten head of a cache"),
    /* Detected when the block is handed out again: the lowest free block is the next. */
    {"overwritten_header_of_a_free_object", "", "m64 m64 f1 w0,80=1 m64", "malloc: overwritten header of a free block",
     NULL},
    FAULT(overwritten_header_of_a_free_oversize_object, "", "overwritten header of a free oversize block"),
    /* By an overflow from the object before it. */
    {"overwritten_header_of_a_used_object", "", "m64 m64 w0,72=1 f1", "free: invalid pointer, or overwritten header",
     NULL},
    /* A write after the free. */
    {"overwritten_links_of_a_free_oversize_object", "", "g100000 f0 w0+8,16=1 m100000",
     "overwritten links of a free oversize block", NULL},
    /* By an overflow that ends before the seal of the block behind. */
    {"overwritten_size_behind_an_oversize_object", "", "g100000 w0u,16=1 f0",
     "overwritten size, of this oversize block or beside it", NULL},
    /* By a write before the object, to struct oversize. */
    {"overwritten_size_of_an_oversize_object", "", "g100000 a0-48,64 f0",
     "free: overwritten size, of this oversize block or beside it", NULL},
    /* It must neither be copied nor grown in place. */
    {"realloc_of_a_freed_object", "", "g24 f0 r0,10", "realloc: double free, or an object that was freed", NULL},
    /* Aligned, but there is no header before it. */
    {"realloc_of_a_pointer_into_an_object", "", "g1000 w0,1000=0 r0+160,10",
     "realloc: invalid pointer, or overwritten header", NULL},
    {0},
};

int main(int argument_count, char **arguments) {
  return expect_faults(argument_count, arguments, cases);
}

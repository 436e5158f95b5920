/* SPDX-License-Identifier: MIT */
/* Each way to corrupt a heap of the reference allocator, and the line that reports it. */
#include "allocators/test/expect_fault.h"

#include <string.h>

/* Freeing the neighbour would write to where the links point. */
static void overwritten_links_of_a_free_chunk(void) {
  char *first = allocator_malloc(3000), *second = allocator_malloc(3000);
  allocator_malloc(3000);
  uintptr_t fake[8] = {0};
  allocator_free(first);
  *(uintptr_t **)first = fake; /* the classic unlink attack */
  allocator_free(second);
}

/* The second list of a large bin is as good a target as the first. */
static void overwritten_ring_of_sizes(void) {
  char *first = allocator_malloc(3000);
  allocator_malloc(3000);
  char *second = allocator_malloc(3040);
  allocator_malloc(3040);
  allocator_free(first);
  allocator_free(second);
  *(uintptr_t *)(first + 16) = (uintptr_t)second - 16 + 64;
  allocator_malloc(3000);
}

static const struct fault_case cases[] = {
    /* Not the last one freed, which a comparison with the first of the list would find. */
    {"double_free_into_a_fast_bin", "tcache=0", "m24 m24 f0 f1 f0", "double free: the object is in a fast bin", NULL},
    /* Not the last one freed: the whole list is searched. */
    {"double_free_into_a_tcache", "", "m24 m24 f0 f1 f0", "double free: the object is in a tcache", NULL},
    /* The object became part of the top chunk. */
    {"double_free_into_the_top", "", "m5000 f0 f0", "double free: the object is in the top chunk", NULL},
    /* The object went from the tcache into a fast bin meanwhile. */
    {"double_free_of_a_flushed_object", "tcache_count=2", "m24 m24 m24 m24 m24 m24 f0 f1 f2 f3 f4 f5 f0",
     "double free: the object is in a fast bin", NULL},
    /* Its chunk is in a large bin, which the next chunk's head shows. */
    {"double_free_of_a_large_object", "", "g5000 f0 f0", "double free: the chunk is free", NULL},
    /* There is no size before it. */
    {"free_of_a_pointer_into_an_object", "", "m200 w0,200=0 f0+64", "invalid pointer", NULL},
    /* The size of the free chunk before is read from its copy behind it, which a write after free has changed. */
    {"overwritten_copy_of_a_size", "", "m3000 g3000 f0 a1-16,-32 f1", "overwritten size of the free chunk before",
     NULL},
    /* As in a tcache. */
    {"overwritten_link_in_a_fast_bin", "tcache=0", "m40 m40 f0 f1 x1,8 m40 m40", "corrupt link or size in a fast bin",
     NULL},
    /* A write after free. The link is hidden; what was written over it does not decode to an aligned pointer. */
    {"overwritten_link_in_a_tcache", "", "m40 m40 f0 f1 x1,8 m40", "corrupt link in a tcache", NULL},
    FAULT(overwritten_links_of_a_free_chunk, "", "corrupt links of a free chunk"),
    FAULT(overwritten_ring_of_sizes, "", "corrupt ring of sizes"),
    /* The object itself is whole, but it overflowed into the next head. */
    {"overwritten_size_behind_a_fast_chunk", "tcache=0", "g40 w0u,8=0 f0",
     "overwritten size, of this object or behind it", NULL},
    /* A buffer overflows into the head of the chunk behind it, by 8 bytes; that chunk is freed. */
    {"overwritten_size", "", "m3000 m3000 m3000 w0u,8=0x41 f1", "overwritten size", NULL},
    /* A free chunk that claims to be larger would be handed out over a used one. */
    {"overwritten_size_of_a_free_chunk", "", "g3000 f0 a0-8,64 m3040",
     "size of a free chunk and the copy behind it differ", NULL},
    /* munmap would unmap a neighbour, or fail. */
    {"overwritten_size_of_a_mapped_object", "", "m1048576 a0-8,16 f0", "overwritten size of a mapped object", NULL},
    /* Zeros over the head of a chunk. */
    {"overwritten_size_of_a_small_object", "", "m24 w0-8,8=0 f0", "overwritten size", NULL},
    /* The rest of a chunk from which a small request was cut: the next one would be cut from beyond its end. */
    {"overwritten_size_of_the_remainder", "tcache=0:fastbins=0", "g3000 f0 m200 a1+200,64 m200",
     "size of a free chunk and the copy behind it differ", NULL},
    /* A top that claims to be endless would hand out memory that is not there. */
    {"overwritten_size_of_the_top", "tcache=0", "m40 w0u,8=0xff m100000", "overwritten size of the top chunk", NULL},
    /* Its chunk is in a large bin. */
    {"realloc_of_a_freed_object", "", "g5000 f0 r0,9000", "or the object is free", NULL},
    /* There is no size before it. */
    {"realloc_of_a_pointer_into_an_object", "", "m200 w0,200=0 r0+64,300", "realloc: invalid pointer", NULL},
    {0},
};

int main(int argument_count, char **arguments) {
  return expect_faults(argument_count, arguments, cases);
}

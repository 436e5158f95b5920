/* SPDX-License-Identifier: MIT */
/* Each way to corrupt a heap of the magazine allocator, and the line that reports it. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static uintptr_t zone_of(const void *object) {
  return (uintptr_t)object & ~(uintptr_t)0xffff;
}

/* A pointer into the header of a zone. */
static void free_of_a_pointer_before_the_first_object(void) {
  allocator_free((void *)(zone_of(allocator_malloc(16)) + 64));
}

/* The pointer is to memory of the program. */
static void free_of_what_is_no_object(void) {
  static char own[3 << 16];
  allocator_free(own + (1 << 16) + 64 - (uintptr_t)own % 64);
}

/* The count is 0 although an object is used. */
static void overwritten_count_of_a_zone(void) {
  char *object = allocator_malloc(100);
  memset((void *)(zone_of(object) + 64), 0, 64);
  allocator_free(object);
}

/* A write far before the object. */
static void overwritten_header_of_a_zone(void) {
  char *object = allocator_malloc(100);
  memset((void *)zone_of(object), 7, 64);
  allocator_free(object);
}

#define TWENTY "m24 m24 m24 m24 m24 m24 m24 m24 m24 m24 m24 m24 m24 m24 m24 m24 m24 m24 m24 m24"
#define ALL_FREED "f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 f13 f14 f15 f16 f17 f18 f19"

/* Where an object more is allocated, a zone stays. */
static const struct fault_case cases[] = {
    /* Not the last one freed, which a comparison with the top of the magazine would find. */
    {"double_free_into_a_magazine", "", "m24 m24 f0 f1 f0", "the object is free already: in a magazine", NULL},
    /* The object went to its zone. */
    {"double_free_into_a_zone", "magazines=0", "m24 m24 m24 f0 f1 f0", "the object is free already: in its zone", NULL},
    /* A large object of one zone, which is free for any use. */
    {"double_free_into_the_zone_magazine", "", "m30000 f0 f0", "double free of a large object", NULL},
    /* Its run of zones is still kept. */
    {"double_free_of_a_large_object", "", "m300000 f0 f0", "double free of a large object", NULL},
    /* Its magazine has gone to the depot meanwhile. */
    {"double_free_of_an_object_of_a_depot", "magazine_size=4", TWENTY " " ALL_FREED " f0",
     "the object is free already: in a magazine", NULL},
    FAULT(free_of_a_pointer_before_the_first_object, "", "no object begins there"),
    /* The program passes a wrong pointer. */
    {"free_of_a_pointer_into_a_large_object", "", "m30000 f0+4096", "no object begins there", NULL},
    {"free_of_a_pointer_into_an_object", "", "m480 f0+16", "no object begins there", NULL},
    FAULT(free_of_what_is_no_object, "", "overwritten header of a zone"),
    FAULT(overwritten_count_of_a_zone, "magazines=0", "overwritten header of a zone"),
    /* A write begins before the object. */
    {"overwritten_header_of_a_large_object", "", "m100000 w0-128,128=7 f0", "overwritten header of a zone", NULL},
    FAULT(overwritten_header_of_a_zone, "", "overwritten header of a zone"),
    /* Only the link: the key is unchanged. */
    {"overwritten_link_in_a_zone", "magazines=0", "m100 m100 m100 f1 f0 w0,8=7 m100", "written after it was freed",
     NULL},
    /* The object is in a magazine. */
    {"realloc_of_a_freed_object", "", "m100 f0 r0,200", "realloc: the object is free already", NULL},
    /* The program passes a wrong pointer. */
    {"realloc_of_a_pointer_into_an_object", "", "m480 r0+16,200", "realloc: invalid pointer: no object begins there",
     NULL},
    /* The object is written after it was freed, and handed out again. */
    {"write_after_free_into_a_magazine", "", "m100 f0 w0,100=7 m100", "written after it was freed", NULL},
    {"write_after_free_of_a_key_in_a_zone", "magazines=0", "m100 m100 f0 w0+8,8=7 m100", "written after it was freed",
     NULL},
    {0},
};

int main(int argument_count, char **arguments) {
  return expect_faults(argument_count, arguments, cases);
}

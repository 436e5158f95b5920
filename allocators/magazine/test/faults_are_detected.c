/* SPDX-License-Identifier: MIT */
/* Each way to corrupt a heap of the magazine allocator, and the line that reports it. */
#include "allocators/test/expect_fault.h"

#include <string.h>

/* Not the last one freed, which a comparison with the top of the magazine would find. */
static void double_free_into_a_magazine(void) {
  void *object = allocator_malloc(24), *other = allocator_malloc(24);
  allocator_free(object);
  allocator_free(other);
  allocator_free(object);
}

/* The object went to its zone. */
static void double_free_into_a_zone(void) {
  void *object = allocator_malloc(24), *other = allocator_malloc(24);
  allocator_malloc(24); /* the zone stays */
  allocator_free(object);
  allocator_free(other);
  allocator_free(object);
}

/* A large object of one zone, which is free for any use. */
static void double_free_into_the_zone_magazine(void) {
  void *object = allocator_malloc(30000);
  allocator_free(object);
  allocator_free(object);
}

/* Its run of zones is still kept. */
static void double_free_of_a_large_object(void) {
  void *object = allocator_malloc(300000);
  allocator_free(object);
  allocator_free(object);
}

/* Its magazine has gone to the depot meanwhile. */
static void double_free_of_an_object_of_a_depot(void) {
  void *objects[20];
  for (int index = 0; index < 20; index++)
    objects[index] = allocator_malloc(24);
  for (int index = 0; index < 20; index++)
    allocator_free(objects[index]);
  allocator_free(objects[0]);
}

/* A pointer into the header of a zone. */
static void free_of_a_pointer_before_the_first_object(void) {
  char *object = allocator_malloc(16);
  uintptr_t zone = (uintptr_t)object & ~(uintptr_t)0xffff;
  allocator_free((void *)(zone + 64));
}

/* The program passes a wrong pointer. */
static void free_of_a_pointer_into_a_large_object(void) {
  char *object = allocator_malloc(30000);
  allocator_free(object + 4096);
}

/* The program passes a wrong pointer. */
static void free_of_a_pointer_into_an_object(void) {
  char *object = allocator_malloc(480);
  allocator_free(object + 16);
}

/* The pointer is to memory of the program. */
static void free_of_what_is_no_object(void) {
  static char own[3 << 16];
  allocator_free(own + (1 << 16) + 64 - (uintptr_t)own % 64);
}

/* The count is 0 although an object is used. */
static void overwritten_count_of_a_zone(void) {
  char *object = allocator_malloc(100);
  uintptr_t zone = (uintptr_t)object & ~(uintptr_t)0xffff;
  memset((void *)(zone + 64), 0, 64);
  allocator_free(object);
}

/* A write begins before the object. */
static void overwritten_header_of_a_large_object(void) {
  char *object = allocator_malloc(100000);
  memset(object - 128, 7, 128);
  allocator_free(object);
}

/* A write far before the object. */
static void overwritten_header_of_a_zone(void) {
  char *object = allocator_malloc(100);
  uintptr_t zone = (uintptr_t)object & ~(uintptr_t)0xffff;
  memset((void *)zone, 7, 64);
  allocator_free(object);
}

/* Only the link: the key is unchanged. */
static void overwritten_link_in_a_zone(void) {
  char *object = allocator_malloc(100), *other = allocator_malloc(100);
  allocator_malloc(100); /* the zone stays */
  allocator_free(other);
  allocator_free(object);
  memset(object, 7, 8);
  allocator_malloc(100);
}

/* The object is in a magazine. */
static void realloc_of_a_freed_object(void) {
  void *object = allocator_malloc(100);
  allocator_free(object);
  allocator_realloc(object, 200);
}

/* The program passes a wrong pointer. */
static void realloc_of_a_pointer_into_an_object(void) {
  char *object = allocator_malloc(480);
  allocator_realloc(object + 16, 200);
}

/* The object is written after it was freed, and handed out again. */
static void write_after_free_into_a_magazine(void) {
  char *object = allocator_malloc(100);
  allocator_free(object);
  memset(object, 7, 100);
  allocator_malloc(100);
}

/* The object is written after it was freed, and handed out again. */
static void write_after_free_of_a_key_in_a_zone(void) {
  char *object = allocator_malloc(100);
  allocator_malloc(100); /* the zone stays */
  allocator_free(object);
  memset(object + 8, 7, 8);
  allocator_malloc(100);
}

static const struct fault_case cases[] = {
    FAULT(double_free_into_a_magazine, "", "the object is free already: in a magazine"),
    FAULT(double_free_into_a_zone, "magazines=0", "the object is free already: in its zone"),
    FAULT(double_free_into_the_zone_magazine, "", "double free of a large object"),
    FAULT(double_free_of_a_large_object, "", "double free of a large object"),
    FAULT(double_free_of_an_object_of_a_depot, "magazine_size=4", "the object is free already: in a magazine"),
    FAULT(free_of_a_pointer_before_the_first_object, "", "no object begins there"),
    FAULT(free_of_a_pointer_into_a_large_object, "", "no object begins there"),
    FAULT(free_of_a_pointer_into_an_object, "", "no object begins there"),
    FAULT(free_of_what_is_no_object, "", "overwritten header of a zone"),
    FAULT(overwritten_count_of_a_zone, "magazines=0", "overwritten header of a zone"),
    FAULT(overwritten_header_of_a_large_object, "", "overwritten header of a zone"),
    FAULT(overwritten_header_of_a_zone, "", "overwritten header of a zone"),
    FAULT(overwritten_link_in_a_zone, "magazines=0", "written after it was freed"),
    FAULT(realloc_of_a_freed_object, "", "realloc: the object is free already"),
    FAULT(realloc_of_a_pointer_into_an_object, "", "realloc: invalid pointer: no object begins there"),
    FAULT(write_after_free_into_a_magazine, "", "written after it was freed"),
    FAULT(write_after_free_of_a_key_in_a_zone, "magazines=0", "written after it was freed"),
    {0},
};

int main(int argument_count, char **arguments) {
  return expect_faults(argument_count, arguments, cases);
}

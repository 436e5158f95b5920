/* SPDX-License-Identifier: MIT */
/* The model with which property tests compare an allocator: objects whose every usable byte is known.

   An overlap of two objects, or a byte changed by the allocator, shows as a wrong byte when the object is checked. One
   model per thread; threads that pass objects to one another must synchronise. */
#pragma once

#include "core/test/usual.h"

struct model_object {
  unsigned char *bytes; /* NULL: none */
  size_t size_bytes;    /* requested */
  uint64_t stamp;       /* determines its bytes */
};

struct model {
  uint64_t random;
  size_t size_limit_bytes;
};

/* Ends the test with a line on what is wrong. */
__attribute__((noreturn, format(printf, 1, 2))) void model_fail(const char *format, ...);

uint64_t model_random(struct model *model);

/* Returns a random size below the limit, small ones more often. */
size_t model_size(struct model *model);

/* Acquires an object by a random function of the API (malloc, calloc, aligned ...), checks alignment, usable size and
   zeros, and fills it. */
struct model_object model_acquire(struct model *model);

/* Checks all bytes. Then frees the object in a random way, or resizes it and checks the bytes that must be kept. */
void model_release(struct model *model, struct model_object *object);
void model_resize(struct model *model, struct model_object *object);
void model_check(const struct model_object *object);

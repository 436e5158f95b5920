/* SPDX-License-Identifier: MIT */
/* A magazine: an array of free objects of one size class, with a count. It belongs to one thread or to the depot. */
#pragma once

#include "allocators/magazine/zone/zone.h"

struct magazine {
  struct magazine *next; /* in a depot */
  uint32_t rounds;       /* objects in it */
  uint32_t capacity;
  struct freed *objects[];
};

/* The magazine of a thread before it has one: empty, and without room. */
extern struct magazine no_magazine HIDDEN;

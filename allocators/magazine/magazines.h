/* SPDX-License-Identifier: MIT */
/* Magazines: those of each thread, and those of the depot of each size class. */
#pragma once

#include "allocators/magazine/zones.h"

/* A magazine: an array of free objects of one size class, with a count. It belongs to one thread or to the depot. */

struct magazine {
  struct magazine *next; /* in a depot */
  uint32_t rounds;       /* objects in it */
  uint32_t capacity;
  struct freed *objects[];
};

/* The magazine of a thread before it has one: empty, and without room. */
extern struct magazine no_magazine HIDDEN;

/* The depot of each size class: full and empty magazines that no thread has, with its own lock.

   Tunable magazine_grow: a class whose depot's lock was found taken CONTENDED_LIMIT times gets magazines of twice the
   size, as in Bonwick's paper; smaller ones are freed when they return. */

/* Frees all magazines in the depot and the objects in them. */
void depot_trim(unsigned number);

/* Call before anything else here. */
void depot_setup(void);

/* Call around a fork. */
void depot_lock(unsigned number);
void depot_unlock(unsigned number);

/* The magazines of each thread: per size class two arrays of free objects, `loaded` and `previous`.

   Taking an object and putting one back needs no lock while loaded has an object, or room. Else the two change places
   if previous is full, or empty. Else previous is exchanged for another magazine at the depot of the class.
   So a thread goes to the depot at most once per magazine's worth of calls, whatever their order (Bonwick and Adams,
   2001).

   A thread without magazines has `no_magazine`, which is empty and has no room, so the inlined paths of malloc and free
   need no test for it. They use `inlined`: loaded, or no_magazine where calls must be counted (tunable stats). Then all
   calls go through malloc_slow and free_slow, so counting costs nothing where it is off. */

struct slot {
  struct magazine *inlined, *loaded, *previous;
  uint32_t fill; /* objects that the next miss of the depot adds besides the one handed out: doubles with a miss, so
                    that a size that is requested once costs no memory */
};

struct cache {
  struct slot slots[CLASSES + 1]; /* the last slot is for large objects: it never has a magazine */
  bool watched;                   /* the thread's end is registered */
  bool ended;                     /* its destructors are running: no more magazines */
};

extern __thread struct cache cache __attribute__((tls_model("initial-exec")));

/* Takes an object of the class when loaded is empty: from previous, the depot, or the slabs. NULL: no memory, errno
   undefined. */
struct freed *cache_take(unsigned number);

/* Puts an object of the class back when loaded has no room. Keeps errno. */
void cache_give(unsigned number, struct freed *object);

/* Gives all of the calling thread's magazines to the depot or the slabs. */
void cache_empty(void);

/* Call before anything else here. */
void cache_setup(void);

/* Checks that a pointer is to an object that the program may have. */

/* Returns the object's zone; ends the process if no object begins there, or if it is free. where: the call, for the
   message. */
struct zone *check_object(const char *where, const void *object);

/* SPDX-License-Identifier: MIT */
/* The depot of each size class: full and empty magazines that no thread has, with its own lock.

   Tunable magazine_grow: a class whose depot's lock was found taken CONTENDED_LIMIT times gets magazines of twice the
   size, as in Bonwick's paper; smaller ones are freed when they return. */
#pragma once

#include "allocators/magazine/magazine.h"

/* Takes a full magazine in exchange for an empty one, or no_magazine. NULL: there is none, and nothing changed. */
struct magazine *depot_take_full(unsigned number, struct magazine *empty);

/* Takes an empty magazine in exchange for a full one, or no_magazine; NULL: no memory, nothing changed. */
struct magazine *depot_take_empty(unsigned number, struct magazine *full);

/* Gives the depot a magazine that a thread no longer uses, whatever its content. */
void depot_give(unsigned number, struct magazine *magazine);

/* Frees all magazines in the depot and the objects in them. */
void depot_trim(unsigned number);

/* Call before anything else here. */
void depot_setup(void);

/* Call around a fork. */
void depot_lock(unsigned number);
void depot_unlock(unsigned number);
void depot_after_fork(unsigned number);

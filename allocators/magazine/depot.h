/* SPDX-License-Identifier: MIT */
/* The depot of each size class: full and empty magazines that no thread has, under a lock of its own.

   Tunable magazine_grow: a class whose depot's lock was found taken CONTENDED_LIMIT times gets magazines of twice the
   size, as Bonwick's paper has it; smaller ones are freed as they come back. */
#pragma once

#include "allocators/magazine/magazine.h"

/* Takes a full magazine, giving an empty one, or no_magazine, for it. NULL: there is none, and nothing changed. */
struct magazine *depot_take_full(unsigned number, struct magazine *empty);

/* Takes an empty magazine, giving a full one, or no_magazine, for it; NULL: no memory, nothing changed. */
struct magazine *depot_take_empty(unsigned number, struct magazine *full);

/* Takes a magazine that a thread has no more use for, whatever is in it. */
void depot_give(unsigned number, struct magazine *magazine);

/* Frees all magazines in the depot and what is in them. */
void depot_trim(unsigned number);

/* Before the first call of anything else here. */
void depot_setup(void);

/* Around a fork. */
void depot_lock(unsigned number);
void depot_unlock(unsigned number);
void depot_after_fork(unsigned number);

/* SPDX-License-Identifier: MIT */
/* A set of states that remembers their order and for each the state it was reached from: queue, visited set and path
   back of a breadth-first search in one. Aborts when memory runs out. */
#pragma once

#include <stdint.h>

typedef unsigned __int128 state_key;

struct state_set {
  state_key *key;   /* in order of discovery */
  uint32_t *parent; /* index of the state it was first reached from */
  uint32_t count, capacity;
  uint32_t *table; /* open addressing: index + 1, 0 = empty */
  uint32_t mask;
};

void state_set_open(struct state_set *set);
void state_set_close(struct state_set *set);

/* Adds key, reached from state number parent, unless it is there. */
void state_set_add(struct state_set *set, state_key key, uint32_t parent);

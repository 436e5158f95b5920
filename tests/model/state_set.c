/* SPDX-License-Identifier: MIT */
#include "tests/model/state_set.h"

#include <stdlib.h>

static void *or_abort(void *memory) {
  if (!memory)
    abort();
  return memory;
}

static uint32_t home(const struct state_set *set, state_key key) {
  uint64_t mixed = ((uint64_t)key ^ (uint64_t)(key >> 64) * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
  return (uint32_t)(mixed >> 32) & set->mask;
}

static void set_capacity(struct state_set *set, uint32_t capacity) {
  set->capacity = capacity;
  set->key = or_abort(realloc(set->key, capacity * sizeof *set->key));
  set->parent = or_abort(realloc(set->parent, capacity * sizeof *set->parent));
  free(set->table);
  set->mask = 2 * capacity - 1;
  set->table = or_abort(calloc(2 * (size_t)capacity, sizeof *set->table));
  for (uint32_t i = 0; i < set->count; i++) {
    uint32_t place = home(set, set->key[i]);
    while (set->table[place] != 0)
      place = (place + 1) & set->mask;
    set->table[place] = i + 1;
  }
}

void state_set_open(struct state_set *set) {
  *set = (struct state_set){0};
  set_capacity(set, 1 << 10);
}

void state_set_close(struct state_set *set) {
  free(set->key);
  free(set->parent);
  free(set->table);
}

void state_set_add(struct state_set *set, state_key key, uint32_t parent) {
  uint32_t place = home(set, key);
  for (; set->table[place] != 0; place = (place + 1) & set->mask)
    if (set->key[set->table[place] - 1] == key)
      return;
  set->table[place] = set->count + 1;
  set->key[set->count] = key;
  set->parent[set->count++] = parent;
  if (set->count == set->capacity)
    set_capacity(set, 2 * set->capacity);
}

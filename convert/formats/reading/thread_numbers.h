/* SPDX-License-Identifier: MIT */
/* Gives a foreign format's thread ids dense numbers in the order of their first appearance. Memory is O(ids in use). */
#pragma once

#include "core/base/address_map.h"

struct thread_numbers {
  struct address_map map; /* id + 1 to number */
  uint32_t count;
};

/* Gives the number of the id, which is below UINT64_MAX; a new number if it has none. False if there is no memory. */
static inline bool thread_number(struct thread_numbers *numbers, uint64_t id, uint32_t *number) {
  struct address_entry *entry = address_map_find(&numbers->map, id + 1);
  if (!entry->address) {
    *number = numbers->count++;
    return address_map_add(&numbers->map, entry, id + 1, *number, false);
  }
  *number = entry->slot;
  return true;
}

/* The thread has ended: if its id comes again, it is another thread. False if it had no number. */
static inline bool thread_number_end(struct thread_numbers *numbers, uint64_t id, uint32_t *number) {
  struct address_entry *entry = address_map_find(&numbers->map, id + 1);
  if (!entry->address)
    return false;
  *number = entry->slot;
  address_map_remove(&numbers->map, entry);
  return true;
}

/* SPDX-License-Identifier: MIT */
#include "core/workload/touched_words.h"

#include <stdlib.h>
#include <string.h>

bool touched_words_init(struct touched_words *words) {
  *words = (struct touched_words){0};
  return address_map_init(&words->map);
}

void touched_words_free(struct touched_words *words) {
  address_map_free(&words->map);
  free(words->words.at);
}

bool touched_words_put(struct touched_words *words, uint32_t slot, const struct touched_word *word) {
  uint32_t index;
  if (words->free_list) {
    index = words->free_list - 1;
    words->free_list = words->words.at[index].thread;
  } else {
    if (!vector_add(&words->words))
      return false;
    index = (uint32_t)(words->words.count - 1);
  }
  words->words.at[index] = *word;
  uint64_t key = (uint64_t)slot + 1;
  return address_map_add(&words->map, address_map_find(&words->map, key), key, index, false);
}

bool touched_words_take(struct touched_words *words, uint32_t slot, struct touched_word *word) {
  struct address_entry *entry = address_map_find(&words->map, (uint64_t)slot + 1);
  if (!entry->address)
    return false;
  uint32_t index = entry->slot;
  *word = words->words.at[index];
  words->words.at[index].thread = words->free_list;
  words->free_list = index + 1;
  address_map_remove(&words->map, entry);
  return true;
}

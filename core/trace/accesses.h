/* SPDX-License-Identifier: MIT */
/* What writer and reader of ACCESSES blocks share: the list of recent objects, limits, names of totals
   (FORMAT.md section 6a). Not its job: columns, files. */
#pragma once

#include "core/trace/access_stream.h"

#include <stdint.h>
#include <string.h>

enum {
  RECENT_PLACES = 64,
  ACCESS_PAGE_GRANULES = 256, /* granules in an OS page of 4 KiB */
  ACCESS_NEAR_PAGES = 127,    /* the OS pages of a block whose numbers are in the row's code */
};
#define ACCESS_OBJECT_GRANULES ((int64_t)1 << 59) /* a granule in an object is at least minus this and below it */
#define ACCESS_PAGES ((uint64_t)1 << 52)
#define ACCESS_STACK_POINTERS ((uint64_t)1 << 61) /* divided by 8 */

/* FOOTER's key of each total; ACCESS_TOTAL_LIMIT of them. */
extern const char *const access_total_names[ACCESS_TOTAL_LIMIT];

/* The entry at each place of the list of recent objects, the one used last first; entries are numbered as they are put
   in. All zero: empty. */
struct recent_list {
  uint32_t count;
  uint32_t entries[RECENT_PLACES];
};

/* Moves the first `moved` numbers back by one place, and puts another before them. */
static inline void recent_put_first(uint32_t *places, uint32_t moved, uint32_t first) {
  memmove(places + 1, places, moved * sizeof *places);
  places[0] = first;
}

/* Moves the entry at place (below count) to place 0 and returns it. */
static inline uint32_t recent_use(struct recent_list *list, uint32_t place) {
  if (place > 0)
    recent_put_first(list->entries, place, list->entries[place]);
  return list->entries[0];
}

/* Inserts an entry at place 0; where the list is full, the last one is dropped. */
static inline void recent_add(struct recent_list *list, uint32_t entry) {
  if (list->count < RECENT_PLACES)
    list->count++;
  recent_put_first(list->entries, list->count - 1, entry);
}

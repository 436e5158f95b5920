/* The live objects of a moment by rising address.

   Job: collect and sort them. Invariants: memory mapped at set-up, two entries per slot; no malloc; O(objects): a radix
   sort, which leaves out digits that all addresses share. A comparison sort takes four times as long at a million
   objects. */
#ifndef REPLAY_BLAME_LIVE_OBJECTS_H
#define REPLAY_BLAME_LIVE_OBJECTS_H

#include <stdint.h>

struct live_object {
  uint64_t address, size_bytes;
  uint32_t rounding_bytes, slot;
};

/* Returns 0, or -1 with errno set. */
int live_objects_setup(uint32_t slots);

/* Of this moment, when the memory map has looked at it: so roundings are known. *count of them; valid until the next
   call. */
const struct live_object *live_objects_sorted(uint64_t *count);

#endif

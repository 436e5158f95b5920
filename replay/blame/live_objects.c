#include "replay/blame/live_objects.h"

#include "core/base/os.h"
#include "replay/memory/fragmentation.h"

#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 6, DIGIT_VALUES = 1 << DIGIT_BITS }; /* 66 bits: all of an address */

static struct live_object *entries, *scratch;
static uint64_t (*counts)[DIGIT_VALUES]; /* of each digit */

int live_objects_setup(uint32_t slots) {
  uint64_t bytes = (slots + 1ull) * sizeof *entries;
  entries = os_map(bytes, true);
  scratch = os_map(bytes, true);
  counts = os_map(DIGITS * sizeof *counts, true);
  return entries && scratch && counts ? 0 : -1;
}

static inline unsigned digit_of(uint64_t address, unsigned digit) {
  return (unsigned)(address >> digit * DIGIT_BITS) & (DIGIT_VALUES - 1);
}

static uint64_t collect(void) {
  uint64_t count = 0;
  memset(counts, 0, DIGITS * sizeof *counts);
  for (uint32_t slot = 0; slot < engine.workload.header.slots; slot++) {
    const struct object *object = &engine.objects[slot];
    if (!object->pointer || object->size_bytes == OBJECT_MISSING)
      continue;
    uint64_t address = (uint64_t)(uintptr_t)object->pointer;
    entries[count++] = (struct live_object){address, object->size_bytes, fragmentation_rounding_of(slot, object), slot};
    for (unsigned digit = 0; digit < DIGITS; digit++)
      counts[digit][digit_of(address, digit)]++;
  }
  return count;
}

/* From entries to scratch, by one digit. */
static void sort_by(unsigned digit, uint64_t count) {
  uint64_t next = 0;
  for (unsigned value = 0; value < DIGIT_VALUES; value++) {
    uint64_t here = counts[digit][value];
    counts[digit][value] = next;
    next += here;
  }
  for (uint64_t index = 0; index < count; index++)
    scratch[counts[digit][digit_of(entries[index].address, digit)]++] = entries[index];
}

const struct live_object *live_objects_sorted(uint64_t *count) {
  *count = collect();
  for (unsigned digit = 0; digit<DIGITS && * count> 0; digit++) {
    if (counts[digit][digit_of(entries[0].address, digit)] == *count)
      continue;
    sort_by(digit, *count);
    struct live_object *sorted = scratch;
    scratch = entries;
    entries = sorted;
  }
  return entries;
}

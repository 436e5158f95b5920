/* SPDX-License-Identifier: MIT */
#include "allocators/magazine/check.h"

#include "allocators/common/base/fault.h"
#include "allocators/common/startup.h"

struct zone *check_object(const char *where, const void *object) {
  struct zone *zone = zone_of(object);
  if (UNLIKELY(!is_aligned(object)))
    fault(where, "invalid pointer: not a multiple of 16", object);
  if (UNLIKELY(!started || !zone_is_in_use(zone)))
    fault(where, "invalid pointer, double free of a large object, or overwritten header of a zone", object);
  if (UNLIKELY(!zone_has_object_at(zone, object)))
    fault(where, "invalid pointer: no object begins there", object);
  if (zone->size_bytes == 0)
    return zone;
  uintptr_t key = ((const struct freed *)object)->key;
  if (UNLIKELY(key == key_of(object, magazine_secret)))
    fault(where, "the object is free already: in a magazine", object);
  if (UNLIKELY(key == key_of(object, slab_secret)))
    fault(where, "the object is free already: in its zone", object);
  return zone;
}

/* SPDX-License-Identifier: MIT */
#include "allocators/bucket/settings.h"

#include "allocators/bucket/heap/bucket.h"
#include "allocators/common/base/environment.h"
#include "allocators/common/base/fault.h"
#include "allocators/common/tunables.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CACHED_SHIFT_LOWEST = 16, SHIFT_MAX = 62 };

/* As in libmtmalloc: any value that begins with Y enables it. */
static void set_exclusive(const char *value) {
  if (!tunables_set.exclusive)
    tunables.exclusive = *value == 'Y' || *value == 'y';
}

/* An exponent of two. Exponents beyond a word count as the largest. */
static void set_max_cached(const char *value) {
  long shift = strtol(value, NULL, 10);
  if (!tunables_set.max_cached)
    tunables.max_cached = shift < 0 ? 1 : (size_t)1 << (shift > SHIFT_MAX ? SHIFT_MAX : shift);
}

static void set_by_old_name(const char *name, void (*set)(const char *value)) {
  const char *options = environment_value("MTMALLOC_OPTIONS"), *value = environment_value(name);
  size_t length = strlen(name);
  while (options && *options) {
    if (strncmp(options, name, length) == 0 && options[length] == '=')
      set(options + length + 1);
    options += strcspn(options, ",");
    options += *options == ',';
  }
  if (value)
    set(value);
}

static void clamp_max_cached(void) {
  static const char *const powers[] = {"65536", "131072", "262144", "524288", "1048576", "2097152"};
  unsigned shift = MAX_CACHED_SHIFT_LOWEST;
  size_t wanted = tunables.max_cached;
  while (shift < CLASS_MAX_SHIFT && (size_t)1 << shift < wanted)
    shift++;
  tunables.max_cached = (size_t)1 << shift;
  if (wanted == tunables.max_cached)
    return;
  const char *why = wanted > tunables.max_cached       ? "max_cached is set to its highest value"
                    : shift == MAX_CACHED_SHIFT_LOWEST ? "max_cached is set to its lowest value"
                                                       : "max_cached is not a power of two; the next one is used";
  complain(why, powers[shift - MAX_CACHED_SHIFT_LOWEST]);
}

void settings_setup(void) {
  set_by_old_name("MTEXCLUSIVE", set_exclusive);
  set_by_old_name("MTMAXCACHE", set_max_cached);
  clamp_max_cached();
}

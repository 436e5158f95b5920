/* SPDX-License-Identifier: MIT */
#include "replay/parent/names.h"

const char *pass_name(enum replay_pass pass) {
  static const char *const names[] = {"time",    "memory", "bare",  "verify",    "instructions",
                                      "sharing", "misses", "blame", "contention"};
  return names[pass];
}

const char *order_name(enum replay_order order) {
  static const char *const names[] = {"recorded", "causal", "window", "paced", "random"};
  return names[order];
}

const char *touch_name(enum touch_policy touch) {
  static const char *const names[] = {"recorded", "lines", "first", "pages", "all", "none"};
  return names[touch];
}

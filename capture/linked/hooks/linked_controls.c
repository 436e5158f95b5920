/* SPDX-License-Identifier: MIT */
#include "capture/linked/hooks/linked_controls.h"

#include "capture/host/hooks/named_controls.h"

#include <string.h>

static uint64_t rate_of(uint64_t bits) {
  double rate;
  memcpy(&rate, &bits, sizeof rate);
  return control_rate_kept(rate);
}

static uint64_t value_of(const struct linked_function *function, const uint64_t given[LINKED_GIVEN]) {
  uint64_t value = function->size < LINKED_GIVEN ? given[function->size] : 0;
  switch (function->style) {
  case LINKED_INT:
    return (uint32_t)value;
  case LINKED_LONG:
  case LINKED_PROPERTY:
    return control_value_kept((int64_t)value);
  case LINKED_BOOL:
    return (value & 0xff) != 0;
  case LINKED_TRUE:
    return 1;
  case LINKED_RATE:
    return rate_of(given[0]);
  default:
    return value;
  }
}

bool linked_control_sizes(const struct linked_function *function, const uint64_t given[LINKED_GIVEN], uint64_t returned,
                          struct hook_sizes *sizes) {
  uint64_t param = function->param < LINKED_GIVEN ? given[function->param] : 0, option;
  switch (function->style) {
  case LINKED_MALLCTL: {
    struct mallctl_passed passed = {(const void *)given[1], (const void *)given[3], given[4]};
    option = control_option_named(MALLCTL, (const char *)given[0]);
    return (int)returned == 0 && named_mallctl(option, &passed, sizes);
  }
  case LINKED_MALLCTL_MIB: {
    struct mallctl_passed passed = {(const void *)given[2], (const void *)given[4], given[5]};
    if ((int)returned != 0)
      return false;
    option = named_of_mib(NULL, (const void *)function->usable, (const size_t *)given[0], given[1]);
    return named_mallctl(option, &passed, sizes);
  }
  case LINKED_PROPERTY:
    *sizes = (struct hook_sizes){value_of(function, given), control_option_named(PROPERTY, (const char *)param)};
    return (returned & 0xff) != 0; /* a bool, or an int that is one */
  default:
    *sizes = (struct hook_sizes){value_of(function, given), (uint32_t)param};
    return true;
  }
}

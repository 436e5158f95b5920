/* SPDX-License-Identifier: MIT */
#include "core/trace/event.h"

#include <string.h>

const struct call_info call_table[CALL_LIMIT] = {
#define CALL(id, ident, name, acquires, released, size, param) [id] = {name, #ident, acquires, size, released, param},
#include "core/trace/calls.def"
};

/* in, out: the flags NULL_IN and NULL_OUT. */
#define TRAITS_OF(acquires, released, size, param, in, out)                                                            \
  ((released) != NOTHING && !(in) ? EVENT_TAKES : 0) |                                                                 \
      ((released) == RELEASES && !(in) && !((acquires) && (out)) ? EVENT_RELEASES : 0) |                               \
      ((released) == RELEASES && !(in) && (acquires) && (out) ? CALL_RELEASES_IF_ZERO : 0) |                           \
      ((acquires) && !(out) ? EVENT_ACQUIRES : 0) |                                                                    \
      (((released) == NOTHING && (in)) || (!(acquires) && (out)) ? 0 : CALL_IS_LEGAL) | ((size) ? CALL_HAS_SIZE : 0) | \
      ((param) != NONE ? CALL_HAS_PARAM : 0) | ((param) == COUNT ? CALL_HAS_COUNT : 0)

const uint8_t call_traits[256] = {
#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  [id] = TRAITS_OF(acquires, released, size, param, 0, 0),                                                             \
  [id | CALL_NULL_IN] = TRAITS_OF(acquires, released, size, param, 1, 0),                                              \
  [id | CALL_NULL_OUT] = TRAITS_OF(acquires, released, size, param, 0, 1),                                             \
  [id | CALL_NULL_IN | CALL_NULL_OUT] = TRAITS_OF(acquires, released, size, param, 1, 1),
#include "core/trace/calls.def"
};

int call_by_name(const char *name) {
  for (int id = 0; id < CALL_LIMIT; id++) {
    const struct call_info *info = &call_table[id];
    if (info->name && (strcmp(info->name, name) == 0 || strcmp(info->ident, name) == 0))
      return id;
  }
  return -1;
}

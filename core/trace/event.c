#include "core/trace/event.h"

#include <string.h>

const struct call_info call_table[CALL_LIMIT] = {
#define CALL(id, ident, name, acquires, released, size, param) [id] = {name, #ident, acquires, size, released, param},
#include "core/trace/calls.def"
#undef CALL
};

int call_by_name(const char *name) {
  for (int id = 0; id < CALL_LIMIT; id++) {
    const struct call_info *info = &call_table[id];
    if (info->name && (strcmp(info->name, name) == 0 || strcmp(info->ident, name) == 0))
      return id;
  }
  return -1;
}

bool trace_call_is_legal(uint8_t call) {
  const struct call_info *info = &call_table[call & CALL_ID_MASK];
  if (!info->name)
    return false;
  if ((call & CALL_NULL_IN) && info->released == NOTHING)
    return false;
  return !(call & CALL_NULL_OUT) || info->acquires;
}

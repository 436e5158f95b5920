/* SPDX-License-Identifier: MIT */
#include "replay/engine/pass.h"

#include <string.h>

REGISTRY(replay_passes, pass);

const struct pass *pass_after(const struct pass *previous) {
  const struct pass *next = NULL;
  REGISTRY_FOR_EACH(replay_passes, pass, entry)
    if ((!previous || (*entry)->turn > previous->turn) && (!next || (*entry)->turn < next->turn))
      next = *entry;
  return next;
}

const struct pass *pass_named(const char *name) {
  FOR_EACH_PASS(pass)
  if (strcmp(pass->name, name) == 0)
    return pass;
  return NULL;
}

const struct pass *pass_of_turn(unsigned turn) {
  FOR_EACH_PASS(pass)
  if (pass->turn == turn)
    return pass;
  return NULL;
}

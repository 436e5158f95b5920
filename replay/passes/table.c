/* SPDX-License-Identifier: MIT */
/* All passes. */
#include "replay/engine/pass.h"

#include <string.h>

#define PASSES(each)                                                                                                   \
  each(instructions) each(time) each(memory) each(bare) each(verify) each(sharing) each(misses) each(blame)            \
      each(contention)

#define DECLARED(name) extern const struct pass pass_##name;
PASSES(DECLARED)

#define ENTRY(name) &pass_##name,
const struct pass *const pass_table[] = {PASSES(ENTRY) NULL};

const struct pass *pass_named(const char *name) {
  for (const struct pass *const *pass = pass_table; *pass; pass++)
    if (strcmp((*pass)->name, name) == 0)
      return *pass;
  return NULL;
}

/* SPDX-License-Identifier: MIT */
/* A symbol as JSON: frames in `dump --stacks --format jsonl` and in the origins file (docs/use/BLAME.md) have the same
   form.

   Job: one frame. Not its job: stacks. NULL: no memory. */
#pragma once

#include "convert/stacks/symbols.h"

#include <jansson.h>

/* Returns {function, file, line, module, offset} without those that are unknown. A new reference. */
json_t *symbol_json(const struct symbol *symbol);

/* Returns a name or path as a string; "?" if it is not UTF-8. A new reference. */
json_t *symbol_text_json(const char *text);

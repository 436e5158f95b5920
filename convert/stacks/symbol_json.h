/* SPDX-License-Identifier: MIT */
/* A symbol as JSON: `dump --stacks --format json` and the origins file have frames alike (docs/use/BLAME.md).

   Job: one frame. Not its job: stacks. NULL: no memory. */
#pragma once

#include "convert/stacks/symbols.h"

#include <jansson.h>

/* {function, file, line, module, offset}: what is known of them. A new reference. */
json_t *symbol_json(const struct symbol *symbol);

/* A name or a path, which need not be UTF-8: then "?". A new reference. */
json_t *symbol_text_json(const char *text);

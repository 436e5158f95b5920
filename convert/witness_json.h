/* The verdict on a witness, and the witness in JSON and in words: what `check` prints. */
#ifndef CONVERT_WITNESS_JSON_H
#define CONVERT_WITNESS_JSON_H

#include "convert/history.h"

#include <jansson.h>
#include <stdio.h>

/* Legal, or explained by what the trace itself says it lacks? */
bool witness_ok(const struct witness *witness);

/* A new reference; keys as DESIGN section 9 names them. */
json_t *witness_json(const struct witness *witness);

/* A few lines for people. */
void witness_print(const struct witness *witness, FILE *out);

#endif

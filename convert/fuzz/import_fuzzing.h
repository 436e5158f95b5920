/* SPDX-License-Identifier: MIT */
/* What the fuzzers of importers share. */
#pragma once

#include "convert/formats/reading/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Imports the bytes, then takes the trace that came of it through the history with two horizons and through compile.
   Traps where an importer wrote a trace that can't be read, or failed without saying why. Returns 0. */
int fuzz_one_import(const struct import_format *format, const uint8_t *bytes, size_t count);

/* SPDX-License-Identifier: MIT */
/* What the fuzzers of importers share. */
#pragma once

#include "convert/formats/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Imports the bytes, then runs the resulting trace through the history with two horizons and through compile. Traps if
   an importer wrote a trace that can't be read, or failed without an error that names its input. Returns 0. */
int fuzz_one_import(const struct import_format *format, const uint8_t *bytes, size_t count);

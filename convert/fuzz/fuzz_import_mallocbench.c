/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as the input of the mallocbench importer, packed ones too. */
#include "convert/fuzz/import_fuzzing.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  return fuzz_one_import(&import_format_mallocbench, bytes, count);
}

/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as the input of an importer of lines; the first byte chooses which. */
#include "convert/fuzz/import_fuzzing.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  static const struct import_format *const formats[] = {
      &import_format_text,  &import_format_android,  &import_format_mtrace, &import_format_rep,   &import_format_kdump,
      &import_format_lttng, &import_format_valgrind, &import_format_memray, &import_format_ltrace};
  if (count == 0)
    return 0;
  return fuzz_one_import(formats[bytes[0] % (sizeof formats / sizeof *formats)], bytes + 1, count - 1);
}

/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as a workload; then runs all of check and info on it. */
#include "convert/fuzz/workload_fuzzing.h"
#include "convert/inspect/inspect.h"
#include "core/workload/workload_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  struct fuzzed_workload fuzzed;
  struct error error = {""};
  struct workload_proof proof;
  if (!fuzzed_workload_open(&fuzzed, bytes, count))
    return 0;
  json_decref(info_of_workload(&fuzzed.workload, &error));
  workload_check(&fuzzed.workload, &proof, &error);
  fuzzed_workload_close(&fuzzed);
  return 0;
}

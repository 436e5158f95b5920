/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as a workload; then runs all of check, info and dump on it. */
#include "convert/fuzz/workload_fuzzing.h"
#include "convert/history/merge.h"
#include "convert/inspect/dump.h"
#include "convert/inspect/info.h"
#include "core/workload/workload_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  struct fuzzed_workload fuzzed;
  struct error error = {0};
  struct workload_proof proof;
  if (!fuzzed_workload_open(&fuzzed, bytes, count))
    return 0;
  json_decref(info_of_workload(&fuzzed.workload, &error));
  workload_check(&fuzzed.workload, &proof, &error);
  FILE *nowhere = fopen("/dev/null", "w");
  const struct dump_options options = {.format = DUMP_TEXT, .thread = MERGE_ALL_THREADS};
  if (dump_workload(&fuzzed.workload, &options, (struct output_stream){nowhere, "/dev/null"}, &error) != 0 &&
      !error.text[0])
    __builtin_trap();
  fclose(nowhere);
  fuzzed_workload_close(&fuzzed);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* libFuzzer target: a plan up to the first byte 0, the bytes after it as a workload; computes the features of its
   windows, and the distillate if the plan is valid. */
#include "convert/distil/distil.h"
#include "convert/fuzz/workload_fuzzing.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void distil(const struct workload *workload, const struct distil_plan *plan) {
  struct distil_counts counts;
  struct error error = {""};
  char path[64];
  int fd = memfd_create("distillate", 0);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (distil_write(workload, plan, path, &counts, &error) == 0 && counts.ops > counts.whole_ops)
    __builtin_trap();
  close(fd);
}

static void measure(const struct workload *workload) {
  struct error error = {""};
  struct output_stream out = {fopen("/dev/null", "w"), "nowhere"};
  if (out.file)
    window_features_write(workload, 10, out, &error);
  if (out.file)
    fclose(out.file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  size_t plan_bytes = strnlen((const char *)bytes, count), rest = plan_bytes + (plan_bytes < count);
  struct distil_plan plan;
  struct fuzzed_workload fuzzed;
  struct error error = {""};
  bool is_plan = distil_plan_parse(&plan, (const char *)bytes, plan_bytes, "plan", &error) == 0;
  if (fuzzed_workload_open(&fuzzed, bytes + rest, count - rest)) {
    measure(&fuzzed.workload);
    if (is_plan)
      distil(&fuzzed.workload, &plan);
    fuzzed_workload_close(&fuzzed);
  }
  distil_plan_free(&plan);
  return 0;
}

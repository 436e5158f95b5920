/* Writes a generated workload, for trying the engine by hand: make_workload OUT.work OPS THREADS LIVE REMOTE_PERCENT
 * RUN_OPS [plain] */
#include "replay/test/generate.h"

#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
  if (count < 7) {
    fputs("usage: make_workload OUT.work OPS THREADS LIVE REMOTE_PERCENT RUN_OPS [plain]\n", stderr);
    return 2;
  }
  struct shape shape = {.ops = strtoull(arguments[2], NULL, 0),
                        .threads = (uint32_t)strtoul(arguments[3], NULL, 0),
                        .live_objects = (uint32_t)strtoul(arguments[4], NULL, 0),
                        .remote_percent = (unsigned)strtoul(arguments[5], NULL, 0),
                        .run_ops = (uint32_t)strtoul(arguments[6], NULL, 0),
                        .only_malloc_free = count > 7,
                        .size_limit = 4096,
                        .seed = 1};
  struct generated made = generate_workload(arguments[1], &shape);
  printf("%llu ops, %llu bytes live at the end, peak %llu\n", (unsigned long long)made.ops,
         (unsigned long long)made.live_end_bytes, (unsigned long long)made.peak_live_bytes);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* Writes a synthetic trace for other programs: bench_trace F.tape [EVENTS [THREADS [LIVE_OBJECTS [RUN [SITES]]]]]
   (generate_trace.h). */
#include "convert/bench/generate_trace.h"

#include <stdio.h>

int main(int argc, char **argv) {
  struct error error = {""};
  if (argc < 2) {
    fprintf(stderr, "usage: bench_trace F.tape [EVENTS [THREADS [LIVE_OBJECTS [RUN [SITES]]]]]\n");
    return 2;
  }
  struct generated_trace shape = generated_trace_shape(argc - 2, argv + 2);
  if (generate_trace(argv[1], &shape, &error) != 0) {
    fprintf(stderr, "bench_trace: %s\n", error.text);
    return 1;
  }
  return 0;
}

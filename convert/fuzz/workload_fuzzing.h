/* SPDX-License-Identifier: MIT */
/* Any bytes as a workload, for targets that read one. The header's checksum and file size are corrected first, since
   otherwise no input would pass these checks. */
#pragma once

#include "core/workload/workload_read.h"

struct fuzzed_workload {
  struct workload workload;
  char path[64];
  int fd;
};

/* False: the bytes are not a workload; then there is nothing to close. */
bool fuzzed_workload_open(struct fuzzed_workload *fuzzed, const uint8_t *bytes, size_t count);
void fuzzed_workload_close(struct fuzzed_workload *fuzzed);

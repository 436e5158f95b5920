/* SPDX-License-Identifier: MIT */
/* Any bytes as a workload, for targets that read one: the header's checksum and file size put right first, since
   nothing else would get past them. */
#pragma once

#include "core/workload/workload_read.h"

struct fuzzed_workload {
  struct workload workload;
  char path[64];
  int fd;
};

/* False: it is none; nothing is to be closed then. */
bool fuzzed_workload_open(struct fuzzed_workload *fuzzed, const uint8_t *bytes, size_t count);
void fuzzed_workload_close(struct fuzzed_workload *fuzzed);

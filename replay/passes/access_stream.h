/* SPDX-License-Identifier: MIT */
/* Checks a stream of accesses for replaying (core/trace/access_stream.h) against its workload, before it is replayed.

   Job: check that each item is whole and legal, that there are as many EVENT items as ops, and that the slots are the
   workload's; read the recording's totals. The tool that plays the stream does not check it again. Not its job: whether
   the accesses are the program's. Single-threaded. */
#pragma once

#include "core/base/error.h"
#include "core/trace/access_stream.h"

struct access_stream {
  uint32_t filter_bytes;
  uint64_t events, accesses; /* numbers of items */
  bool has_bursts;           /* only bursts have recorded accesses */
  bool in_burst;             /* while the stream is read */
  uint64_t bursts;           /* number that begin */
  uint32_t totals_known;     /* bit i: enum access_total i */
  uint64_t totals[ACCESS_TOTAL_LIMIT];
};

/* Reads the whole file. ops, slots: of the workload. Returns 0, or -1 with error filled in. */
int access_stream_check(struct access_stream *stream, const char *path, uint64_t ops, uint64_t slots,
                        struct error *error);

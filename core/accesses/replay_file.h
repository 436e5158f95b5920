/* SPDX-License-Identifier: MIT */
/* The file with a stream for replaying (W.accesses): a header, then the stream (stream.h) up to the file's end.

   Job: the header. Not its job: writing the stream (convert/), checking it (replay/parent/), playing it
   (observe/valgrind/). Self-contained, without the C library, as the Valgrind tool has none. Numbers are little-endian.

   The stream has exactly one EVENT item for each op of its workload, in the workload's total order; `object` of an
   OBJECT item is the object's slot in the workload at that point. */
#pragma once

#include <stdint.h>

#define ACCESS_FILE_MAGIC "HEAPACCS"

enum { ACCESS_FILE_VERSION = 1 };

struct access_file_header {
  char magic[8]; /* ACCESS_FILE_MAGIC, without its final zero */
  uint32_t version;
  uint32_t filter_bytes; /* of the filter in front of the recording; 0: every access was recorded; UINT32_MAX: that or
                            more */
};

_Static_assert(sizeof(struct access_file_header) == 16, "as in WORKLOAD.md");

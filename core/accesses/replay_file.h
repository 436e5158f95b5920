/* The file of data accesses beside a workload, which compile writes and the Valgrind tool reads while it replays
   (WORKLOAD.md, accesses): this header, then the stream of core/accesses/stream.h.

   Pure, without the C library. */
#ifndef CORE_ACCESSES_REPLAY_FILE_H
#define CORE_ACCESSES_REPLAY_FILE_H

#include <stdint.h>

#define ACCESS_FILE_MAGIC "HEAPACCS"

enum { ACCESS_FILE_VERSION = 1 };

struct access_file_header {
  char magic[8];
  uint32_t version;
  uint32_t filter_bytes; /* of the recording; UINT32_MAX: that or more */
};

_Static_assert(sizeof(struct access_file_header) == 16, "as in WORKLOAD.md");

#endif

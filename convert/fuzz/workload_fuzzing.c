/* SPDX-License-Identifier: MIT */
#include "convert/fuzz/workload_fuzzing.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

bool fuzzed_workload_open(struct fuzzed_workload *fuzzed, const uint8_t *bytes, size_t count) {
  struct workload_header header;
  struct error error = {0};
  if (count < sizeof header)
    return false;
  memcpy(&header, bytes, sizeof header);
  memcpy(header.magic, WORKLOAD_MAGIC, sizeof header.magic);
  header.version = WORKLOAD_VERSION;
  header.header_bytes = sizeof header;
  header.file_bytes = count;
  header.threads %= 16;
  header.crc32 = (uint32_t)crc32(0, (const Bytef *)&header, offsetof(struct workload_header, crc32));
  fuzzed->fd = memfd_create("fuzz", 0);
  if (write(fuzzed->fd, &header, sizeof header) != sizeof header ||
      write(fuzzed->fd, bytes + sizeof header, count - sizeof header) != (ssize_t)(count - sizeof header))
    __builtin_trap();
  snprintf(fuzzed->path, sizeof fuzzed->path, "/proc/self/fd/%d", fuzzed->fd);
  if (workload_open(&fuzzed->workload, fuzzed->path, &error) == 0)
    return true;
  close(fuzzed->fd);
  return false;
}

void fuzzed_workload_close(struct fuzzed_workload *fuzzed) {
  workload_close(&fuzzed->workload);
  close(fuzzed->fd);
}

/* libFuzzer target: any bytes as a workload, the header's checksum and file size put right first, since nothing else
   would get past them; then all that check and info do with it. */
#include "convert/inspect/info.h"
#include "core/workload/workload_check.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  struct workload_header header;
  struct error error = {""};
  struct workload workload;
  struct workload_proof proof;
  char path[64];
  if (count < sizeof header)
    return 0;
  memcpy(&header, bytes, sizeof header);
  memcpy(header.magic, WORKLOAD_MAGIC, sizeof header.magic);
  header.version = WORKLOAD_VERSION;
  header.header_bytes = sizeof header;
  header.file_bytes = count;
  header.threads %= 16;
  header.crc32 = (uint32_t)crc32(0, (const Bytef *)&header, offsetof(struct workload_header, crc32));
  int fd = memfd_create("fuzz", 0);
  if (write(fd, &header, sizeof header) != sizeof header ||
      write(fd, bytes + sizeof header, count - sizeof header) != (ssize_t)(count - sizeof header))
    __builtin_trap();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (workload_open(&workload, path, &error) == 0) {
    json_decref(info_of_workload(&workload, &error));
    workload_check(&workload, &proof, &error);
    workload_close(&workload);
  }
  close(fd);
  return 0;
}

/* SPDX-License-Identifier: MIT */
#include "core/workload/origins.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

uint64_t origins_marks_offset(uint64_t ops) {
  return ORIGINS_HEADER_BYTES + (ops + 1) / 2 * 2 * sizeof(uint32_t);
}

static uint64_t functions_offset(const struct origins_header *header) {
  return origins_marks_offset(header->ops) + header->marks * sizeof(uint64_t);
}

static uint64_t json_offset(const struct origins_header *header) {
  return functions_offset(header) + header->sites * sizeof(uint32_t);
}

static int map_file(struct origins *origins, int fd, struct error *error) {
  struct stat status;
  if (fstat(fd, &status) != 0)
    return error_errno(error, origins->path, "can't read");
  if (!S_ISREG(status.st_mode))
    return error_set(error, origins->path, "not a regular file");
  uint64_t bytes = (uint64_t)status.st_size;
  if (bytes < ORIGINS_HEADER_BYTES)
    return error_at(error, origins->path, bytes, "not an origins file: ends inside the header");
  void *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return error_errno(error, origins->path, "can't map");
  origins->bytes = memory;
  memcpy(&origins->header, memory, sizeof origins->header);
  if (memcmp(origins->header.magic, ORIGINS_MAGIC, sizeof origins->header.magic) != 0)
    return munmap(memory, bytes), error_at(error, origins->path, 0, "not an origins file");
  if (origins->header.file_bytes != bytes) {
    munmap(memory, bytes);
    return error_at(error, origins->path, 16, "the header says %" PRIu64 " bytes, the file has %" PRIu64,
                    origins->header.file_bytes, bytes);
  }
  return 0;
}

static int check_header(const struct origins *origins, const struct workload_header *workload, struct error *error) {
  const struct origins_header *header = &origins->header;
  const char *path = origins->path;
  if (header->version != ORIGINS_VERSION || header->header_bytes != ORIGINS_HEADER_BYTES)
    return error_at(error, path, 8, "origins version %" PRIu32 "; this reader knows version %d", header->version,
                    ORIGINS_VERSION);
  if (header->crc32 != crc32(0, (const Bytef *)header, offsetof(struct origins_header, crc32)))
    return error_at(error, path, 60, "the header fails its checksum");
  if (header->ops != workload->ops || header->workload_crc32 != workload->crc32)
    return error_at(error, path, 56, "belongs to another workload");
  if (header->sites == 0 || header->sites == ORIGINS_NOTHING_BORN || header->functions == 0 ||
      header->functions > header->sites)
    return error_at(error, path, 32, "%" PRIu32 " sites and %" PRIu32 " functions are impossible", header->sites,
                    header->functions);
  /* None of these sums overflows: ops are those of an open workload, so below 2^61. */
  if (header->json_bytes > header->file_bytes || json_offset(header) + header->json_bytes != header->file_bytes)
    return error_at(error, path, 16, "the tables do not add up to the file");
  return 0;
}

static int check_tables(const struct origins *origins, struct error *error) {
  const struct origins_header *header = &origins->header;
  for (uint32_t mark = 0; mark < header->marks; mark++)
    if (origins->marks[mark] > header->ops || (mark > 0 && origins->marks[mark] < origins->marks[mark - 1]))
      return error_at(error, origins->path, origins_marks_offset(header->ops) + mark * sizeof *origins->marks,
                      "mark at position %" PRIu64 ", which is out of order or beyond the end", origins->marks[mark]);
  for (uint32_t site = 0; site < header->sites; site++)
    if (origins->function_of_site[site] >= (site == 0 ? 1 : header->functions))
      return error_at(error, origins->path, functions_offset(header) + site * sizeof *origins->function_of_site,
                      "site %" PRIu32 " has function %" PRIu32 ", and there are %" PRIu32, site,
                      origins->function_of_site[site], header->functions);
  return 0;
}

int origins_open_fd(struct origins *origins, int fd, const char *path, const struct workload_header *workload,
                    struct error *error) {
  *origins = (struct origins){.path = path};
  int status = map_file(origins, fd, error);
  if (status != 0)
    origins->bytes = NULL;
  if (status == 0 && (status = check_header(origins, workload, error)) == 0) {
    const struct origins_header *header = &origins->header;
    origins->site_of_op = (const uint32_t *)(const void *)(origins->bytes + ORIGINS_HEADER_BYTES);
    origins->marks = (const uint64_t *)(const void *)(origins->bytes + origins_marks_offset(header->ops));
    origins->function_of_site = (const uint32_t *)(const void *)(origins->bytes + functions_offset(header));
    origins->json = (const char *)origins->bytes + json_offset(header);
    status = check_tables(origins, error);
  }
  if (status != 0)
    origins_close(origins);
  return status;
}

void origins_close(struct origins *origins) {
  if (origins->bytes)
    munmap((void *)(uintptr_t)origins->bytes, origins->header.file_bytes);
  *origins = (struct origins){0};
}

int origins_check_sites(const struct origins *origins, struct error *error) {
  for (uint64_t op = 0; op < origins->header.ops; op++)
    if (origins->site_of_op[op] >= origins->header.sites && origins->site_of_op[op] != ORIGINS_NOTHING_BORN)
      return error_at(error, origins->path, ORIGINS_HEADER_BYTES + op * sizeof *origins->site_of_op,
                      "site %" PRIu32 ", and there are %" PRIu32, origins->site_of_op[op], origins->header.sites);
  return 0;
}

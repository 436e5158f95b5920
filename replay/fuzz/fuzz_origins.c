/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as an origins file. The header's checksum, file size and workload are first corrected,
   since nothing else would get past them. Then everything that the blame pass does with the file: the check, the tables
   that the engine reads, which must be as origins.h specifies, and the names in a run's JSON. */
#include "core/workload/origins.h"
#include "replay/engine/recorded_clock.h"
#include "replay/passes/blame/blame.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

enum { GROUPS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* libFuzzer ends by the clock, which it reads from libstdc++: outside of the executable, as an allocator would. */
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  recorded_clock_stay_real();
  return 0;
}

/* A run with a row for each of the first sites and functions, whether or not the file has them. */
static struct blame_figures *made_figures(void) {
  static struct blame_figures *result;
  if (result)
    return result;
  result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (result == MAP_FAILED)
    __builtin_trap();
  struct blame_figures *blame = result;
  blame->measured = true;
  blame->position_count = 1;
  blame->positions[0].why = BLAME_BECAUSE_END;
  for (uint32_t group = 0; group < GROUPS; group++)
    for (uint32_t grouping = BLAME_SITE; grouping <= BLAME_FUNCTION; grouping++)
      blame->rows[blame->row_count++] = (struct blame_row){.grouping = grouping, .group = group, .groups = 1};
  return result;
}

static void use_tables(const char *path, int fd, const struct workload_header *workload, struct error *error) {
  struct origins origins;
  if (origins_open_fd(&origins, fd, path, workload, error) != 0)
    return;
  const struct origins_header *header = &origins.header;
  bool sound = origins_check_sites(&origins, error) == 0;
  for (uint64_t op = 0; op < header->ops; op++)
    if (origins.site_of_op[op] < header->sites ? origins.function_of_site[origins.site_of_op[op]] >= header->functions
                                               : sound && origins.site_of_op[op] != ORIGINS_NOTHING_BORN)
      __builtin_trap();
  for (uint32_t mark = 0; mark < header->marks; mark++)
    if (origins.marks[mark] > header->ops)
      __builtin_trap();
  origins_close(&origins);
}

static void use_names(const char *path, const struct workload_header *workload, struct error *error) {
  struct origin_names names;
  const struct run_spec spec = {.path = path,
                                .origins = path,
                                .at = {.texts = {"mark=a", "live-peak", "end"}, .count = 3},
                                .positions = UINT64_MAX};
  struct blame_request request = {.origins_fd = -1};
  if (blame_request_resolve(&request, &names, &spec, workload, error) == 0) {
    const struct run run = {.figures = made_figures()};
    json_t *json = json_object();
    blame_report(json, &run, names.json);
    json_decref(json);
  }
  if (names.fd >= 0)
    close(names.fd);
  json_decref(names.json);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  struct origins_header header;
  struct error error = {0};
  char path[64];
  if (count < sizeof header)
    return 0;
  memcpy(&header, bytes, sizeof header);
  memcpy(header.magic, ORIGINS_MAGIC, sizeof header.magic);
  header.version = ORIGINS_VERSION;
  header.header_bytes = sizeof header;
  header.file_bytes = count;
  header.ops &= UINT64_MAX >> 3; /* as in an open workload */
  header.crc32 = (uint32_t)crc32(0, (const Bytef *)&header, offsetof(struct origins_header, crc32));
  const struct workload_header workload = {.ops = header.ops, .crc32 = header.workload_crc32};
  int fd = memfd_create("fuzz", 0);
  if (write(fd, &header, sizeof header) != sizeof header ||
      write(fd, bytes + sizeof header, count - sizeof header) != (ssize_t)(count - sizeof header))
    __builtin_trap();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  use_tables(path, fd, &workload, &error);
  use_names(path, &workload, &error);
  close(fd);
  return 0;
}

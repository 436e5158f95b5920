/* SPDX-License-Identifier: MIT */
#include "replay/passes/blame/births.h"

#include "core/base/os.h"

#include <errno.h>
#include <string.h>

struct births births;

void births_setup(int origins_fd) {
  struct error error = {""};
  if (origins_fd >= 0) {
    if (origins_open_fd(&births.origins, origins_fd, engine.result->origins_path, &engine.workload.header, &error) != 0)
      engine_fail(NULL, "%s", error.text);
    engine.result->origins_first = (uint64_t)(uintptr_t)births.origins.bytes;
    engine.result->origins_last = engine.result->origins_first + births.origins.header.file_bytes;
  }
  uint64_t bytes = (engine.workload.header.slots + 1ull) * sizeof *births.of_slot;
  births.of_slot = os_map(bytes, true);
  if (!births.of_slot)
    engine_fail(NULL, "no memory for the origins of %u slots: %s", engine.workload.header.slots, strerror(errno));
  memset(births.of_slot, 0, bytes);
}

uint32_t births_sites(void) {
  return births.origins.bytes ? births.origins.header.sites : 1;
}

uint32_t births_functions(void) {
  return births.origins.bytes ? births.origins.header.functions : 1;
}

uint32_t births_phases(void) {
  return births.origins.bytes ? births.origins.header.marks + 1 : 1;
}

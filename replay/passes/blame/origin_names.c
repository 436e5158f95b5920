/* SPDX-License-Identifier: MIT */
#include "replay/passes/blame/origin_names.h"

#include <fcntl.h>
#include <unistd.h>

static int load_json(struct origin_names *names, const struct origins *origins, struct error *error) {
  json_error_t wrong;
  uint64_t offset = origins->header.file_bytes - origins->header.json_bytes;
  names->json = json_loadb(origins->json, origins->header.json_bytes, 0, &wrong);
  if (!names->json)
    return error_at(error, origins->path, offset + (wrong.position > 0 ? (uint64_t)wrong.position : 0),
                    "invalid JSON: %s", wrong.text);
  if (json_array_size(json_object_get(names->json, "sites")) != origins->header.sites ||
      json_array_size(json_object_get(names->json, "functions")) != origins->header.functions ||
      json_array_size(json_object_get(names->json, "marks")) != origins->header.marks)
    return error_at(error, origins->path, offset,
                    "its JSON and its tables do not have the same sites, functions or marks");
  return 0;
}

int origin_names_open(struct origin_names *names, const char *path, const struct workload_header *workload,
                      struct error *error) {
  *names = (struct origin_names){.fd = -1};
  if (!path)
    return 0;
  /* Not closed on exec: the engine maps it. */
  names->fd = open(path, O_RDONLY);
  if (names->fd < 0)
    return error_errno(error, path, "can't open");
  struct origins origins;
  if (origins_open_fd(&origins, names->fd, path, workload, error) != 0)
    return -1;
  int status = origins_check_sites(&origins, error);
  if (status == 0)
    status = load_json(names, &origins, error);
  origins_close(&origins);
  return status;
}

void origin_names_close(struct origin_names *names) {
  if (names->fd >= 0)
    close(names->fd);
  json_decref(names->json);
  *names = (struct origin_names){.fd = -1};
}

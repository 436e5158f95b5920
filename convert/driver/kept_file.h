/* The file of --keep, mapped: which objects of a workload stay, one byte each by number, 0: it is left out. */
#ifndef CONVERT_DRIVER_KEPT_FILE_H
#define CONVERT_DRIVER_KEPT_FILE_H

#include "core/base/error.h"

#include <stdint.h>

struct kept_file {
  const uint8_t *objects; /* not NULL where it is mapped, even if it is empty */
  uint64_t count;
};

/* Returns 0, or -1 with error; then there is nothing to unmap. */
int kept_file_map(struct kept_file *kept, const char *path, struct error *error);
/* Also of one that was never mapped: {NULL, 0}. */
void kept_file_unmap(struct kept_file *kept);

#endif

/* SPDX-License-Identifier: MIT */
/* A workload's origins file (docs/formats/ORIGINS.md): which call stack acquired each object, and where the marks are.
   Its layout, and its reader.

   Job: turn an untrusted file into tables. Invariants: once a file is open, all tables are inside it, the marks'
   positions rise and are at most the ops, each site's function is below the number of functions; any file at all yields
   origins or one error. Nothing here calls malloc, as the engine must not. May be read by many threads. A file that
   another process truncates while it is open raises SIGBUS, as mappings do. */
#pragma once

#include "core/base/error.h"
#include "core/workload/workload.h"

#include <stdint.h>

#define ORIGINS_MAGIC "HEAPORIG"
#define ORIGINS_NOTHING_BORN UINT32_MAX

enum { ORIGINS_VERSION = 1, ORIGINS_HEADER_BYTES = 64 };

struct origins_header {
  char magic[8];
  uint32_t version, header_bytes;
  uint64_t file_bytes, ops;
  uint32_t sites, functions, marks, zero;
  uint64_t json_bytes;
  uint32_t workload_crc32; /* the workload header's own checksum */
  uint32_t crc32;
};
_Static_assert(sizeof(struct origins_header) == ORIGINS_HEADER_BYTES, "layout of ORIGINS.md");

/* The tables are in the mapping. */
struct origins {
  const char *path;     /* for errors; the caller's */
  const uint8_t *bytes; /* the whole file; NULL: none is open */
  struct origins_header header;
  const uint32_t *site_of_op;       /* by position; ORIGINS_NOTHING_BORN, or (after origins_check_sites) below
                                       header.sites */
  const uint64_t *marks;            /* positions */
  const uint32_t *function_of_site; /* by site */
  const char *json;                 /* header.json_bytes, not NUL-terminated */
};

/* Where the marks begin in a file with that many ops. */
uint64_t origins_marks_offset(uint64_t ops);

/* Opens the file on fd, which may be closed afterwards. workload: the one that it must belong to. Returns 0, or -1 with
   error filled in; then *origins is zeroed. path must outlive *origins. */
int origins_open_fd(struct origins *origins, int fd, const char *path, const struct workload_header *workload,
                    struct error *error);
void origins_close(struct origins *origins);

/* Checks the site of each op. O(ops). Returns 0, or -1 with error. */
int origins_check_sites(const struct origins *origins, struct error *error);

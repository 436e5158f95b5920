/* SPDX-License-Identifier: MIT */
/* The bytes of a foreign recording: from a file, standard input, the only file in a zip archive, or gzip or zstd data,
   recognised by its first bytes; or from an open descriptor (a child's output).

   Invariants: memory is bounded whatever the input claims (a zstd frame may need a window of at most 128 MiB);
   compressed data that is cut off or damaged is an error, never a shorter file. Not thread-safe. */
#pragma once

#include "core/base/error.h"

#include <stddef.h>
#include <stdint.h>

struct byte_source;

/* path "-" reads standard input from its beginning. Returns 0, or -1 with error, which must outlive the source. */
int byte_source_open(struct byte_source **out, const char *path, struct error *error);

/* Reads from a descriptor, without unpacking; takes it over (also on failure). path is for errors. */
int byte_source_of_fd(struct byte_source **out, int fd, const char *path, struct error *error);
void byte_source_close(struct byte_source *source);

const char *byte_source_path(const struct byte_source *source);
struct error *byte_source_error(const struct byte_source *source);

/* Reads up to room bytes (> 0). Returns the count; 0 at the end; -1 with error. */
int64_t byte_source_read(struct byte_source *source, void *bytes, size_t room);

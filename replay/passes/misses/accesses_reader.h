/* SPDX-License-Identifier: MIT */
/* Reads the stream of data accesses of a workload (core/trace/access_stream.h), item by item.

   Job: the file, its header, complete items. Memory is a buffer. Not thread-safe. */
#pragma once

#include "core/base/error.h"
#include "core/trace/access_stream.h"

#include <stdio.h>

enum { ACCESSES_READ_BYTES = 1 << 16 };

struct accesses_reader {
  const char *path;
  FILE *file;
  uint32_t filter_bytes; /* from the header */
  uint64_t offset;       /* of the next item, in the file */
  struct access_coder coder;
  const uint8_t *at, *filled;
  uint8_t buffer[ACCESSES_READ_BYTES];
};

/* path must outlive the reader. Returns 0, or -1 with error; call accesses_reader_close in either case. */
int accesses_reader_open(struct accesses_reader *reader, const char *path, struct error *error);
void accesses_reader_close(struct accesses_reader *reader);

/* Returns 1, or 0 at the end of the file, or -1 with error. */
int accesses_reader_next(struct accesses_reader *reader, struct access_item *item, struct error *error);

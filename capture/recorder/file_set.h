/* SPDX-License-Identifier: MIT */
/* The numbered files of a recording that rotates: their names, and which of them are still there.

   F.0001.tape, F.0002.tape and so on. Files that existed before are never touched: numbering continues after them. Not
   its job: what is in the files, when to begin the next. One thread. */
#pragma once

#include "core/base/error.h"

#include <stddef.h>
#include <stdint.h>

struct file_set {
  char base[4096]; /* path without number and ".tape" */
  uint64_t id;     /* random: the same in all files of the set */
  uint32_t first;  /* number of the set's first file */
  uint32_t oldest; /* number of the oldest file that was not deleted */
  uint32_t number; /* number of the file being written */
  uint64_t deleted_bytes;
};

/* path: where the recording would go if it did not rotate. The first number is the one after the highest existing
   number under that name. */
void file_set_begin(struct file_set *set, const char *path);

/* The path of file number. */
void file_set_path(const struct file_set *set, uint32_t number, char *path, size_t bytes);

/* Deletes the set's files except the one being written and the `keep` before it. Returns 0; or -1 with error filled in:
   one could not be deleted, which is tried again the next time. A file that no longer exists is not an error. */
int file_set_trim(struct file_set *set, uint32_t keep, struct error *error);

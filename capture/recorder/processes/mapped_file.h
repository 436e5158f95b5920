/* SPDX-License-Identifier: MIT */
/* Files that a recorded process has mapped, and of their allocators the names and versions. The process chooses the
   file, and may change it meanwhile: it is read, never mapped, and up to a limit. */
#pragma once

#include "core/system/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens the file of that mapping of the process, by its path in the process's root directory, else in the recorder's;
   -1: there is none, it is not a regular file, it can't be opened, or another file is there now. The caller closes
   it. */
int mapped_file_open(int pid, const struct proc_mapping *mapping);

/* The version of glibc ("2.36"), if the file is its C library. False: it is not (version is empty then). */
bool mapped_file_glibc_version(int fd, char *version, size_t bytes);

/* The allocator in an executable that defines malloc, by the texts in it, as allocators.toml names it, and its version
   ("": not known). NULL: none of those that are told apart. */
const char *mapped_file_linked_allocator(int fd, char *version, size_t bytes);

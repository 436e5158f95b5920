/* SPDX-License-Identifier: MIT */
/* What an ELF file that a recorded process has mapped says of itself: its build id, and of glibc its version. The
   process chooses the file, and may change it meanwhile: it is read, never mapped, and up to a limit. */
#pragma once

#include "core/system/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens the file of that mapping of the process, by its path in the process's root directory, else in the recorder's;
   -1: there is none, it is not a regular file, it can't be opened, or another file is there now. The caller closes
   it. */
int elf_file_open(int pid, const struct proc_mapping *mapping);

/* The build id of the ELF file as hexadecimal digits, and the address of its first byte according to its own headers.
   id has room for 2 * TRACE_MAX_BUILD_ID_BYTES + 1. False: it is not an ELF file, or has no build id (id is empty
   then). */
bool elf_file_build_id(int fd, char *id, uint64_t *first_address);

/* The version of glibc ("2.36"), if the file is its C library. False: it is not (version is empty then). */
bool elf_file_glibc_version(int fd, char *version, size_t bytes);

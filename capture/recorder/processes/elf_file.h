/* SPDX-License-Identifier: MIT */
/* What an ELF file that a recorded process has mapped says of itself: its build id, and of glibc its version. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens the process's regular file at that path, else the recorder's; -1: there is none, or it can't be opened. The
   caller closes it. */
int elf_file_open(int pid, const char *path);

/* The build id of the ELF file as hexadecimal digits, and the address of its first byte according to its own headers.
   id has room for 2 * TRACE_MAX_BUILD_ID_BYTES + 1. False: it is not an ELF file, or has no build id (id is empty
   then). */
bool elf_file_build_id(int fd, char *id, uint64_t *first_address);

/* The version of glibc ("2.36"), if the file is its C library. False: it is not (version is empty then). */
bool elf_file_glibc_version(int fd, char *version, size_t bytes);

/* SPDX-License-Identifier: MIT */
/* Finds the symbol at an address of an ELF file, in its symbol tables or those of its debug package.

   Where the file was stripped, those of /usr/lib/debug/.build-id/XX/REST.debug, which has the same build id. Not its
   job: inlined functions, and lines (convert/stacks/symbols.h, whose libraries the engine's process must not load).
   Files of this machine's processor, 64 bits; other files have no names. Reads the file again at each call.
   Single-threaded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills in the name, cut to bytes, demangled if it is a C++ name and the C++ library is here; and the address's offset
   from the symbol's start. False: no symbol. */
bool elf_name_of(const char *path, uint64_t address, char *name, size_t bytes, uint64_t *offset);

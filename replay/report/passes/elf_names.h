/* SPDX-License-Identifier: MIT */
/* What lies at an address of an ELF file, by its symbol tables or those of its debug package.

   Job: the symbol that covers an address: of the file, and where it was stripped, of
   /usr/lib/debug/.build-id/XX/REST.debug, which has the same build id. Not its job: functions that were inlined, and
   lines (convert/stacks/symbols.h, whose libraries the engine's process must not load). Files of this
   machine's processor, 64 bits; all else has no names. Reads anew at each call. Single-threaded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills in the name, cut to bytes, as it is written in C++ where it is one of that and its library is here; and how far
 * behind the symbol's begin the address is. False: there is none. */
bool elf_name_of(const char *path, uint64_t address, char *name, size_t bytes, uint64_t *offset);

/* SPDX-License-Identifier: GPL-2.0-only */
/* Symbols of an ELF file: 64-bit, of this machine's byte order.

   Job: call back with each defined symbol of its dynamic and its full symbol table: its name, and the offset in the
   file of the symbol's code or data. Not its job: the meaning of names. Damage ends the reading early: the kernel
   mapped the file, but its section headers are untrusted. */
#pragma once

#include <pub_tool_basics.h>

typedef void symbol_reader(void *context, const HChar *name, ULong file_offset);

/* Sets *shared: the file is a shared object or a position-independent program. Returns False if it can't be read. */
Bool symbols_read(const HChar *path, symbol_reader *reader, void *context, Bool *shared);

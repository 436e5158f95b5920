/* SPDX-License-Identifier: GPL-2.0-only */
/* Which code is an allocator's, by the symbols of the object file from which it was mapped.

   An allocator library is a shared object that defines malloc, other than the C library (which also defines
   __libc_start_main) and the program itself: all its code is the allocator's. In any object, the functions of the
   malloc API (malloc and related functions, the C++ operators new and delete) are known by their symbols. So glibc's
   own malloc is known by its entry points only, and a stripped program with a statically linked allocator seems to have
   none. */
#pragma once

#include <pub_tool_basics.h>

enum object_code { CODE_IS_PROGRAMS, CODE_IS_API_FUNCTION, CODE_IS_ALLOCATORS };

/* The kind of code at that address; API_FUNCTION only at a function's first instruction. Reads the object's symbols the
   first time. */
enum object_code objects_code_at(Addr address);

/* That range was unmapped: drops its objects. */
void objects_forget(Addr address, SizeT bytes);

/* SPDX-License-Identifier: GPL-2.0-only */
/* Which code is an allocator's, by the symbols of the object file that it was mapped from.

   An allocator library is a shared object that defines malloc, other than the C library (which also defines strlen) and
   the program itself: all its code is the allocator's. In any object, the functions of the malloc API (malloc and its
   kin, the C++ operators new and delete) are known by their symbols. So glibc's own malloc is known by its entry points
   alone, and a program that was linked against an allocator statically, and stripped, seems to have none. */
#pragma once

#include <pub_tool_basics.h>

enum object_code { CODE_IS_PROGRAMS, CODE_IS_API_FUNCTION, CODE_IS_ALLOCATORS };

/* Of the function or code at that address; API_FUNCTION only at a function's first instruction. Reads the object's
   symbols the first time. */
enum object_code objects_code_at(Addr address);

/* That range was unmapped: what is known of it is forgotten. */
void objects_forget(Addr address, SizeT bytes);

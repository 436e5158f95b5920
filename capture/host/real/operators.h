/* SPDX-License-Identifier: MIT */
/* The real C++ operators new and delete: those that the program would call without us.

   Job: find these operators, and recognise the calls of malloc and free that operators make internally. Not its job:
   recording. Invariants: libheaptape.so needs no C++ library and brings none into a C program. So the operators are
   searched only among the loaded libraries: at the start where the program has a C++ library, else when the first
   operator is called, which is then in a library loaded by dlopen. Once flags is not 0, all pointers are set. Keeps
   errno. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum operator_flags {
  OPERATORS_FOUND = 1,
  /* The program's operator calls are recorded. Not set where the program itself replaces one operator and the others
     are the standard library's: these call the program's, and its calls of malloc are recorded. Nor where the program
     brings its own malloc, whose calls cannot be recorded. */
  OPERATORS_RECORDED = 2,
  /* Only with RECORDED. The operators are the standard library's, which only call malloc (or free): our hooks call
     malloc or free directly, and the operator only where there is no memory. This halves the cost of recording a C++
     program, as the operator's inner call would reach our hooks again. Not for the aligned forms of new. */
  OPERATORS_NEW_IS_MALLOC = 4,
  OPERATORS_DELETE_IS_FREE = 8,
};

struct operators {
  uint32_t flags;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param) result(*ident) declaration;
#include "capture/host/real/entry_points.def"
};
extern struct operators operators __attribute__((visibility("hidden")));

/* Finds the operators if that has not been done; true: the call is to be recorded. caller: an address in the program or
   library that calls an operator. */
bool operators_find(const void *caller);

/* Is a call made from this address, during an operator's call, a part of it? It is if it comes from another library
   that has its own operators. If it comes from an operator of the standard library or from the allocator, it is only if
   it is of the same kind (alike): an acquire in a new, a release in a delete. */
bool operators_are_at(const void *address, bool alike);

/* From the first to the last byte of the standard library's operators and of libraries that have their own: most
   addresses are outside. It only grows. */
struct operators_hull {
  uintptr_t from, end;
};
extern struct operators_hull operators_hull __attribute__((visibility("hidden")));

static inline bool operators_may_be_at(const void *address) {
  return (uintptr_t)address >= operators_hull.from && (uintptr_t)address < operators_hull.end;
}

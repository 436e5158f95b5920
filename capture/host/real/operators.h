/* SPDX-License-Identifier: MIT */
/* The real C++ operators new and delete: those that the program would call without us.

   Job: find these operators, and recognise the calls of malloc and free by which operators do their work. Not its job:
   recording. Invariants: libheaptape.so needs no C++ library and brings none into a C program, so that the operators
   are looked for only among the libraries that are loaded: at the start where the program has a C++ library, else when
   the first operator is called, which is then of a library that came by dlopen. Once flags is not 0, all pointers are
   set. Keeps errno. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum operator_flags {
  OPERATORS_FOUND = 1,
  /* The program is recorded by its operators. Not where the program itself replaces one of them and the others are the
     standard library's: these call the program's, and what that one takes from malloc is recorded. Nor where the
     program brings a malloc of its own, whose calls cannot be recorded. */
  OPERATORS_RECORDED = 2,
  /* Only with RECORDED. The operators are the standard library's, which only call malloc (or free): our hooks call that
     at once, and the operator only where there is no memory. This halves the cost of recording a C++ program, as the
     operator's call would come to us a second time. Not for the aligned forms of new. */
  OPERATORS_NEW_IS_MALLOC = 4,
  OPERATORS_DELETE_IS_FREE = 8,
};

struct operators {
  uint32_t flags;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param) result(*ident) declaration;
#include "capture/host/real/entry_points.def"
};
extern struct operators operators __attribute__((visibility("hidden")));

/* Finds them if that has not been done; true: the call is to be recorded. caller: an address in the program or library
   that calls an operator. */
bool operators_find(const void *caller);

/* Is a call made from this address, during an operator's call, a part of it? It is if it comes from another library
   with operators of its own; if it comes from an operator of the standard library or from the allocator, then only if
   it is alike: an acquire in a new, a release in a delete. */
bool operators_are_at(const void *address, bool alike);

/* From the first to the last byte of all operators and libraries that the second part of the above is about: most
   addresses are not in between. It only grows. */
struct operators_hull {
  uintptr_t from, end;
};
extern struct operators_hull operators_hull __attribute__((visibility("hidden")));

static inline bool operators_may_be_at(const void *address) {
  return (uintptr_t)address >= operators_hull.from && (uintptr_t)address < operators_hull.end;
}

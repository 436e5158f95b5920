/* SPDX-License-Identifier: MIT */
/* Prototypes of the entry points, for the compiler's checks; libc's headers lack some of them and mark others with
 * attributes. */
#pragma once

#include <stddef.h>

#define HOOK(ident, kind, result, declaration, arguments, size, param) result ident declaration;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  result ident declaration __asm__(symbol);
#include "capture/host/real/entry_points.def"

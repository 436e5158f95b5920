/* SPDX-License-Identifier: MIT */
/* How a library that walks stacks in our place registers itself (host/unwinder/, record --unwind libunwind).

   Layout only. Threads: set once, by the helper's constructor; walks before that use our own rules. */
#pragma once

#include <stdint.h>

/* Writes the instructions of the stack's frames, innermost first, at most `most`, and returns their number. The first
   is its caller's or one further in. It may lock and allocate: called with signals blocked. */
typedef uint32_t stack_unwinder(uintptr_t *instructions, uint32_t most);

/* Exported by libheaptape.so; a null pointer elsewhere. NULL: it cannot walk, which is printed. */
__attribute__((weak, visibility("default"))) void heaptape_lib_set_unwinder(stack_unwinder *unwinder);

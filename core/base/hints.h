/* SPDX-License-Identifier: MIT */
/* Hints to the compiler, for code that runs for each event: there a call costs as much as the function's work. They
   change no result. */
#pragma once

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define unlikely(condition) __builtin_expect(!!(condition), 0)

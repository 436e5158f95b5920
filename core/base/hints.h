/* SPDX-License-Identifier: MIT */
/* Hints to the compiler, for code that each event passes through: there a call costs as much as what it does. They
   change no result. */
#pragma once

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define unlikely(condition) __builtin_expect(!!(condition), 0)

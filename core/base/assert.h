/* SPDX-License-Identifier: MIT */
/* Assertions of debug builds (`make debug`): checks of the invariants that headers state. Hints to the compiler.

   Not its job: errors of input, of the system or of users; those have codes. An assertion costs nothing in other
   builds, where its condition is compiled but not run. Async-signal-safe, and allocates nothing, so that code inside a
   traced program may use it too. */
#pragma once

#ifdef HT_DEBUG
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noreturn, noinline, cold, unused)) static void assert_failed(const char *text) {
  ssize_t written = write(2, text, strlen(text));
  (void)written;
  abort();
}

#define ASSERT_TEXT_OF(number) #number
#define ASSERT_TEXT(number) ASSERT_TEXT_OF(number)
#define HT_ASSERT(condition)                                                                                           \
  ((condition)                                                                                                         \
       ? (void)0                                                                                                       \
       : assert_failed("heaptape: " __FILE__ ":" ASSERT_TEXT(__LINE__) ": assertion failed: " #condition "\n"))
#else
#define HT_ASSERT(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define unlikely(condition) __builtin_expect(!!(condition), 0)

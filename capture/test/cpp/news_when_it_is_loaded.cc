/* SPDX-License-Identifier: MIT */
// A library that keeps an object of each size as soon as it is loaded.
#include <new>

static void *kept[600];

extern "C" int use_new() { return kept[1] == nullptr; }

__attribute__((constructor)) static void begin() {
  for (unsigned long bytes = 1; bytes < sizeof kept / sizeof *kept; bytes++)
    kept[bytes] = ::operator new(bytes);
}

/* SPDX-License-Identifier: MIT */
// Replaces plain new and delete by operators that put 16 bytes before each object; all other forms call these. In a
// program, or, built as a shared library, in a library behind libheaptape.so.
#include <cstdlib>
#include <new>

__attribute__((visibility("default"))) void *operator new(std::size_t size) {
  char *object = static_cast<char *>(std::malloc(size + 16));
  if (!object)
    throw std::bad_alloc();
  return object + 16;
}

__attribute__((visibility("default"))) void operator delete(void *object) noexcept {
  if (object)
    std::free(static_cast<char *>(object) - 16);
}

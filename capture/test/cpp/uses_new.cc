/* SPDX-License-Identifier: MIT */
// Calls new and new[] a hundred times each.
#include <new>

extern "C" __attribute__((visibility("default"))) int use_new() {
  for (int i = 0; i < 100; i++) {
    ::operator delete(::operator new(24));
    ::operator delete[](::operator new[](40));
  }
  return 0;
}

int main() {
  return use_new();
}

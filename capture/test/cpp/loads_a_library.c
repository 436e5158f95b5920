/* SPDX-License-Identifier: MIT */
/* A C program that loads the library named by its argument, and with it C++, and calls use_new. */
#include "core/test/usual.h"

int main(int argc, char **argv) {
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  union {
    void *data;
    int (*code)(void);
  } symbol = {library ? dlsym(library, "use_new") : NULL};
  return symbol.data ? symbol.code() : 1;
}

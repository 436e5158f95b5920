/* SPDX-License-Identifier: MIT */
/* libheaptape-unwind.so: lets libheaptape.so walk stacks by libunwind. It is preloaded for record --unwind libunwind
   only.

   libunwind is loaded here by dlopen, with its symbols kept local, and is not a dependency of this library: it also
   defines backtrace and the _Unwind functions, which would then serve the program instead of libc's and libgcc's. */
#include "capture/host/stacks/stack.h"
#include "capture/wire/heaptape.h"

#include <dlfcn.h>

typedef int unwind_backtrace(void **addresses, int most);

static unwind_backtrace *backtrace_of_libunwind;

static uint32_t unwind(uintptr_t *instructions, uint32_t most) {
  int count = backtrace_of_libunwind((void **)instructions, (int)most);
  return count > 0 ? (uint32_t)count : 0;
}

__attribute__((constructor)) static void begin(void) {
  if (!heaptape_lib_set_unwinder)
    return;
  heaptape_exclude(); /* what the loader allocates now stays allocated */
  void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  union { /* turns the data pointer of dlsym into a function pointer without a cast that ISO C forbids */
    void *data;
    unwind_backtrace *code;
  } symbol = {.data = library ? dlsym(library, "unw_backtrace") : 0};
  heaptape_include();
  backtrace_of_libunwind = symbol.code;
  heaptape_lib_set_unwinder(symbol.code ? unwind : 0);
}

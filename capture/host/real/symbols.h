/* SPDX-License-Identifier: MIT */
/* Symbols of loaded objects, read from their own tables: dlsym would need a handle, and dlopen, which returns one,
   allocates memory in the program; dladdr1 gives a symbol's definition and size, but musl does not have it.

   Not its job: which of several objects wins. Allocates nothing; takes the locks of dl_iterate_phdr only. */
#pragma once

#include <link.h>
#include <stdint.h>

/* What an entry of the dynamic section points to: glibc's loader has added the base to it, musl's has not. */
static inline uintptr_t symbols_pointer(uintptr_t base, const ElfW(Dyn) * entry) {
  return entry->d_un.d_ptr < base ? base + entry->d_un.d_ptr : entry->d_un.d_ptr;
}

/* That symbol of the object, defined there or not, or NULL; by its GNU hash table, which all current linkers make. */
const ElfW(Sym) * symbols_find(const struct dl_phdr_info *object, const char *name);

/* The same for the object that contains that address. */
const ElfW(Sym) * symbols_find_near(const void *address, const char *name);

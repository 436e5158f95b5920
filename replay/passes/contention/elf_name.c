/* SPDX-License-Identifier: MIT */
#include "replay/passes/contention/elf_name.h"

#include "core/base/os.h"
#include "core/elf/elf_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct found {
  uint64_t address;
  char *name;
  size_t bytes;
  uint64_t size, offset; /* of the symbol; size 0: none yet */
};

/* Of several symbols that cover the address, the smallest is the nearest to it. */
static bool note_nearest(void *context, const Elf64_Sym *symbol, const char *name) {
  struct found *found = context;
  uint64_t offset = found->address - symbol->st_value;
  if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) == STT_TLS || offset >= symbol->st_size ||
      (found->size > 0 && symbol->st_size >= found->size))
    return true;
  snprintf(found->name, found->bytes, "%s", name);
  found->size = symbol->st_size;
  found->offset = offset;
  return true;
}

/* id: the file's build id; "": it has none. */
static void search_file(const char *path, struct found *found, char id[ELF_BUILD_ID_TEXT]) {
  struct elf_memory memory;
  struct elf_file file;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  id[0] = '\0';
  if (elf_map(fd, &memory) && elf_file_read(&memory, &file)) {
    elf_file_symbols(&memory, &file, note_nearest, found);
    elf_file_build_id(fd, &file, id);
  }
  elf_unmap(&memory);
  os_close(fd);
}

/* The C++ library is loaded when a name needs it. If linked, it would be loaded into the engine's process, too. */
static void demangle(char *name, size_t bytes) {
  typedef char *demangler(const char *mangled, char *buffer, size_t *length, int *status);
  void *library = strncmp(name, "_Z", 2) == 0 ? dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL) : NULL;
  demangler *function = library ? (demangler *)dlsym(library, "__cxa_demangle") : NULL;
  char *plain = function ? function(name, NULL, NULL, NULL) : NULL;
  if (plain)
    snprintf(name, bytes, "%s", plain);
  free(plain);
  if (library)
    dlclose(library);
}

bool elf_name_of(const char *path, uint64_t address, char *name, size_t bytes, uint64_t *offset) {
  struct found found = {.address = address, .name = name, .bytes = bytes};
  char id[ELF_BUILD_ID_TEXT], debug[256];
  search_file(path, &found, id);
  if (found.size == 0 && id[0]) {
    snprintf(debug, sizeof debug, "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2);
    search_file(debug, &found, id);
  }
  if (found.size > 0)
    demangle(name, bytes);
  *offset = found.offset;
  return found.size > 0;
}

/* SPDX-License-Identifier: MIT */
#include "replay/passes/contention/elf_name.h"

#include "core/base/os.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct image {
  const uint8_t *bytes;
  uint64_t size;
};

/* Returns NULL if the part is not in the file. */
static const void *part(const struct image *image, uint64_t offset, uint64_t bytes) {
  return offset <= image->size && bytes <= image->size - offset && offset % 4 == 0 ? image->bytes + offset : NULL;
}

static bool map_file(struct image *image, const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat about;
  *image = (struct image){0};
  if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
    void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes != MAP_FAILED)
      *image = (struct image){bytes, (uint64_t)about.st_size};
  }
  os_close(fd);
  return image->bytes;
}

static void unmap_file(const struct image *image) {
  munmap((void *)(uintptr_t)image->bytes, image->size);
}

/* Returns the section headers; *count 0: none. */
static const Elf64_Shdr *sections_of(const struct image *image, unsigned *count) {
  const Elf64_Ehdr *header = part(image, 0, sizeof *header);
  *count = 0;
  if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_shentsize != sizeof(Elf64_Shdr))
    return NULL;
  const Elf64_Shdr *sections = part(image, header->e_shoff, header->e_shnum * sizeof *sections);
  *count = sections ? header->e_shnum : 0;
  return sections;
}

struct found {
  char *name;
  size_t bytes;
  uint64_t size, offset; /* of the symbol; size 0: none yet */
};

/* Of several symbols that cover the address, the smallest is the nearest to it. */
static void search_table(const struct image *image, const Elf64_Shdr *table, const Elf64_Shdr *names, uint64_t address,
                         struct found *found) {
  const Elf64_Sym *symbols = part(image, table->sh_offset, table->sh_size);
  const char *texts = part(image, names->sh_offset & ~(uint64_t)3, names->sh_size + names->sh_offset % 4);
  if (!symbols || !texts || names->sh_size == 0)
    return;
  texts += names->sh_offset % 4;
  for (uint64_t index = 0; index < table->sh_size / sizeof *symbols; index++) {
    const Elf64_Sym *symbol = &symbols[index];
    bool covers = symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) != STT_TLS &&
                  address - symbol->st_value < symbol->st_size;
    if (!covers || symbol->st_name >= names->sh_size || (found->size > 0 && symbol->st_size >= found->size))
      continue;
    size_t length = strnlen(texts + symbol->st_name, names->sh_size - symbol->st_name);
    snprintf(found->name, found->bytes, "%.*s", (int)length, texts + symbol->st_name);
    found->size = symbol->st_size;
    found->offset = address - symbol->st_value;
  }
}

static void search_file(const struct image *image, uint64_t address, struct found *found) {
  unsigned count;
  const Elf64_Shdr *sections = sections_of(image, &count);
  for (unsigned index = 0; index < count; index++) {
    const Elf64_Shdr *section = &sections[index];
    if ((section->sh_type == SHT_SYMTAB || section->sh_type == SHT_DYNSYM) && section->sh_link < count)
      search_table(image, section, &sections[section->sh_link], address, found);
  }
}

/* Finds where a debug package has the file's symbols; false: the file has no build id. */
static bool debug_path(const struct image *image, char *path, size_t bytes) {
  unsigned count;
  const Elf64_Shdr *sections = sections_of(image, &count);
  for (unsigned index = 0; index < count; index++) {
    const Elf64_Nhdr *note =
        sections[index].sh_type == SHT_NOTE ? part(image, sections[index].sh_offset, sections[index].sh_size) : NULL;
    if (!note || sections[index].sh_size < sizeof *note || note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4 ||
        note->n_descsz < 2 || note->n_descsz > 64 || sections[index].sh_size < sizeof *note + 4 + note->n_descsz)
      continue;
    const uint8_t *id = (const uint8_t *)(note + 1) + 4;
    size_t used = (size_t)snprintf(path, bytes, "/usr/lib/debug/.build-id/%02x/", id[0]);
    for (uint32_t digit = 1; digit < note->n_descsz && used < bytes; digit++)
      used += (size_t)snprintf(path + used, bytes - used, "%02x", id[digit]);
    return used < bytes && (size_t)snprintf(path + used, bytes - used, ".debug") < bytes - used;
  }
  return false;
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
  struct found found = {.name = name, .bytes = bytes};
  struct image image, debug;
  char beside[256];
  if (!map_file(&image, path))
    return false;
  search_file(&image, address, &found);
  if (found.size == 0 && debug_path(&image, beside, sizeof beside) && map_file(&debug, beside)) {
    search_file(&debug, address, &found);
    unmap_file(&debug);
  }
  unmap_file(&image);
  if (found.size > 0)
    demangle(name, bytes);
  *offset = found.offset;
  return found.size > 0;
}

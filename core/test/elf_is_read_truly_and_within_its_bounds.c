/* SPDX-License-Identifier: MIT */
/* The C library in this process is read as the dynamic linker reads it; whatever a damaged copy says, nothing outside
   of it is read. */
#include "core/elf/elf_file.h"
#include "core/test/check.h"

#include <link.h>

enum { DAMAGES = 3000, PAGE = 4096 };

static struct elf_memory loaded;
static struct elf_dynamic dynamic;
static char library_path[256], loaded_id[ELF_BUILD_ID_TEXT];

static int find_library(struct dl_phdr_info *info, size_t bytes, void *context) {
  const struct elf_segments segments = {info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr};
  struct elf_extent extent = elf_extent(&segments);
  (void)bytes, (void)context;
  if ((uintptr_t)fopen < extent.from || (uintptr_t)fopen >= extent.to)
    return 0;
  loaded = (struct elf_memory){(const uint8_t *)extent.from, extent.from, extent.to - extent.from, NULL, NULL};
  snprintf(library_path, sizeof library_path, "%s", info->dlpi_name);
  uint32_t id_bytes;
  const uint8_t *id = elf_loaded_build_id(&segments, &id_bytes);
  if (id)
    elf_build_id_text(id, id_bytes, loaded_id);
  const Elf64_Phdr *section = elf_segment(&segments, PT_DYNAMIC);
  return section && elf_dynamic_read(&loaded, info->dlpi_addr + section->p_vaddr, info->dlpi_addr, &dynamic);
}

static bool read_own(const void *context, uint64_t address, void *to, size_t bytes) {
  (void)context;
  memcpy(to, (const void *)(uintptr_t)address, bytes);
  return true;
}

static bool check_symbol(void *count, const Elf64_Sym *symbol, const char *name) {
  const struct elf_memory other = {.read = read_own};
  struct elf_symbol found, by_reading;
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  const void *right = type == STT_FUNC || type == STT_OBJECT ? dlsym(RTLD_DEFAULT, name) : NULL;
  if (!right || !elf_symbol_find(&loaded, &dynamic, name, &found) || found.entry.st_shndx == SHN_UNDEF ||
      !found.is_default || ELF64_ST_TYPE(found.entry.st_info) != type)
    return true;
  Dl_info about;
  CHECK(dladdr(right, &about));
  if (strcmp(about.dli_fname, library_path) != 0)
    return true;
  CHECK((const void *)(dynamic.base + found.entry.st_value) == right, "%s", name);
  CHECK(strcmp(elf_name(&loaded, &dynamic, found.entry.st_name), name) == 0, "%s", name);
  CHECK(strlen(name) > 63 || (elf_symbol_find(&other, &dynamic, name, &by_reading) && by_reading.at == found.at), "%s",
        name);
  ++*(unsigned *)count;
  return true;
}

static bool read_name(void *bytes, const Elf64_Sym *symbol, const char *name) {
  *(size_t *)bytes += strlen(name) + symbol->st_size % 2;
  return true;
}

/* Everything that can be read of it. */
static void read_all(const struct elf_memory *memory) {
  struct elf_file file;
  struct elf_dynamic its;
  struct elf_symbol symbol;
  uint64_t offset;
  uint32_t bytes;
  size_t sum = 0;
  if (!elf_file_read(memory, &file))
    return;
  elf_file_symbols(memory, &file, read_name, &sum);
  elf_file_offset(&file, dynamic.symbols, 16, &offset);
  elf_file_function_bytes(memory, &file, file.header.e_entry);
  for (size_t i = 0; i < file.segments.count; i++) {
    const Elf64_Phdr *segment = &file.segment[i];
    const void *notes = elf_part(memory, segment->p_offset, segment->p_filesz);
    if (notes && segment->p_type == PT_NOTE)
      elf_build_id(notes, segment->p_filesz, &bytes);
    if (segment->p_type == PT_DYNAMIC && elf_dynamic_read(memory, segment->p_offset, 0, &its) &&
        elf_symbol_find(memory, &its, "malloc", &symbol))
      elf_name(memory, &its, symbol.entry.st_name);
  }
}

/* The file's own functions, and places within them. */
struct functions {
  const struct elf_memory *memory;
  const struct elf_file *file;
  unsigned count;
};

static bool check_function(void *context, const Elf64_Sym *symbol, const char *name) {
  struct functions *functions = context;
  uint64_t found = elf_file_function_bytes(functions->memory, functions->file, symbol->st_value);
  if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_size == 0 || strncmp(name, "check_", 6) != 0)
    return true;
  CHECK(found == symbol->st_size, "%s: %ju", name, (uintmax_t)found);
  CHECK(elf_file_function_bytes(functions->memory, functions->file, symbol->st_value + 1) == 0, "%s", name);
  functions->count++;
  return true;
}

/* By the table for exceptions as by the symbols. */
static void check_functions(void) {
  struct elf_memory memory;
  struct elf_file file;
  struct functions functions = {&memory, &file, 0};
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  CHECK(elf_map(fd, &memory) && elf_file_read(&memory, &file));
  elf_file_symbols(&memory, &file, check_function, &functions);
  CHECK(functions.count >= 2, "%u", functions.count);
  elf_unmap(&memory);
  close(fd);
}

/* Where damage changes what is read: headers, notes, symbols' sections, the dynamic section. */
static uint64_t place_of_damage(const struct elf_file *file, uint64_t size, uint64_t *counter) {
  const Elf64_Phdr *segment = &file->segment[test_below(counter, file->segments.count)];
  switch (test_below(counter, 4)) {
  case 0:
    return test_below(counter, sizeof file->header + file->segments.count * sizeof *segment);
  case 1:
    return file->header.e_shoff + test_below(counter, size - file->header.e_shoff);
  default:
    return segment->p_offset + test_below(counter, segment->p_filesz < 4096 ? segment->p_filesz + 1 : 4096);
  }
}

static bool count_symbol(void *count, const Elf64_Sym *symbol, const char *name) {
  *(uint64_t *)count += symbol->st_name == 0 && name[0] == 0;
  return true;
}

/* The begin of a file with so many symbols, all zeroes; the rest has no content. */
struct hostile {
  Elf64_Ehdr header;
  Elf64_Shdr section[3];
};

static struct hostile claim(uint64_t symbols) {
  struct hostile file = {
      .header = {.e_shoff = sizeof file.header, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3},
      .section = {{0},
                  {.sh_type = SHT_SYMTAB, .sh_link = 2, .sh_offset = PAGE, .sh_size = symbols * sizeof(Elf64_Sym)},
                  {.sh_type = SHT_STRTAB, .sh_offset = PAGE, .sh_size = 1}}};
  memcpy(file.header.e_ident, ELFMAG, SELFMAG);
  file.header.e_ident[EI_CLASS] = ELFCLASS64;
  return file;
}

static bool read_hostile(const void *file, uint64_t at, void *to, size_t bytes) {
  memset(to, 0, bytes);
  if (at < sizeof(struct hostile))
    memcpy(to, (const char *)file + at, bytes);
  return true;
}

/* A sparse file of any size costs the time of 33 million symbols. A file that is cut reads as zeroes. */
static void check_hostile_files(void) {
  const struct hostile huge = claim(1ull << 40), small = claim(1000);
  const struct elf_memory sparse = {.read = read_hostile, .context = &huge};
  struct elf_memory memory;
  struct elf_file file;
  uint64_t count = 0;
  CHECK(elf_file_read(&sparse, &file));
  elf_file_symbols(&sparse, &file, count_symbol, &count);
  CHECK(count == 1 << 25, "%ju", (uintmax_t)count);
  int fd = memfd_create("cut", MFD_CLOEXEC);
  CHECK(write(fd, &small, sizeof small) == sizeof small && ftruncate(fd, 16 * PAGE) == 0);
  CHECK(elf_map(fd, &memory) && elf_file_read(&memory, &file) && ftruncate(fd, PAGE) == 0);
  count = 0;
  elf_file_symbols(&memory, &file, count_symbol, &count);
  CHECK(count == 1000, "%ju", (uintmax_t)count);
  elf_unmap(&memory);
  close(fd);
}

int main(void) {
  unsigned count = 0;
  elf_guard();
  struct elf_memory library;
  struct elf_file file;
  char id[ELF_BUILD_ID_TEXT];
  CHECK(dl_iterate_phdr(find_library, NULL) == 1);
  int fd = open(library_path, O_RDONLY);
  CHECK(elf_map(fd, &library) && elf_file_read(&library, &file), "%s", library_path);
  elf_file_symbols(&library, &file, check_symbol, &count);
  CHECK(count > 500, "%u", count);
  CHECK(!elf_symbol_find(&loaded, &dynamic, "no_such_function", &(struct elf_symbol){.at = 0}));
  elf_file_build_id(fd, &file, id);
  CHECK(strcmp(id, loaded_id) == 0, "%s %s", id, loaded_id);

  /* The copy ends where memory ends. */
  uint64_t pages = (library.size + PAGE - 1) / PAGE * PAGE, counter = 1;
  uint8_t *memory = mmap(NULL, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED && mprotect(memory + pages, PAGE, PROT_NONE) == 0);
  uint8_t *copy = memory + pages - library.size;
  memcpy(copy, library.bytes, library.size);
  const struct elf_memory damaged = {.bytes = copy, .size = library.size};
  read_all(&damaged);
  for (int i = 0; i < DAMAGES; i++) {
    uint64_t at = place_of_damage(&file, library.size, &counter) % library.size;
    uint8_t was = copy[at];
    copy[at] = (uint8_t)(test_below(&counter, 2) ? 0xff : was ^ 1 << test_below(&counter, 8));
    read_all(&damaged);
    copy[at] = was;
  }
  elf_unmap(&library);
  close(fd);
  check_functions();
  check_hostile_files();
  return 0;
}

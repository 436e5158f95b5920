/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/objects.h"

#include <elf.h>
#include <pub_tool_aspacemgr.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_vki.h>

enum { FUNCTION_LIMIT = 256 };

/* A mapping that holds code of a file. */
struct object {
  Addr start, end; /* end: its last byte */
  ULong offset;    /* of start in the file */
  Bool defines_malloc, is_c_library, is_allocators;
  UInt function_count;
  Addr functions[FUNCTION_LIMIT]; /* of the malloc API */
  struct object *next;
};

static struct object *objects, *last_found;

/* The functions of core/trace/calls.def, and others that programs rarely call. */
static Bool is_of_the_api(const HChar *name) {
  static const HChar *const names[] = {
      "malloc",  "free",     "calloc",    "realloc",     "reallocarray",       "posix_memalign",     "aligned_alloc",
      "valloc",  "pvalloc",  "memalign",  "cfree",       "malloc_usable_size", "free_aligned_sized", "free_sized",
      "mallopt", "mallinfo", "mallinfo2", "malloc_trim", "malloc_stats",       "malloc_info"};
  for (UInt index = 0; index < sizeof names / sizeof *names; index++)
    if (VG_(strcmp)(name, names[index]) == 0)
      return True;
  static const HChar *const operators[] = {"_Znw", "_Zna", "_Zdl", "_Zda"}; /* new, new[], delete, delete[] */
  for (UInt index = 0; index < sizeof operators / sizeof *operators; index++)
    if (VG_(strncmp)(name, operators[index], 4) == 0)
      return True;
  return False;
}

static void note_symbol(void *context, const HChar *name, ULong file_offset) {
  struct object *object = context;
  /* The second is the dynamic linker's, which has a malloc of its own before glibc 2.33. */
  object->is_c_library |= VG_(strcmp)(name, "__libc_start_main") == 0 || VG_(strcmp)(name, "_rtld_global") == 0;
  if (file_offset - object->offset > object->end - object->start || !is_of_the_api(name))
    return;
  object->defines_malloc |= VG_(strcmp)(name, "malloc") == 0;
  if (object->function_count < FUNCTION_LIMIT)
    object->functions[object->function_count++] = object->start + (file_offset - object->offset);
}

static Bool is_the_program(const HChar *path) {
  HChar program[4096];
  VG_(client_fname)(program, sizeof program, True);
  return VG_(strcmp)(path, program) == 0;
}

static struct object *read_object(Addr address) {
  const NSegment *segment = VG_(am_find_nsegment)(address);
  const HChar *path = segment && segment->kind == SkFileC ? VG_(am_get_filename)(segment) : NULL;
  if (!segment)
    return NULL;
  struct object *object = VG_(calloc)("objects.object", 1, sizeof *object);
  object->start = segment->start;
  object->end = segment->end;
  object->offset = (ULong)segment->offset;
  Bool shared;
  if (path && symbols_read(path, note_symbol, object, &shared))
    object->is_allocators = object->defines_malloc && !object->is_c_library && shared && !is_the_program(path);
  object->next = objects;
  return objects = object;
}

static struct object *find_object(Addr address) {
  for (struct object *object = objects; object; object = object->next)
    if (address >= object->start && address <= object->end)
      return object;
  return read_object(address);
}

enum object_code objects_code_at(Addr address) {
  if (!last_found || address < last_found->start || address > last_found->end)
    last_found = find_object(address);
  if (!last_found)
    return CODE_IS_PROGRAMS;
  if (last_found->is_allocators)
    return CODE_IS_ALLOCATORS;
  for (UInt index = 0; index < last_found->function_count; index++)
    if (last_found->functions[index] == address)
      return CODE_IS_API_FUNCTION;
  return CODE_IS_PROGRAMS;
}

void objects_forget(Addr address, SizeT bytes) {
  for (struct object **place = &objects; *place;) {
    struct object *object = *place;
    if (object->start < address + bytes && address <= object->end) {
      *place = object->next;
      VG_(free)(object);
    } else {
      place = &object->next;
    }
  }
  last_found = NULL;
}

enum { LOAD_LIMIT = 16, SECTION_LIMIT = 4096, NAME_BYTES = 64, BATCH = 256 };
static const ULong TABLE_LIMIT = 1ull << 28; /* bytes of names: those of chromium's full table are a tenth of that */

struct elf {
  Int fd;
  Elf64_Ehdr header;
  Elf64_Phdr loads[LOAD_LIMIT];
  UInt load_count;
  symbol_reader *reader;
  void *context;
};

static Bool read_at(Int fd, ULong offset, void *into, ULong bytes) {
  if (VG_(lseek)(fd, (Off64T)offset, VKI_SEEK_SET) != (Off64T)offset)
    return False;
  for (HChar *at = into; bytes > 0;) {
    Int done = VG_(read)(fd, at, bytes > 1 << 20 ? 1 << 20 : (Int)bytes);
    if (done <= 0)
      return False;
    at += done;
    bytes -= (ULong)done;
  }
  return True;
}

static Bool read_header(struct elf *elf) {
  Elf64_Ehdr *header = &elf->header;
  if (!read_at(elf->fd, 0, header, sizeof *header) || VG_(memcmp)(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_phentsize != sizeof(Elf64_Phdr) ||
      header->e_shentsize != sizeof(Elf64_Shdr))
    return False;
  for (UInt index = 0; index < header->e_phnum && elf->load_count < LOAD_LIMIT; index++) {
    Elf64_Phdr *load = &elf->loads[elf->load_count];
    if (!read_at(elf->fd, header->e_phoff + index * sizeof *load, load, sizeof *load))
      return False;
    elf->load_count += load->p_type == PT_LOAD;
  }
  return True;
}

static void report(const struct elf *elf, const Elf64_Sym *symbol, const HChar *names, ULong names_bytes) {
  if (symbol->st_shndx == SHN_UNDEF || symbol->st_name >= names_bytes)
    return;
  for (UInt index = 0; index < elf->load_count; index++) {
    const Elf64_Phdr *load = &elf->loads[index];
    if (symbol->st_value - load->p_vaddr < load->p_filesz) {
      elf->reader(elf->context, names + symbol->st_name, symbol->st_value - load->p_vaddr + load->p_offset);
      return;
    }
  }
}

static void read_table(const struct elf *elf, const Elf64_Shdr *table) {
  Elf64_Shdr strings;
  if (table->sh_link >= elf->header.e_shnum ||
      !read_at(elf->fd, elf->header.e_shoff + table->sh_link * sizeof strings, &strings, sizeof strings) ||
      strings.sh_size == 0 || strings.sh_size > TABLE_LIMIT)
    return;
  HChar *names = VG_(malloc)("symbols.names", strings.sh_size + 1);
  names[strings.sh_size] = '\0';
  Elf64_Sym symbols[BATCH];
  ULong count = read_at(elf->fd, strings.sh_offset, names, strings.sh_size) ? table->sh_size / sizeof *symbols : 0;
  for (ULong first = 0; first < count; first += BATCH) {
    ULong batch = count - first < BATCH ? count - first : BATCH;
    if (!read_at(elf->fd, table->sh_offset + first * sizeof *symbols, symbols, batch * sizeof *symbols))
      break;
    for (ULong index = 0; index < batch; index++)
      report(elf, &symbols[index], names, strings.sh_size);
  }
  VG_(free)(names);
}

Bool symbols_read(const HChar *path, symbol_reader *reader, void *context, Bool *shared) {
  struct elf elf = {.fd = VG_(fd_open)(path, VKI_O_RDONLY, 0), .reader = reader, .context = context};
  if (elf.fd < 0)
    return False;
  Bool readable = read_header(&elf);
  for (UInt index = 0; readable && index < elf.header.e_shnum && index < SECTION_LIMIT; index++) {
    Elf64_Shdr section;
    if (!read_at(elf.fd, elf.header.e_shoff + index * sizeof section, &section, sizeof section))
      break;
    if (section.sh_type == SHT_DYNSYM || section.sh_type == SHT_SYMTAB)
      read_table(&elf, &section);
  }
  VG_(close)(elf.fd);
  *shared = elf.header.e_type == ET_DYN;
  return readable;
}

/* SPDX-License-Identifier: MIT */
/* Reads ELF: files, and objects that are loaded into this process or into another.

   Job: segments, sections, symbols, dynamic sections, references, build ids; of 64 bits, in this machine's byte order.
   Invariants: whatever the content says, nothing outside the given memory is read, and each loop has a limit. Allocates
   nothing, calls nothing, not even the C library; async-signal-safe as far as the memory's reader is. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
enum { ELF_OWN_MACHINE = EM_X86_64 };
#else
enum { ELF_OWN_MACHINE = EM_AARCH64 };
#endif
enum { ELF_SEGMENTS_MOST = 64, ELF_BUILD_ID_MOST = 64 };

/* --- memory --- */

/* What is read: a file, where addresses are offsets in it, or the memory of a process. */
struct elf_memory {
  const uint8_t *bytes; /* of this process; those at the address `from` and behind it */
  uint64_t from, size;
  /* Where this is not NULL, it reads instead of them. False: it can't be read. */
  bool (*read)(const void *context, uint64_t address, void *to, size_t bytes);
  const void *context;
};

/* Returns where that part is in this process; NULL: it is not completely there. */
static inline const void *elf_part(const struct elf_memory *memory, uint64_t address, uint64_t bytes) {
  uint64_t at = address - memory->from;
  return at <= memory->size && bytes <= memory->size - at ? (const void *)((uintptr_t)memory->bytes + at) : NULL;
}

/* --- segments --- */

struct elf_segments {
  const Elf64_Phdr *at;
  size_t count;
  uint64_t bias; /* is added to their addresses; 0: those in the file */
};

/* The first segment of that type; NULL: there is none. */
const Elf64_Phdr *elf_segment(const struct elf_segments *segments, uint32_t type);

/* From the first to behind the last byte that is loaded; to 0: nothing is. */
struct elf_extent {
  uint64_t from, to;
};
static inline struct elf_extent elf_extent(const struct elf_segments *segments) {
  struct elf_extent extent = {UINT64_MAX, 0};
  for (size_t i = 0; i < segments->count; i++) {
    const Elf64_Phdr *segment = &segments->at[i];
    uint64_t from = segments->bias + segment->p_vaddr, to = from + segment->p_memsz;
    if (segment->p_type != PT_LOAD)
      continue;
    extent.from = from < extent.from ? from : extent.from;
    extent.to = to > extent.to ? to : extent.to;
  }
  return extent;
}

/* The build id among notes; NULL: they have none. */
const uint8_t *elf_build_id(const void *notes, size_t note_bytes, uint32_t *id_bytes);

/* The same of an object that is loaded into this process. */
const uint8_t *elf_loaded_build_id(const struct elf_segments *segments, uint32_t *id_bytes);

/* --- a loaded object --- */

/* From its dynamic section: addresses in the process, 0 where it has none. */
struct elf_dynamic {
  uint64_t base;
  uint64_t symbols, names, name_bytes, gnu_hash, versions;
  uint64_t own_name;                            /* DT_SONAME: in names */
  uint64_t relocations[2], relocation_bytes[2]; /* of functions, of the rest */
};

/* address: of the dynamic section. False: it can't be read to its end, or names no symbols. */
bool elf_dynamic_read(const struct elf_memory *memory, uint64_t address, uint64_t base, struct elf_dynamic *dynamic);

/* A symbol, defined there or not. */
struct elf_symbol {
  Elf64_Sym entry;
  uint64_t at;     /* the entry's address */
  bool is_default; /* else only programs that were linked against an old version use it */
};

/* Finds the symbol of that name by the GNU hash table, which all current linkers make: of several the default one.
   name: up to 63 bytes where the memory has a reader. */
bool elf_symbol_find(const struct elf_memory *memory, const struct elf_dynamic *dynamic, const char *name,
                     struct elf_symbol *symbol);

/* The name at that place of the object's names, which are in this process; NULL: it is outside of them. */
const char *elf_name(const struct elf_memory *memory, const struct elf_dynamic *dynamic, uint64_t place);

/* The number of the symbol whose address the relocation puts somewhere unchanged; 0: it does something else. */
uint32_t elf_referred_symbol(const Elf64_Rela *relocation);

/* --- a file --- */

struct elf_file {
  Elf64_Ehdr header;
  Elf64_Phdr segment[ELF_SEGMENTS_MOST];
  struct elf_segments segments; /* the first of them */
};

/* False: no ELF file of 64 bits. Segments that can't be read are left out. */
bool elf_file_read(const struct elf_memory *memory, struct elf_file *file);

/* Where the bytes at an address of the file's are in it. False: they are not completely in it. */
bool elf_file_offset(const struct elf_file *file, uint64_t address, uint64_t bytes, uint64_t *offset);

/* How many bytes the function that begins at that address of the file's has, by the table for exceptions, which a
   stripped file has, too. 0: none begins there, or the table has another form than gcc, clang and their linkers make.
 */
uint64_t elf_file_function_bytes(const struct elf_memory *memory, const struct elf_file *file, uint64_t address);

/* Gives each symbol, of all tables, until false is returned, or 2^25 are visited: twenty times what the largest browser
   has, with the symbols for its debugger. name: to its end, or, where the memory has a reader, the
   first 63 bytes of it; valid until then. */
typedef bool elf_visitor(void *context, const Elf64_Sym *symbol, const char *name);
void elf_file_symbols(const struct elf_memory *memory, const struct elf_file *file, elf_visitor *visit, void *context);

/* SPDX-License-Identifier: MIT */
#include "core/elf/elf.h"

enum { DYNAMIC_MOST = 4096, CHAIN_MOST = 4096, SECTIONS_MOST = 65536, SYMBOLS_MOST = 1 << 25, NAME_BYTES = 64 };

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOBAL_DATA = R_X86_64_GLOB_DAT, ABSOLUTE = R_X86_64_64 };
#else
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOBAL_DATA = R_AARCH64_GLOB_DAT, ABSOLUTE = R_AARCH64_ABS64 };
#endif

static inline __attribute__((always_inline)) bool take(const struct elf_memory *memory, uint64_t address, void *to,
                                                       size_t bytes) {
  if (memory->read)
    return memory->read(memory->context, address, to, bytes);
  const void *part = elf_part(memory, address, bytes);
  if (part)
    __builtin_memcpy(to, part, bytes);
  return part;
}

static bool is_same(const char *one, const char *other) {
  while (*one && *one == *other) {
    one++;
    other++;
  }
  return *one == *other;
}

/* Reads up to the end of the memory, and ends the text. */
static void take_text(const struct elf_memory *memory, uint64_t address, uint64_t end, char text[NAME_BYTES]) {
  uint64_t most = address < end ? end - address : 0;
  size_t bytes = most < NAME_BYTES - 1 ? (size_t)most : NAME_BYTES - 1;
  text[take(memory, address, text, bytes) ? bytes : 0] = '\0';
}

/* --- segments --- */

const Elf64_Phdr *elf_segment(const struct elf_segments *segments, uint32_t type) {
  for (size_t i = 0; i < segments->count; i++)
    if (segments->at[i].p_type == type)
      return &segments->at[i];
  return NULL;
}

static uint64_t padded(uint32_t bytes) {
  return ((uint64_t)bytes + 3) & ~(uint64_t)3;
}

const uint8_t *elf_build_id(const void *notes, size_t note_bytes, uint32_t *id_bytes) {
  const struct elf_memory memory = {.bytes = notes, .size = note_bytes};
  Elf64_Nhdr note;
  uint32_t owner;
  for (uint64_t at = 0; take(&memory, at, &note, sizeof note);) {
    uint64_t name = at + sizeof note, id = name + padded(note.n_namesz);
    bool is_gnu = note.n_namesz == sizeof "GNU" && take(&memory, name, &owner, sizeof owner) &&
                  owner == ('G' | 'N' << 8 | 'U' << 16);
    if (is_gnu && note.n_type == NT_GNU_BUILD_ID && note.n_descsz && note.n_descsz <= ELF_BUILD_ID_MOST) {
      *id_bytes = note.n_descsz;
      return elf_part(&memory, id, note.n_descsz);
    }
    at = id + padded(note.n_descsz);
  }
  return NULL;
}

const uint8_t *elf_loaded_build_id(const struct elf_segments *segments, uint32_t *id_bytes) {
  const uint8_t *id = NULL;
  for (size_t i = 0; i < segments->count && !id; i++) {
    const Elf64_Phdr *segment = &segments->at[i];
    if (segment->p_type == PT_NOTE)
      id = elf_build_id((const void *)(uintptr_t)(segments->bias + segment->p_vaddr), segment->p_memsz, id_bytes);
  }
  return id;
}

/* --- a loaded object --- */

bool elf_dynamic_read(const struct elf_memory *memory, uint64_t address, uint64_t base, struct elf_dynamic *dynamic) {
  Elf64_Dyn entry;
  *dynamic = (struct elf_dynamic){.base = base};
  for (int i = 0; i < DYNAMIC_MOST && take(memory, address, &entry, sizeof entry); i++, address += sizeof entry) {
    /* glibc's loader has added the base, musl's has not; nor has glibc's to those of the kernel's object. */
    uint64_t value = entry.d_un.d_val, pointer = value < base ? base + value : value;
    switch (entry.d_tag) {
    case DT_NULL:
      return dynamic->symbols && dynamic->names;
    case DT_SYMTAB:
      dynamic->symbols = pointer;
      break;
    case DT_STRTAB:
      dynamic->names = pointer;
      break;
    case DT_STRSZ:
      dynamic->name_bytes = value;
      break;
    case DT_SONAME:
      dynamic->own_name = value;
      break;
    case DT_GNU_HASH:
      dynamic->gnu_hash = pointer;
      break;
    case DT_VERSYM:
      dynamic->versions = pointer;
      break;
    case DT_JMPREL:
    case DT_RELA:
      dynamic->relocations[entry.d_tag == DT_RELA] = pointer;
      break;
    case DT_PLTRELSZ:
    case DT_RELASZ:
      dynamic->relocation_bytes[entry.d_tag == DT_RELASZ] = value;
    }
  }
  return false;
}

const char *elf_name(const struct elf_memory *memory, const struct elf_dynamic *dynamic, uint64_t place) {
  const char *names = elf_part(memory, dynamic->names, dynamic->name_bytes);
  return names && place < dynamic->name_bytes && !names[dynamic->name_bytes - 1] ? names + place : NULL;
}

static bool has_name(const struct elf_memory *memory, const struct elf_dynamic *dynamic, uint64_t place,
                     const char *name) {
  char text[NAME_BYTES];
  if (!memory->read) {
    const char *its = elf_name(memory, dynamic, place);
    return its && is_same(its, name);
  }
  take_text(memory, dynamic->names + place, dynamic->names + dynamic->name_bytes, text);
  return is_same(text, name);
}

static bool is_hidden(const struct elf_memory *memory, const struct elf_dynamic *dynamic, uint32_t index) {
  enum { HIDDEN = 0x8000 };
  uint16_t version;
  return dynamic->versions && take(memory, dynamic->versions + index * sizeof version, &version, sizeof version) &&
         (version & HIDDEN);
}

static uint32_t gnu_hash(const char *name) {
  uint32_t hash = 5381;
  for (; *name; name++)
    hash = hash * 33 + (unsigned char)*name;
  return hash;
}

bool elf_symbol_find(const struct elf_memory *memory, const struct elf_dynamic *dynamic, const char *name,
                     struct elf_symbol *symbol) {
  struct { /* then: words of the filter, of 8 bytes; buckets, and chains, of 4 bytes */
    uint32_t buckets, first_symbol, filter_words, shift;
  } head;
  uint32_t name_hash = gnu_hash(name), index, hash = 0;
  bool found = false;
  if (!dynamic->gnu_hash || !take(memory, dynamic->gnu_hash, &head, sizeof head) || !head.buckets)
    return false;
  uint64_t buckets = dynamic->gnu_hash + sizeof head + (uint64_t)head.filter_words * 8;
  uint64_t chains = buckets + (uint64_t)head.buckets * 4;
  if (!take(memory, buckets + (uint64_t)(name_hash % head.buckets) * 4, &index, sizeof index) || index == 0 ||
      index < head.first_symbol)
    return false;
  for (int i = 0; i < CHAIN_MOST && !(hash & 1); i++, index++) {
    struct elf_symbol its = {.at = dynamic->symbols + (uint64_t)index * sizeof its.entry};
    if (!take(memory, chains + (uint64_t)(index - head.first_symbol) * 4, &hash, sizeof hash))
      break;
    if ((hash | 1) != (name_hash | 1) || !take(memory, its.at, &its.entry, sizeof its.entry) ||
        !has_name(memory, dynamic, its.entry.st_name, name))
      continue;
    its.is_default = !is_hidden(memory, dynamic, index);
    *symbol = its;
    found = true;
    if (its.is_default)
      break;
  }
  return found;
}

uint32_t elf_referred_symbol(const Elf64_Rela *relocation) {
  uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
  bool is_reference = (type == JUMP_SLOT || type == GLOBAL_DATA || type == ABSOLUTE) && !relocation->r_addend;
  return is_reference ? (uint32_t)ELF64_R_SYM(relocation->r_info) : 0;
}

/* --- a file --- */

bool elf_file_read(const struct elf_memory *memory, struct elf_file *file) {
  static const uint8_t MAGIC[] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64};
  Elf64_Ehdr *header = &file->header;
  file->segments = (struct elf_segments){.at = file->segment};
  if (!take(memory, 0, header, sizeof *header))
    return false;
  for (size_t i = 0; i < sizeof MAGIC; i++)
    if (header->e_ident[i] != MAGIC[i])
      return false;
  for (size_t *count = &file->segments.count; *count < header->e_phnum && *count < ELF_SEGMENTS_MOST; ++*count)
    if (!take(memory, header->e_phoff + (uint64_t)*count * header->e_phentsize, &file->segment[*count],
              sizeof *file->segment))
      break;
  return true;
}

bool elf_file_offset(const struct elf_file *file, uint64_t address, uint64_t bytes, uint64_t *offset) {
  for (size_t i = 0; i < file->segments.count; i++) {
    const Elf64_Phdr *segment = &file->segment[i];
    uint64_t at = address - segment->p_vaddr;
    if (segment->p_type != PT_LOAD || at >= segment->p_filesz || bytes > segment->p_filesz - at)
      continue;
    *offset = segment->p_offset + at;
    return true;
  }
  return false;
}

/* The head of .eh_frame_hdr, and an entry of its table, sorted by function; distances are from the head's address. */
struct frames_head {
  uint8_t version, frames_form, count_form, table_form;
  int32_t frames;
  uint32_t count;
};
struct frames_entry {
  int32_t function, frame;
};
/* The begin of a function's frames in .eh_frame; function: a distance from itself. */
struct frame {
  uint32_t bytes, common;
  int32_t function;
  uint32_t function_bytes;
};
enum { FORM_UDATA4 = 0x03, FORM_DATAREL_SDATA4 = 0x3b };

static bool take_file(const struct elf_memory *memory, const struct elf_file *file, uint64_t address, void *to,
                      size_t bytes) {
  uint64_t offset;
  return elf_file_offset(file, address, bytes, &offset) && take(memory, offset, to, bytes);
}

uint64_t elf_file_function_bytes(const struct elf_memory *memory, const struct elf_file *file, uint64_t address) {
  const Elf64_Phdr *segment = elf_segment(&file->segments, PT_GNU_EH_FRAME);
  struct frames_head head;
  struct frames_entry entry;
  struct frame frame;
  if (!segment || !take_file(memory, file, segment->p_vaddr, &head, sizeof head) || head.version != 1 ||
      head.count_form != FORM_UDATA4 || head.table_form != FORM_DATAREL_SDATA4)
    return 0;
  uint64_t base = segment->p_vaddr, table = base + sizeof head;
  for (uint32_t from = 0, to = head.count; from < to;) {
    uint32_t middle = from + (to - from) / 2;
    if (!take_file(memory, file, table + (uint64_t)middle * sizeof entry, &entry, sizeof entry))
      return 0;
    uint64_t function = base + (uint64_t)(int64_t)entry.function, at = base + (uint64_t)(int64_t)entry.frame;
    if (function == address) {
      bool found = take_file(memory, file, at, &frame, sizeof frame) &&
                   at + offsetof(struct frame, function) + (uint64_t)(int64_t)frame.function == address;
      return found ? frame.function_bytes : 0;
    }
    if (function < address)
      from = middle + 1;
    else
      to = middle;
  }
  return 0;
}

static bool read_section(const struct elf_memory *memory, const Elf64_Ehdr *header, uint32_t number,
                         Elf64_Shdr *section) {
  return number < header->e_shnum && header->e_shentsize == sizeof *section &&
         take(memory, header->e_shoff + (uint64_t)number * sizeof *section, section, sizeof *section);
}

struct visit {
  elf_visitor *take;
  void *context;
  uint64_t left; /* symbols */
};

/* Ends where the visitor wants no more, or had enough; then false. */
static bool visit_table(const struct elf_memory *memory, const Elf64_Shdr *table, const Elf64_Shdr *names,
                        struct visit *visit) {
  Elf64_Sym symbol;
  char text[NAME_BYTES];
  const char *all = memory->read ? NULL : elf_part(memory, names->sh_offset, names->sh_size);
  if (names->sh_size == 0 || (!memory->read && (!all || all[names->sh_size - 1])))
    return true;
  for (uint64_t i = 0; i < table->sh_size / sizeof symbol; i++) {
    if (visit->left-- == 0)
      return false;
    if (!take(memory, table->sh_offset + i * sizeof symbol, &symbol, sizeof symbol))
      return true;
    if (symbol.st_name >= names->sh_size)
      continue;
    if (!all)
      take_text(memory, names->sh_offset + symbol.st_name, names->sh_offset + names->sh_size, text);
    if (!visit->take(visit->context, &symbol, all ? all + symbol.st_name : text))
      return false;
  }
  return true;
}

void elf_file_symbols(const struct elf_memory *memory, const struct elf_file *file, elf_visitor *visit, void *context) {
  Elf64_Shdr table, names;
  struct visit state = {visit, context, SYMBOLS_MOST};
  bool more = true;
  for (uint32_t i = 0; more && i < SECTIONS_MOST && read_section(memory, &file->header, i, &table); i++)
    if ((table.sh_type == SHT_SYMTAB || table.sh_type == SHT_DYNSYM) &&
        read_section(memory, &file->header, table.sh_link, &names))
      more = visit_table(memory, &table, &names, &state);
}

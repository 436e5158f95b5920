/* SPDX-License-Identifier: MIT */
#include "capture/attach/tracee/objects.h"

#include "capture/attach/tracee/tracee.h"
#include "core/base/os.h"

#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Limits for values that are read from the process. Each object is asked for each function: 65,536 took minutes. */
enum { OBJECTS_MAX = 8192, DYNAMIC_MAX = 4096 };
static const uint64_t TABLES_BYTES_MAX = (uint64_t)1 << 30; /* of all objects */

static bool read_process(const void *tracee, uint64_t address, void *to, size_t bytes) {
  return tracee_read(tracee, address, to, bytes);
}

static struct elf_memory memory_of(const struct tracee *tracee) {
  return (struct elf_memory){.read = read_process, .context = tracee};
}

/* The first mapping that has one of these addresses. */
static bool first_area(const struct tracee *tracee, uint64_t from, uint64_t to, struct proc_mapping *area) {
  bool found = false;
  FILE *maps = proc_open_maps(tracee->pid);
  while (maps && !found && proc_maps_next(maps, area))
    found = from < area->end && to > area->start;
  if (maps)
    fclose(maps);
  return found;
}

bool area_of(const struct tracee *tracee, uint64_t address, struct proc_mapping *area) {
  return first_area(tracee, address, address + 1, area);
}

bool area_is_free(const struct tracee *tracee, uint64_t from, uint64_t to) {
  struct proc_mapping area;
  return !first_area(tracee, from, to, &area);
}

/* One word of the auxiliary vector; 0: it is not in it. */
static uint64_t auxiliary(const struct tracee *tracee, uint64_t type) {
  char path[TRACEE_PATH_BYTES];
  tracee_proc_path(tracee->pid, "auxv", path);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  uint64_t value = proc_auxiliary(fd, type);
  os_close(fd);
  return value;
}

uint64_t objects_entry(const struct tracee *tracee) {
  return auxiliary(tracee, AT_ENTRY);
}

static uint64_t find_dynamic(const struct tracee *tracee) {
  uint64_t at = auxiliary(tracee, AT_PHDR), count = auxiliary(tracee, AT_PHNUM);
  Elf64_Phdr header[ELF_SEGMENTS_MOST];
  if (!at || !count || count > ELF_SEGMENTS_MOST || !tracee_read(tracee, at, header, count * sizeof *header))
    return 0;
  const struct elf_segments segments = {.at = header, .count = count};
  const Elf64_Phdr *own = elf_segment(&segments, PT_PHDR), *dynamic = elf_segment(&segments, PT_DYNAMIC);
  return dynamic ? (own ? at - own->p_vaddr : 0) + dynamic->p_vaddr : 0;
}

static uint64_t find_list(const struct tracee *tracee, uint64_t dynamic) {
  Elf64_Dyn entry;
  for (int i = 0; i < DYNAMIC_MAX && tracee_read(tracee, dynamic + (uint64_t)i * sizeof entry, &entry, sizeof entry) &&
                  entry.d_tag != DT_NULL;
       i++)
    if (entry.d_tag == DT_DEBUG)
      return entry.d_un.d_ptr;
  return 0;
}

static void read_string(const struct tracee *tracee, uint64_t address, char *to, size_t bytes) {
  ssize_t got = pread(tracee->memory_fd, to, bytes - 1, (off_t)address);
  to[got > 0 ? got : 0] = '\0';
}

/* The mappings of one file follow one another. */
bool object_extent(const struct tracee *tracee, uint64_t inside, struct proc_mapping *extent) {
  struct proc_mapping next;
  if (!area_of(tracee, inside, extent))
    return false;
  while (area_of(tracee, extent->start - 1, &next) && strcmp(next.path, extent->path) == 0)
    extent->start = next.start;
  while (area_of(tracee, extent->end, &next) && strcmp(next.path, extent->path) == 0)
    extent->end = next.end;
  return true;
}

static bool add(struct objects *objects, const struct tracee *tracee, const struct link_map *map) {
  const struct elf_memory memory = memory_of(tracee);
  struct object object = {.is_executable = objects->all.count == 0};
  read_string(tracee, (uint64_t)map->l_name, object.path, sizeof object.path);
  if (!elf_dynamic_read(&memory, (uint64_t)map->l_ld, map->l_addr, &object.dynamic) ||
      strncmp(object.path, "linux-vdso", 10) == 0)
    return true;
  if (strncmp(object.path, OBJECT_LENT, strlen(OBJECT_LENT)) == 0)
    read_string(tracee, object.dynamic.names + object.dynamic.own_name, object.path, sizeof object.path);
  object.is_loader = (uint64_t)map->l_ld >= objects->loader_from && (uint64_t)map->l_ld < objects->loader_to;
  struct object *added = vector_add(&objects->all);
  if (!added)
    return false;
  *added = object;
  return true;
}

static void find_loader(struct objects *objects, const struct tracee *tracee) {
  struct proc_mapping extent;
  if (!object_extent(tracee, auxiliary(tracee, AT_BASE), &extent))
    return;
  objects->loader_from = extent.start;
  objects->loader_to = extent.end;
}

int objects_read(struct objects *objects, const struct tracee *tracee, struct error *error) {
  struct r_debug list;
  struct link_map map;
  *objects = (struct objects){.list = 0};
  uint64_t dynamic = find_dynamic(tracee);
  objects->list = dynamic ? find_list(tracee, dynamic) : 0;
  find_loader(objects, tracee);
  if (!objects->list || !tracee_read(tracee, objects->list, &list, sizeof list))
    return error_set(error, "--attach", "the program has no dynamic linker's list of objects: statically linked?");
  uint64_t at = (uint64_t)list.r_map;
  for (int i = 0; at && tracee_read(tracee, at, &map, sizeof map); i++) {
    if (i == OBJECTS_MAX)
      return error_set(error, "--attach", "the program's list of objects has more than %d, or no end", OBJECTS_MAX);
    if (!add(objects, tracee, &map))
      return error_set(error, "--attach", "out of memory");
    at = (uint64_t)map.l_next;
  }
  return 0;
}

void objects_free(struct objects *objects) {
  free(objects->all.at);
  *objects = (struct objects){.list = 0};
}

bool objects_are_settled(const struct objects *objects, const struct tracee *tracee) {
  struct r_debug list;
  struct link_map map;
  if (!tracee_read(tracee, objects->list, &list, sizeof list) || list.r_state != RT_CONSISTENT)
    return false;
  size_t seen = 0, known = 0;
  for (uint64_t at = (uint64_t)list.r_map; at && tracee_read(tracee, at, &map, sizeof map) && seen < OBJECTS_MAX;
       at = (uint64_t)map.l_next, seen++)
    known += known < objects->all.count && objects->all.at[known].dynamic.base == map.l_addr;
  return known == objects->all.count && seen <= known + 1; /* the kernel's object is left out */
}

const char *object_name(const struct object *object) {
  return basename(object->path);
}

const struct object *objects_find(const struct objects *objects, const char *name) {
  for (size_t i = 0; i < objects->all.count; i++)
    if (strcmp(object_name(&objects->all.at[i]), name) == 0)
      return &objects->all.at[i];
  return NULL;
}

const struct object *objects_loader(const struct objects *objects) {
  for (size_t i = 0; i < objects->all.count; i++)
    if (objects->all.at[i].is_loader)
      return &objects->all.at[i];
  return NULL;
}

bool object_symbol(const struct object *object, const struct tracee *tracee, const char *name, struct symbol *symbol) {
  const struct elf_memory memory = memory_of(tracee);
  struct elf_symbol found;
  if (!elf_symbol_find(&memory, &object->dynamic, name, &found) || !found.is_default ||
      found.entry.st_shndx == SHN_UNDEF || !found.entry.st_value || ELF64_ST_TYPE(found.entry.st_info) == STT_GNU_IFUNC)
    return false;
  *symbol = (struct symbol){object->dynamic.base + found.entry.st_value, found.entry.st_size,
                            found.at + offsetof(Elf64_Sym, st_value)};
  return true;
}

/* left: bytes that may still be read; updated. */
static void *read_table(const struct tracee *tracee, uint64_t address, uint64_t bytes, uint64_t *left) {
  void *table = bytes && bytes <= *left ? malloc(bytes) : NULL;
  *left -= table ? bytes : 0;
  if (table && !tracee_read(tracee, address, table, bytes)) {
    free(table);
    return NULL;
  }
  return table;
}

uint64_t objects_syscall_instruction(const struct objects *objects, const struct tracee *tracee) {
  unsigned char code[32];
  struct symbol symbol;
  const struct object *libc = objects_find(objects, "libc.so.6");
  if (!libc || !object_symbol(libc, tracee, "getppid", &symbol) ||
      !tracee_read(tracee, symbol.address, code, sizeof code))
    return 0;
  const unsigned char *found = memmem(code, sizeof code, "\x0f\x05", 2);
  return found ? symbol.address + (uint64_t)(found - code) : 0;
}

/* Adds a reference if it is by one of the names. False: no memory. */
static bool add_reference(struct references *references, const struct names *names, const char *name,
                          uint64_t address) {
  for (uint32_t i = 0; i < names->count; i++) {
    if (strcmp(names->at[i], name) != 0)
      continue;
    struct reference *reference = vector_add(&references->all);
    if (reference)
      *reference = (struct reference){address, i};
    return reference != NULL;
  }
  return true;
}

/* Takes the references of an object, bound or not, as far as they can be read. False: no memory. */
static bool take_references(struct references *references, const struct names *names, const struct elf_dynamic *object,
                            const struct tracee *tracee, uint64_t *left) {
  /* Linkers put the names behind the symbols, whose length is not stored. */
  uint64_t symbol_bytes = object->names > object->symbols ? object->names - object->symbols : 0;
  Elf64_Sym *symbol = read_table(tracee, object->symbols, symbol_bytes, left);
  uint8_t *texts = read_table(tracee, object->names, object->name_bytes, left);
  const struct elf_memory memory = {.bytes = texts, .from = object->names, .size = object->name_bytes};
  bool whole = symbol && texts, taken = true;
  for (int table = 0; table < 2 && whole; table++) {
    uint64_t bytes = object->relocation_bytes[table];
    Elf64_Rela *relocation = read_table(tracee, object->relocations[table], bytes, left);
    for (uint64_t i = 0; relocation && i < bytes / sizeof *relocation; i++) {
      uint32_t number = elf_referred_symbol(&relocation[i]);
      bool known = number && number < symbol_bytes / sizeof *symbol;
      const char *name = known ? elf_name(&memory, object, symbol[number].st_name) : NULL;
      if (name)
        taken &= add_reference(references, names, name, object->base + relocation[i].r_offset);
    }
    whole = relocation != NULL || bytes == 0;
    free(relocation);
  }
  free(symbol);
  free(texts);
  return taken;
}

int references_read(struct references *references, const struct objects *objects, const struct tracee *tracee,
                    const struct names *names, const struct object *except) {
  *references = (struct references){.objects = 0};
  uint64_t left = TABLES_BYTES_MAX;
  bool taken = true;
  for (size_t i = 0; i < objects->all.count; i++) {
    const struct object *object = &objects->all.at[i];
    size_t before = references->all.count;
    if (object->is_loader || object == except)
      continue;
    taken &= take_references(references, names, &object->dynamic, tracee, &left);
    references->objects += references->all.count > before;
  }
  return taken ? 0 : -1;
}

void references_free(struct references *references) {
  free(references->all.at);
  *references = (struct references){.objects = 0};
}

const struct object *definer_of(const struct objects *objects, const struct tracee *tracee, const char *name,
                                struct symbol *symbol) {
  for (size_t i = 0; i < objects->all.count; i++)
    if (object_symbol(&objects->all.at[i], tracee, name, symbol))
      return &objects->all.at[i];
  return NULL;
}

/* Does a call instruction end there: direct, or by a register or memory, with all lengths that it may have? */
static bool is_behind_call(const struct tracee *tracee, uint64_t address) {
  enum { LONGEST = 7 };
  unsigned char before[LONGEST];
  if (!tracee_read(tracee, address - LONGEST, before, LONGEST))
    return true;
  if (before[LONGEST - 5] == 0xe8)
    return true;
  for (int length = 2; length <= LONGEST; length++)
    if (before[LONGEST - length] == 0xff && (before[LONGEST - length + 1] >> 3 & 7) == 2)
      return true;
  return false;
}

/* Words of x86-64's struct rt_sigframe, which the kernel puts on the stack for a signal handler. */
enum { FRAME_LINK = 2, FRAME_STACK = 21, FRAME_FLAGS = 23, FRAME_SEGMENTS = 24, FRAME_WORDS };

/* Does such a frame begin there? The handler's return address alone is not enough: sigaction(3) leaves it behind, too,
   and a function that is still running may have room there that it has not written to. */
static bool is_signal_frame(const uint64_t *word) {
  enum { ALWAYS_SET = 2, UNUSED_FROM = 22, SEGMENT_MASK = 0xffff, CODE_SEGMENT = 0x33 };
  return !word[FRAME_LINK] && (word[FRAME_FLAGS] & ALWAYS_SET) && word[FRAME_FLAGS] >> UNUSED_FROM == 0 &&
         (word[FRAME_SEGMENTS] & SEGMENT_MASK) == CODE_SEGMENT;
}

static const struct code_range *range_of(uint64_t address, const struct code_range *ranges, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (address - ranges[i].from < ranges[i].to - ranges[i].from)
      return &ranges[i];
  return NULL;
}

static struct code_range span_of(const struct code_range *ranges, size_t count) {
  struct code_range span = {.from = UINT64_MAX};
  for (size_t i = 0; i < count; i++) {
    span.from = ranges[i].from < span.from ? ranges[i].from : span.from;
    span.to = ranges[i].to > span.to ? ranges[i].to : span.to;
  }
  return span;
}

/* word: and those behind it, of which a frame's are known unless the stack ends before. */
static bool counts(const struct tracee *tracee, const uint64_t *word, size_t known, const struct code_range *range) {
  switch (range->counts) {
  case COUNTS_BEHIND_CALL:
    return is_behind_call(tracee, *word);
  case COUNTS_AT_FRAME:
    return known >= FRAME_WORDS && is_signal_frame(word);
  default:
    return true;
  }
}

/* *interrupted: the stack on which a signal has come whose handler runs on this one; 0: it has none. */
static bool part_holds(const struct tracee *tracee, struct stack_part stack, const struct code_range *ranges,
                       size_t count, uint64_t *interrupted) {
  enum { WORDS = 4096, OVERLAP_BYTES = FRAME_WORDS * 8 };
  static const uint64_t most = (uint64_t)64 << 20;
  struct proc_mapping area;
  uint64_t word[WORDS], from = stack.from & ~(uint64_t)7;
  const struct code_range span = span_of(ranges, count);
  *interrupted = 0;
  if (!area_of(tracee, from, &area))
    return true;
  uint64_t end = stack.end > from && stack.end < area.end ? stack.end : area.end;
  if (end - from > most)
    return true;
  for (uint64_t at = from; at < end; at += sizeof word - OVERLAP_BYTES) {
    uint64_t bytes = end - at < sizeof word ? end - at : sizeof word;
    if (!tracee_read(tracee, at, word, bytes))
      return true;
    for (size_t i = 0, words = bytes / sizeof *word; i < words; i++) {
      if (words - i >= FRAME_WORDS && is_signal_frame(&word[i]) && word[i + FRAME_STACK] - from >= end - from)
        *interrupted = word[i + FRAME_STACK];
      if (word[i] - span.from >= span.to - span.from)
        continue;
      const struct code_range *range = range_of(word[i], ranges, count);
      if (range && counts(tracee, &word[i], words - i, range))
        return true;
    }
  }
  return false;
}

bool stack_holds(const struct tracee *tracee, struct stack_part stack, const struct code_range *ranges, size_t count) {
  uint64_t ignored;
  return part_holds(tracee, stack, ranges, count, &ignored);
}

bool thread_is_inside(const struct tracee *tracee, const struct tracee_thread *thread, const struct code_range *ranges,
                      size_t count) {
  enum { STACKS = 8, RED_ZONE_BYTES = 128 };
  struct tracee_registers registers;
  if (!tracee_registers(thread, &registers) || range_of(registers.instruction, ranges, count))
    return true;
  uint64_t from = registers.stack;
  for (int i = 0; i < STACKS; i++) {
    uint64_t interrupted;
    if (part_holds(tracee, (struct stack_part){from, registers.thread_pointer}, ranges, count, &interrupted))
      return true;
    if (!interrupted)
      return false;
    from = interrupted - RED_ZONE_BYTES;
  }
  return true;
}

/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/modules.h"

#include "core/base/os.h"
#include "core/base/vector.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOTES_MAX_BYTES = 1 << 16, HEADERS_MAX = 256 };

/* The GNU build id among the notes. */
static bool find_build_id(const uint8_t *notes, size_t bytes, char *id) {
  size_t at = 0;
  while (bytes - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    memcpy(&note, notes + at, sizeof note);
    size_t name = at + sizeof note, desc = name + (((size_t)note.n_namesz + 3) & ~(size_t)3);
    size_t next = desc + (((size_t)note.n_descsz + 3) & ~(size_t)3);
    if (desc > bytes || next > bytes || next <= at)
      return false;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0 &&
        note.n_descsz > 0 && note.n_descsz <= TRACE_MAX_BUILD_ID_BYTES) {
      for (uint32_t i = 0; i < note.n_descsz; i++)
        snprintf(id + 2 * (size_t)i, 3, "%02x", notes[desc + i]);
      return true;
    }
    at = next;
  }
  return false;
}

static bool read_note(int fd, const Elf64_Phdr *header, char *id) {
  if (header->p_filesz > NOTES_MAX_BYTES)
    return false;
  uint8_t *notes = malloc(header->p_filesz + 1);
  bool found = notes && os_pread_all(fd, notes, header->p_filesz, header->p_offset) == 0 &&
               find_build_id(notes, header->p_filesz, id);
  free(notes);
  return found;
}

/* The build id of the ELF file as hexadecimal digits, and the address of its first byte according to its own headers.
   id has room for 2 * TRACE_MAX_BUILD_ID_BYTES + 1. False: it is not an ELF file, or has no build id (id is empty
   then). */
static bool read_elf(int fd, char *id, uint64_t *first_address) {
  Elf64_Ehdr file;
  id[0] = '\0';
  *first_address = 0;
  if (os_pread_all(fd, &file, sizeof file, 0) != 0 || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
      file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_phentsize != sizeof(Elf64_Phdr))
    return false;
  bool found = false, loaded = false;
  for (int i = 0; i < file.e_phnum && i < HEADERS_MAX; i++) {
    Elf64_Phdr header;
    if (os_pread_all(fd, &header, sizeof header, file.e_phoff + (uint64_t)i * sizeof header) != 0)
      break;
    if (header.p_type == PT_LOAD && !loaded) {
      *first_address = header.p_vaddr - header.p_offset;
      loaded = true;
    }
    if (header.p_type == PT_NOTE && !found)
      found = read_note(fd, &header, id);
  }
  return found;
}

/* Opens the process's file at that path, else the recorder's. */
static int open_file(int pid, const char *path) {
  char inside[4096 + 64];
  snprintf(inside, sizeof inside, "/proc/%d/root%s", pid, path);
  int fd = open(inside, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  return fd >= 0 ? fd : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* One line of maps. */
struct mapping {
  uint64_t start, end, offset, device, inode;
  bool runs;
  char path[4096];
};

static bool read_mapping(FILE *maps, struct mapping *mapping) {
  char *line = NULL, permissions[8];
  size_t room = 0;
  unsigned major, minor;
  int path_at = 0;
  bool read = getline(&line, &room, maps) > 0 &&
              sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %n", &mapping->start,
                     &mapping->end, permissions, &mapping->offset, &major, &minor, &mapping->inode, &path_at) == 7;
  if (read) {
    mapping->device = (uint64_t)major << 32 | minor;
    mapping->runs = permissions[2] == 'x';
    line[strcspn(line, "\n")] = '\0';
    snprintf(mapping->path, sizeof mapping->path, "%s", line + path_at);
    char *deleted = strstr(mapping->path, " (deleted)");
    if (deleted && !deleted[10])
      *deleted = '\0';
  }
  free(line);
  return read;
}

static struct module *add(struct modules *modules) {
  struct module *module = vector_add(modules);
  if (module)
    *module = (struct module){0};
  return module;
}

/* Successive mappings of one file, the first of them from its start, are one module; without code they are not a
   module. */
static bool read_modules(struct modules *found, int pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  FILE *maps = fopen(path, "re");
  if (!maps)
    return false;
  struct mapping mapping;
  struct module *last = NULL;
  bool runs = false;
  while (read_mapping(maps, &mapping)) {
    bool vdso = strcmp(mapping.path, "[vdso]") == 0;
    bool goes_on = last && !vdso && mapping.inode && last->inode == mapping.inode && last->device == mapping.device &&
                   mapping.offset > 0;
    if (goes_on) {
      last->record.end = mapping.end;
      runs |= mapping.runs;
      continue;
    }
    if (last && !runs && last == &found->at[found->count - 1])
      trace_module_free_texts(&found->at[--found->count].record);
    if (mapping.inode == 0 && !vdso) /* anonymous memory between two parts of a module does not end the module */
      continue;
    last = add(found);
    if (!last)
      break;
    runs = mapping.runs;
    last->device = mapping.device;
    last->inode = mapping.inode;
    last->record = (struct trace_module){.path = strdup(mapping.path),
                                         .start = mapping.start,
                                         .end = mapping.end,
                                         .bias = mapping.start - mapping.offset};
    if (vdso)
      last = NULL;
  }
  if (last && !runs && last == &found->at[found->count - 1])
    trace_module_free_texts(&found->at[--found->count].record);
  fclose(maps);
  return true;
}

static bool is_same(const struct module *a, const struct module *b) {
  return a->record.start == b->record.start && a->device == b->device && a->inode == b->inode;
}

/* Base name, build id and bias of a module that is new. */
static void describe(struct module *module, int pid) {
  char id[2 * TRACE_MAX_BUILD_ID_BYTES + 1] = "";
  const char *slash = strrchr(module->record.path ? module->record.path : "", '/');
  module->record.name = strdup(slash ? slash + 1 : module->record.path ? module->record.path : "");
  int fd = slash ? open_file(pid, module->record.path) : -1;
  if (fd < 0)
    return;
  uint64_t first_address;
  if (read_elf(fd, id, &first_address))
    module->record.build_id = strdup(id);
  module->record.bias -= first_address;
  close(fd);
}

static int by_start(const void *left, const void *right) {
  const struct module *a = left, *b = right;
  return COMPARE(a->record.start, b->record.start);
}

/* Keeps modules that are no longer mapped and whose addresses no other module has, so that a module that is mapped
   there later is known to replace them. */
static void keep_gone(struct modules *found, struct modules *before) {
  size_t count = found->count, now = 0;
  for (size_t old = 0; old < before->count; old++) {
    struct module *module = &before->at[old];
    while (now < count && found->at[now].record.end <= module->record.start)
      now++;
    if (now < count && found->at[now].record.start < module->record.end)
      continue;
    struct module *kept = add(found);
    if (!kept)
      return;
    *kept = *module;
    kept->gone = true;
    kept->is_new = false;
    module->record = (struct trace_module){0};
  }
  qsort(found->at, found->count, sizeof *found->at, by_start);
}

enum modules_change modules_look(struct modules *modules, int pid) {
  struct modules found = {0};
  enum modules_change change = MODULES_SAME;
  if (!read_modules(&found, pid) || found.count == 0) {
    modules_free(&found);
    return MODULES_SAME;
  }
  for (size_t i = 0, old = 0; i < found.count; i++) {
    struct module *now = &found.at[i];
    while (old < modules->count && modules->at[old].record.end <= now->record.start)
      old++;
    if (old < modules->count && is_same(&modules->at[old], now)) {
      uint64_t end = now->record.end;
      trace_module_free_texts(&now->record);
      *now = modules->at[old];
      now->record.end = end;
      now->is_new = now->gone = false;
      modules->at[old].record = (struct trace_module){.start = now->record.start, .end = now->record.end};
      continue;
    }
    bool replaces = old < modules->count && modules->at[old].record.start < now->record.end;
    describe(now, pid);
    now->is_new = true;
    if (replaces)
      change = MODULES_REPLACED;
    else if (change == MODULES_SAME)
      change = MODULES_MORE;
  }
  keep_gone(&found, modules);
  modules_free(modules);
  *modules = found;
  return change;
}

void modules_visit_new(const struct modules *modules, void (*visit)(void *context, const struct trace_module *module),
                       void *context) {
  for (size_t i = 0; i < modules->count; i++)
    if (modules->at[i].is_new)
      visit(context, &modules->at[i].record);
}

void modules_visit_mapped(const struct modules *modules,
                          void (*visit)(void *context, const struct trace_module *module), void *context) {
  for (size_t i = 0; i < modules->count; i++)
    if (!modules->at[i].gone)
      visit(context, &modules->at[i].record);
}

bool modules_have(const struct modules *modules, uint64_t address) {
  size_t low = 0, high = modules->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (address < modules->at[middle].record.start)
      high = middle;
    else if (address >= modules->at[middle].record.end)
      low = middle + 1;
    else
      return !modules->at[middle].gone;
  }
  return false;
}

void modules_free(struct modules *modules) {
  for (size_t i = 0; i < modules->count; i++)
    trace_module_free_texts(&modules->at[i].record);
  free(modules->at);
  *modules = (struct modules){0};
}

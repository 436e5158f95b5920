/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/common/objects.h"

#include "core/elf/elf.h"

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

/* A file, and two windows into it, as symbols and their names are read in turns. */
enum { WINDOW_BYTES = 1 << 16 };
static struct {
  Int fd, last;
  struct window {
    ULong from, bytes;
    UChar at[WINDOW_BYTES];
  } window[2];
} file;

static bool read_file(const void *context, uint64_t address, void *to, size_t bytes) {
  (void)context;
  struct window *window = &file.window[file.last];
  if (address - window->from > window->bytes || bytes > window->bytes - (address - window->from)) {
    file.last = !file.last;
    window = &file.window[file.last];
  }
  if (address - window->from > window->bytes || bytes > window->bytes - (address - window->from)) {
    Int got = VG_(lseek)(file.fd, (Off64T)address, VKI_SEEK_SET) < 0 ? 0 : VG_(read)(file.fd, window->at, WINDOW_BYTES);
    window->from = address;
    window->bytes = got > 0 ? (ULong)got : 0;
  }
  if (bytes > window->bytes - (address - window->from))
    return false;
  VG_(memcpy)(to, window->at + (address - window->from), bytes);
  return true;
}

struct search {
  struct object *object;
  struct elf_file elf;
};

static bool note_symbol(void *context, const Elf64_Sym *symbol, const HChar *name) {
  struct search *search = context;
  struct object *object = search->object;
  uint64_t offset;
  if (symbol->st_shndx == SHN_UNDEF || !elf_file_offset(&search->elf, symbol->st_value, 1, &offset))
    return true;
  /* The second is the dynamic linker's, which has a malloc of its own before glibc 2.33. */
  object->is_c_library |= VG_(strcmp)(name, "__libc_start_main") == 0 || VG_(strcmp)(name, "_rtld_global") == 0;
  if (offset - object->offset > object->end - object->start || !is_of_the_api(name))
    return true;
  object->defines_malloc |= VG_(strcmp)(name, "malloc") == 0;
  if (object->function_count < FUNCTION_LIMIT)
    object->functions[object->function_count++] = object->start + (offset - object->offset);
  return true;
}

static Bool is_the_program(const HChar *path) {
  HChar program[4096];
  VG_(client_fname)(program, sizeof program, True);
  return VG_(strcmp)(path, program) == 0;
}

/* Notes which functions of the malloc API the file of a mapping defines. Damage ends the reading early: the kernel has
   mapped the file, but its section headers are untrusted. */
static void read_symbols(struct object *object, const HChar *path) {
  static const struct elf_memory memory = {.read = read_file};
  struct search search = {.object = object};
  file.fd = VG_(fd_open)(path, VKI_O_RDONLY, 0);
  file.window[0].bytes = file.window[1].bytes = 0;
  if (file.fd < 0)
    return;
  if (elf_file_read(&memory, &search.elf)) {
    elf_file_symbols(&memory, &search.elf, note_symbol, &search);
    object->is_allocators =
        object->defines_malloc && !object->is_c_library && search.elf.header.e_type == ET_DYN && !is_the_program(path);
  }
  VG_(close)(file.fd);
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
  if (path)
    read_symbols(object, path);
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

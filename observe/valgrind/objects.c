/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/objects.h"

#include "observe/valgrind/symbols.h"

#include <pub_tool_aspacemgr.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_mallocfree.h>

enum { FUNCTION_LIMIT = 256 };

/* A mapping that holds code of a file. */
struct object {
  Addr start, end; /* end: its last byte */
  ULong offset;    /* of start in the file */
  Bool defines_malloc, defines_strlen, is_allocators;
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
  object->defines_strlen |= VG_(strcmp)(name, "strlen") == 0;
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
    object->is_allocators = object->defines_malloc && !object->defines_strlen && shared && !is_the_program(path);
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

/* SPDX-License-Identifier: MIT */
#include "capture/host/real/real.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

/* The dynamic linker's functions are not called by their names, which the program may define itself; nor is dlsym at
   all, as it changes what dlerror returns, and allocates. */

#pragma GCC visibility push(hidden)
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context);
int dladdr(const void *address, Dl_info *info);
#pragma GCC visibility pop

/* --- one object's symbols --- */

bool symbols_open(const struct dl_phdr_info *info, struct symbols_object *object) {
  object->segments = (struct elf_segments){info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr};
  struct elf_extent extent = elf_extent(&object->segments);
  object->memory =
      (struct elf_memory){.bytes = (const uint8_t *)extent.from, .from = extent.from, .size = extent.to - extent.from};
  const Elf64_Phdr *dynamic = elf_segment(&object->segments, PT_DYNAMIC);
  object->section = dynamic ? info->dlpi_addr + dynamic->p_vaddr : 0;
  return dynamic && elf_dynamic_read(&object->memory, object->section, info->dlpi_addr, &object->dynamic);
}

Elf64_Sym *symbols_find(const struct dl_phdr_info *info, const char *name) {
  struct symbols_object object;
  struct elf_symbol symbol;
  return symbols_open(info, &object) && elf_symbol_find(&object.memory, &object.dynamic, name, &symbol)
             ? (Elf64_Sym *)symbol.at
             : NULL;
}

static void *code_at(uintptr_t base, const ElfW(Sym) * symbol) {
  if (!symbol || symbol->st_shndx == SHN_UNDEF)
    return NULL;
  union {
    uintptr_t address;
    void *data;
    void *(*resolver)(void);
  } code = {.address = base + symbol->st_value};
  return ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC ? code.resolver() : code.data;
}

/* --- the list of objects --- */

extern struct r_debug _r_debug __attribute__((weak));        /* glibc's */
extern struct r_debug *_dl_debug_addr __attribute__((weak)); /* musl's */

typedef int iterate(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context);

/* The C library's: that of the object that starts programs. Read without a lock, the first time, at which the program
   has one thread as a rule. */
static iterate *find_iterate(void) {
  static iterate *_Atomic known;
  union {
    void *data;
    iterate *code;
  } found = {.code = known};
  const struct r_debug *list = &_r_debug ? &_r_debug : &_dl_debug_addr ? _dl_debug_addr : NULL;
  const struct elf_memory memory = {.size = UINT64_MAX}; /* of this process, as segments are not known */
  struct elf_dynamic dynamic;
  struct elf_symbol starts, iterates;
  for (const struct link_map *map = list ? list->r_map : NULL; map && !found.data; map = map->l_next)
    if (elf_dynamic_read(&memory, (uint64_t)map->l_ld, map->l_addr, &dynamic) &&
        elf_symbol_find(&memory, &dynamic, "__libc_start_main", &starts) && starts.entry.st_shndx != SHN_UNDEF &&
        elf_symbol_find(&memory, &dynamic, "dl_iterate_phdr", &iterates))
      found.data = code_at(map->l_addr, &iterates.entry);
  known = found.code;
  return found.code;
}

int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context) {
  iterate *code = find_iterate();
  return code ? code(visit, context) : 0;
}

static struct elf_extent extent_of(const struct dl_phdr_info *info) {
  const struct elf_segments segments = {info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr};
  return elf_extent(&segments);
}

static bool contains(const struct dl_phdr_info *object, const void *address) {
  struct elf_extent extent = extent_of(object);
  return (uintptr_t)address >= extent.from && (uintptr_t)address < extent.to;
}

struct at_address {
  const void *address;
  Dl_info *info;
};

static int describe(struct dl_phdr_info *object, size_t bytes, void *context) {
  const struct at_address *at = context;
  (void)bytes;
  if (!contains(object, at->address))
    return 0;
  *at->info = (Dl_info){.dli_fname = object->dlpi_name, .dli_fbase = (void *)extent_of(object).from};
  return 1;
}

/* Leaves the symbol out. */
int dladdr(const void *address, Dl_info *info) {
  struct at_address at = {address, info};
  return dl_iterate_phdr(describe, &at);
}

struct query {
  const void *address;
  const char *name;
  const ElfW(Sym) * symbol;
  uintptr_t base;
};

static int find_in(struct dl_phdr_info *object, size_t bytes, void *context) {
  (void)bytes;
  struct query *query = context;
  if (!contains(object, query->address))
    return 0;
  query->symbol = symbols_find(object, query->name);
  query->base = object->dlpi_addr;
  return 1;
}

const ElfW(Sym) * symbols_find_near(const void *address, const char *name) {
  struct query query = {address, name, NULL, 0};
  dl_iterate_phdr(find_in, &query);
  return query.symbol;
}

void *symbols_code_near(const void *address, const char *name) {
  struct query query = {address, name, NULL, 0};
  dl_iterate_phdr(find_in, &query);
  return code_at(query.base, query.symbol);
}

/* --- several objects --- */

/* The program's own objects come first, in the order in which names are looked up. */
static size_t began_with;

struct next {
  struct symbols_wanted *wanted;
  size_t count, left, objects;
  bool behind_us;
};

static int find_next(struct dl_phdr_info *info, size_t bytes, void *context) {
  struct next *next = context;
  struct symbols_object object;
  struct elf_symbol symbol;
  (void)bytes;
  if (began_with && next->objects++ == began_with)
    return 1;
  if (!next->behind_us) {
    next->behind_us = contains(info, &began_with);
    return 0;
  }
  if (!symbols_open(info, &object))
    return 0;
  for (size_t i = 0; i < next->count; i++) {
    struct symbols_wanted *wanted = &next->wanted[i];
    if (!wanted->code && elf_symbol_find(&object.memory, &object.dynamic, wanted->name, &symbol))
      next->left -= (wanted->code = code_at(info->dlpi_addr, &symbol.entry)) != NULL;
  }
  return next->left == 0;
}

void symbols_next_all(struct symbols_wanted *wanted, size_t count) {
  struct next next = {wanted, count, count, 0, false};
  dl_iterate_phdr(find_next, &next);
}

void *symbols_next(const char *name) {
  struct symbols_wanted wanted = {name, NULL};
  symbols_next_all(&wanted, 1);
  return wanted.code;
}

static int count(struct dl_phdr_info *object, size_t bytes, void *context) {
  (void)object, (void)bytes;
  ++*(size_t *)context;
  return 0;
}

void symbols_begin(void) {
  size_t objects = 0;
  dl_iterate_phdr(count, &objects);
  began_with = objects;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

struct of_name {
  const char *name;
  struct dl_phdr_info object;
};

static int find_named(struct dl_phdr_info *info, size_t bytes, void *context) {
  struct of_name *of = context;
  struct symbols_object object;
  (void)bytes;
  const char *own =
      symbols_open(info, &object) ? elf_name(&object.memory, &object.dynamic, object.dynamic.own_name) : NULL;
  bool is = strcmp(base_name(info->dlpi_name), base_name(of->name)) == 0 || (own && strcmp(own, of->name) == 0);
  if (is)
    of->object = *info;
  return is;
}

static void add(struct symbols_scope *scope, const struct dl_phdr_info *object) {
  for (uint32_t i = 0; i < scope->count; i++)
    if (scope->object[i].dlpi_addr == object->dlpi_addr)
      return;
  if (scope->count < SYMBOLS_SCOPE_MOST)
    scope->object[scope->count++] = *object;
}

static int add_at(struct dl_phdr_info *object, size_t bytes, void *context) {
  struct symbols_scope *scope = context;
  (void)bytes;
  if (!contains(object, scope->inside))
    return 0;
  add(scope, object);
  return 1;
}

void symbols_open_scope(struct symbols_scope *scope, const void *inside) {
  scope->inside = inside;
  scope->count = 0;
  dl_iterate_phdr(add_at, scope);
  for (uint32_t i = 0; i < scope->count; i++) {
    struct symbols_object object;
    if (!symbols_open(&scope->object[i], &object))
      continue;
    for (const Elf64_Dyn *entry = (const Elf64_Dyn *)object.section; entry->d_tag != DT_NULL; entry++) {
      struct of_name of = {.name = elf_name(&object.memory, &object.dynamic, entry->d_un.d_val)};
      if (entry->d_tag == DT_NEEDED && of.name && dl_iterate_phdr(find_named, &of))
        add(scope, &of.object);
    }
  }
}

void *symbols_in(const struct symbols_scope *scope, const char *name) {
  void *found = NULL;
  for (uint32_t i = 0; !found && i < scope->count; i++)
    found = code_at(scope->object[i].dlpi_addr, symbols_find(&scope->object[i], name));
  return found;
}

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

static uint32_t gnu_hash(const char *name) {
  uint32_t hash = 5381;
  for (; *name; name++)
    hash = hash * 33 + (unsigned char)*name;
  return hash;
}

struct symbol_table {
  const uint32_t *hash; /* symbols, first symbol, filter words, shift; filter, buckets, chains */
  const ElfW(Sym) * symbol;
  const char *names;
  const uint16_t *version; /* NULL: none */
};

/* Of several symbols of that name the one of the default version. */
static const ElfW(Sym) * find(const struct symbol_table *table, const char *name) {
  enum { HIDDEN = 0x8000 };
  if (!table->hash || !table->symbol || !table->names)
    return NULL;
  const uint32_t *buckets = table->hash + 4 + (size_t)table->hash[2] * (sizeof(ElfW(Addr)) / 4);
  const uint32_t *chains = buckets + table->hash[0];
  const ElfW(Sym) *old = NULL;
  uint32_t name_hash = gnu_hash(name), first = table->hash[1];
  for (uint32_t i = table->hash[0] ? buckets[name_hash % table->hash[0]] : 0; i >= first && i != 0; i++) {
    uint32_t hash = chains[i - first];
    if ((hash | 1) == (name_hash | 1) && strcmp(table->names + table->symbol[i].st_name, name) == 0) {
      if (!table->version || !(table->version[i] & HIDDEN))
        return &table->symbol[i];
      old = &table->symbol[i];
    }
    if (hash & 1)
      break;
  }
  return old;
}

static struct symbol_table table_of(uintptr_t base, const ElfW(Dyn) * entry) {
  struct symbol_table table = {0};
  for (; entry->d_tag != DT_NULL; entry++)
    if (entry->d_tag == DT_GNU_HASH)
      table.hash = (const uint32_t *)symbols_pointer(base, entry);
    else if (entry->d_tag == DT_SYMTAB)
      table.symbol = (const ElfW(Sym) *)symbols_pointer(base, entry);
    else if (entry->d_tag == DT_STRTAB)
      table.names = (const char *)symbols_pointer(base, entry);
    else if (entry->d_tag == DT_VERSYM)
      table.version = (const uint16_t *)symbols_pointer(base, entry);
  return table;
}

static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *object) {
  for (int i = 0; i < object->dlpi_phnum; i++)
    if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
      return (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
  return NULL;
}

const ElfW(Sym) * symbols_find(const struct dl_phdr_info *object, const char *name) {
  const ElfW(Dyn) *dynamic = dynamic_of(object);
  struct symbol_table table = dynamic ? table_of(object->dlpi_addr, dynamic) : (struct symbol_table){0};
  return find(&table, name);
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
  for (const struct link_map *map = list ? list->r_map : NULL; map && !found.data; map = map->l_next) {
    struct symbol_table table = table_of(map->l_addr, map->l_ld);
    const ElfW(Sym) *starts = find(&table, "__libc_start_main");
    if (starts && starts->st_shndx != SHN_UNDEF)
      found.data = code_at(map->l_addr, find(&table, "dl_iterate_phdr"));
  }
  known = found.code;
  return found.code;
}

int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context) {
  iterate *code = find_iterate();
  return code ? code(visit, context) : 0;
}

static void extend(const struct dl_phdr_info *object, uintptr_t *from, uintptr_t *to) {
  *from = UINTPTR_MAX;
  *to = 0;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &object->dlpi_phdr[i];
    uintptr_t start = object->dlpi_addr + header->p_vaddr, end = start + header->p_memsz;
    if (header->p_type != PT_LOAD)
      continue;
    *from = start < *from ? start : *from;
    *to = end > *to ? end : *to;
  }
}

static bool contains(const struct dl_phdr_info *object, const void *address) {
  uintptr_t from, to;
  extend(object, &from, &to);
  return (uintptr_t)address >= from && (uintptr_t)address < to;
}

struct at_address {
  const void *address;
  Dl_info *info;
};

static int describe(struct dl_phdr_info *object, size_t bytes, void *context) {
  const struct at_address *at = context;
  uintptr_t from, to;
  (void)bytes;
  extend(object, &from, &to);
  if ((uintptr_t)at->address < from || (uintptr_t)at->address >= to)
    return 0;
  *at->info = (Dl_info){.dli_fname = object->dlpi_name, .dli_fbase = (void *)from};
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
  const char *name;
  void *found;
  size_t count;
  bool behind_us;
};

static int find_next(struct dl_phdr_info *object, size_t bytes, void *context) {
  struct next *next = context;
  (void)bytes;
  if (began_with && next->count++ == began_with)
    return 1;
  if (next->behind_us)
    next->found = code_at(object->dlpi_addr, symbols_find(object, next->name));
  else
    next->behind_us = contains(object, &began_with);
  return next->found != NULL;
}

void *symbols_next(const char *name) {
  struct next next = {.name = name};
  dl_iterate_phdr(find_next, &next);
  return next.found;
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

static int find_named(struct dl_phdr_info *object, size_t bytes, void *context) {
  struct of_name *of = context;
  const ElfW(Dyn) *entry = dynamic_of(object);
  (void)bytes;
  struct symbol_table table = entry ? table_of(object->dlpi_addr, entry) : (struct symbol_table){0};
  bool is = strcmp(base_name(object->dlpi_name), base_name(of->name)) == 0;
  for (; entry && !is && entry->d_tag != DT_NULL; entry++)
    is = entry->d_tag == DT_SONAME && table.names && strcmp(table.names + entry->d_un.d_val, of->name) == 0;
  if (is)
    of->object = *object;
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
    const ElfW(Dyn) *entry = dynamic_of(&scope->object[i]);
    struct symbol_table table = entry ? table_of(scope->object[i].dlpi_addr, entry) : (struct symbol_table){0};
    for (; entry && table.names && entry->d_tag != DT_NULL; entry++) {
      struct of_name of = {.name = table.names + entry->d_un.d_val};
      if (entry->d_tag == DT_NEEDED && dl_iterate_phdr(find_named, &of))
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

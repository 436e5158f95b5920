/* SPDX-License-Identifier: MIT */
#include "capture/host/real/symbols.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

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
};

static const ElfW(Sym) * find(const struct symbol_table *table, const char *name) {
  const uint32_t *buckets = table->hash + 4 + (size_t)table->hash[2] * (sizeof(ElfW(Addr)) / 4);
  const uint32_t *chains = buckets + table->hash[0];
  uint32_t wanted = gnu_hash(name), first = table->hash[1];
  for (uint32_t i = table->hash[0] ? buckets[wanted % table->hash[0]] : 0; i >= first && i != 0; i++) {
    uint32_t hash = chains[i - first];
    if ((hash | 1) == (wanted | 1) && strcmp(table->names + table->symbol[i].st_name, name) == 0)
      return &table->symbol[i];
    if (hash & 1)
      break;
  }
  return NULL;
}

static struct symbol_table table_of(const struct dl_phdr_info *info) {
  struct symbol_table table = {NULL, NULL, NULL};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
      continue;
    const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; entry++)
      if (entry->d_tag == DT_GNU_HASH)
        table.hash = (const uint32_t *)symbols_pointer(info->dlpi_addr, entry);
      else if (entry->d_tag == DT_SYMTAB)
        table.symbol = (const ElfW(Sym) *)symbols_pointer(info->dlpi_addr, entry);
      else if (entry->d_tag == DT_STRTAB)
        table.names = (const char *)symbols_pointer(info->dlpi_addr, entry);
  }
  return table;
}

const ElfW(Sym) * symbols_find(const struct dl_phdr_info *object, const char *name) {
  struct symbol_table table = table_of(object);
  return table.hash && table.symbol && table.names ? find(&table, name) : NULL;
}

struct wanted {
  uintptr_t address;
  const char *name;
  const ElfW(Sym) * found;
};

static bool contains(const struct dl_phdr_info *object, uintptr_t address) {
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &object->dlpi_phdr[i];
    if (header->p_type == PT_LOAD && address - (object->dlpi_addr + header->p_vaddr) < header->p_memsz)
      return true;
  }
  return false;
}

static int find_in(struct dl_phdr_info *object, size_t bytes, void *context) {
  (void)bytes;
  struct wanted *wanted = context;
  if (!contains(object, wanted->address))
    return 0;
  wanted->found = symbols_find(object, wanted->name);
  return 1;
}

const ElfW(Sym) * symbols_find_near(const void *address, const char *name) {
  struct wanted wanted = {(uintptr_t)address, name, NULL};
  dl_iterate_phdr(find_in, &wanted);
  return wanted.found;
}

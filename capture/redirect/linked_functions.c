/* SPDX-License-Identifier: MIT */
#include "capture/redirect/linked_functions.h"

#include "core/trace/event.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

static const struct family {
  char letter;
  const char *prefix, *marks;
} families[] = {
#define FAMILY(letter, prefix, marks) {letter, prefix, marks},
#include "capture/redirect/linked_functions.def"
};
enum { FAMILIES = sizeof families / sizeof *families };
_Static_assert((int)FAMILIES <= (int)LINKED_FAMILIES_MOST, "too many families");

#define N LINKED_NONE
static const struct described {
  const char *letters, *name;
  struct linked_function means;
} table[] = {
#define FUNCTION(letters, name, kind, call, object, size, param, count, style)                                         \
  {letters, name, {0, 0, LINKED_##kind, CALL_##call, LINKED_##style, object, size, param, count, 0}},
#include "capture/redirect/linked_functions.def"
};
#undef N
enum { FUNCTIONS = sizeof table / sizeof *table };

/* One symbol per family and function. */
struct search {
  struct seen {
    bool is_there, chosen_at_run_time;
    uint64_t address, bytes;
  } seen[FAMILIES][FUNCTIONS];
  bool marked[FAMILIES];
};

/* The letter of a plain family in upper case: a function without a prefix. */
static bool is_of(const struct described *function, const struct family *family) {
  return strchr(function->letters, family->letter) || (family->letter == 'p' && strchr(function->letters, 'P') != NULL);
}

static bool is_among(const char *words, const char *name) {
  size_t length = strlen(name);
  for (const char *at = words; length && (at = strstr(at, name)); at += length)
    if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
      return true;
  return false;
}

/* The functions in the order of their names, to search each symbol's name. */
static uint16_t by_name[FUNCTIONS];

static int compare(const void *a, const void *b) {
  return strcmp(table[*(const uint16_t *)a].name, table[*(const uint16_t *)b].name);
}

static void sort_names(void) {
  if (by_name[0] != by_name[1]) /* done */
    return;
  for (uint16_t i = 0; i < FUNCTIONS; i++)
    by_name[i] = i;
  qsort(by_name, FUNCTIONS, sizeof *by_name, compare);
}

static int compare_name(const void *name, const void *number) {
  return strcmp(name, table[*(const uint16_t *)number].name);
}

static void note_symbol(struct search *search, unsigned family, const char *name, const GElf_Sym *symbol) {
  if (is_among(families[family].marks, name))
    search->marked[family] = true;
  const uint16_t *number = bsearch(name, by_name, FUNCTIONS, sizeof *by_name, compare_name);
  if (!number || !is_of(&table[*number], &families[family]) || search->seen[family][*number].is_there)
    return;
  search->seen[family][*number] =
      (struct seen){true, GELF_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC, symbol->st_value, symbol->st_size};
}

static void look_at_symbol(struct search *search, const char *name, const GElf_Sym *symbol) {
  unsigned type = GELF_ST_TYPE(symbol->st_info);
  if (!name || (type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF || !symbol->st_value)
    return;
  for (unsigned family = 0; family < FAMILIES; family++) {
    size_t length = strlen(families[family].prefix);
    if (strncmp(name, families[family].prefix, length) == 0)
      note_symbol(search, family, name + length, symbol);
  }
}

static void look_at_section(struct search *search, Elf *elf, Elf_Scn *section) {
  GElf_Shdr header;
  Elf_Data *data = NULL;
  if (!gelf_getshdr(section, &header) || (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) ||
      !header.sh_entsize || !(data = elf_getdata(section, NULL)))
    return;
  size_t count = data->d_size / header.sh_entsize;
  for (size_t i = 0; i < count; i++) {
    GElf_Sym symbol;
    if (gelf_getsym(data, (int)i, &symbol))
      look_at_symbol(search, elf_strptr(elf, header.sh_link, symbol.st_name), &symbol);
  }
}

static bool is_found(const struct linked_functions *functions, uint64_t address) {
  for (size_t i = 0; i < functions->found.count; i++)
    if (functions->found.at[i].address == address)
      return true;
  return false;
}

/* Adds the symbol that was seen for one function of one family. */
static int add(struct linked_functions *functions, const struct seen *seen, unsigned family, unsigned number) {
  const struct described *described = &table[number];
  if (!seen->is_there || is_found(functions, seen->address))
    return 0;
  const char *prefix = strchr(described->letters, 'P') ? "" : families[family].prefix;
  struct linked_found found = {.prefix = prefix,
                               .name = described->name,
                               .family = (uint8_t)family,
                               .chosen_at_run_time = seen->chosen_at_run_time,
                               .address = seen->address,
                               .bytes = seen->bytes,
                               .means = described->means};
  struct linked_found *place = vector_add(&functions->found);
  if (!place)
    return -1;
  *place = found;
  return 0;
}

int linked_functions_find(struct linked_functions *functions, Elf *elf) {
  *functions = (struct linked_functions){.found = {0}};
  struct search *search = calloc(1, sizeof *search);
  if (!search)
    return -1;
  sort_names();
  for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));)
    look_at_section(search, elf, section);
  int failed = 0;
  for (unsigned family = 0; family < FAMILIES; family++)
    for (unsigned number = 0; search->marked[family] && number < FUNCTIONS; number++)
      failed |= add(functions, &search->seen[family][number], family, number);
  free(search);
  return failed;
}

void linked_functions_free(struct linked_functions *functions) {
  free(functions->found.at);
}

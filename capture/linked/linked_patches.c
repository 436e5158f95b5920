/* SPDX-License-Identifier: MIT */
#include "capture/linked/linked_patches.h"

#include "capture/wire/ring.h"
#include "core/base/os.h"
#include "core/system/process.h"
#include "core/trace/event.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct family {
  char letter;
  const char *prefix, *marks;
} families[] = {
#define FAMILY(letter, prefix, marks) {letter, prefix, marks},
#include "capture/linked/linked_functions.def"
};
enum { FAMILIES = sizeof families / sizeof *families };
_Static_assert((int)FAMILIES <= (int)LINKED_FAMILIES_MOST, "too many families");

#define N LINKED_NONE
static const struct described {
  const char *letters, *name;
  struct linked_function means;
} table[] = {
#define FUNCTION(letters, name, kind, call, object, size, param, count, style)                                         \
  {letters, name, {0, 0, LINKED_##kind, CALL_##call, LINKED_##style, object, size, param, count, 0, 0, 0, 0}},
#include "capture/linked/linked_functions.def"
};
#undef N
enum { FUNCTIONS = sizeof table / sizeof *table };

/* One symbol per family and function. */
struct search {
  struct seen {
    bool is_defined, chosen_at_run_time;
    uint64_t address, bytes;
  } seen[FAMILIES][FUNCTIONS];
  bool marked[FAMILIES];
};

/* Upper case: of a plain family, a function without a prefix. */
static bool is_of(const struct described *function, const struct family *family) {
  return strchr(function->letters, family->letter) || (family->letter == 'p' && strpbrk(function->letters, "GP"));
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

static void note_symbol(struct search *search, unsigned family, const char *name, const Elf64_Sym *symbol) {
  if (is_among(families[family].marks, name))
    search->marked[family] = true;
  const uint16_t *number = bsearch(name, by_name, FUNCTIONS, sizeof *by_name, compare_name);
  while (number && number != by_name && strcmp(name, table[number[-1]].name) == 0)
    number--;
  for (; number && number != by_name + FUNCTIONS && strcmp(name, table[*number].name) == 0; number++)
    if (is_of(&table[*number], &families[family]) && !search->seen[family][*number].is_defined)
      search->seen[family][*number] =
          (struct seen){true, ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC, symbol->st_value, symbol->st_size};
}

static bool note_in_families(void *context, const Elf64_Sym *symbol, const char *name) {
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF || !symbol->st_value)
    return true;
  for (unsigned family = 0; family < FAMILIES; family++) {
    size_t length = strlen(families[family].prefix);
    if (strncmp(name, families[family].prefix, length) == 0)
      note_symbol(context, family, name + length, symbol);
  }
  return true;
}

static bool is_listed(const struct linked_patches *patches, uint64_t address) {
  for (size_t i = 0; i < patches->symbols.count; i++)
    if (patches->symbols.at[i].address == address)
      return true;
  return false;
}

/* A mallctl is jemalloc's where mallctlnametomib is beside it. */
static bool is_doubtful(const struct search *search, unsigned family, unsigned number) {
  bool sure = table[number].means.style != LINKED_MALLCTL && table[number].means.style != LINKED_MALLCTL_MIB;
  for (unsigned i = 0; i < FUNCTIONS && !sure; i++)
    sure = table[i].means.kind == LINKED_LOOK_UP && search->seen[family][i].is_defined;
  return !sure;
}

/* Adds the symbol that was seen for one function of one family. */
static int add(struct linked_patches *patches, const struct seen *seen, unsigned family, unsigned number) {
  const struct described *described = &table[number];
  bool is_left_out = (described->means.kind == LINKED_INNER || strchr(described->letters, 'G')) && !patches->is_static;
  if (!seen->is_defined || is_left_out || is_listed(patches, seen->address))
    return 0;
  const char *prefix = strpbrk(described->letters, "GP") ? "" : families[family].prefix;
  struct linked_symbol symbol = {.prefix = prefix,
                                 .name = described->name,
                                 .family = (uint8_t)family,
                                 .chosen_at_run_time = seen->chosen_at_run_time,
                                 .address = seen->address,
                                 .bytes = seen->bytes,
                                 .means = described->means};
  struct linked_symbol *place = vector_add(&patches->symbols);
  if (!place)
    return -1;
  *place = symbol;
  return 0;
}

static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

/* Where the jump with a 32-bit distance leads whose bytes these are; 0: they are another instruction's. */
static uint64_t jump_to(const uint8_t code[ENTRY_JUMP_BYTES], uint64_t at) {
  int32_t distance;
  memcpy(&distance, code + 1, sizeof distance);
  return code[0] == 0xe9 ? at + ENTRY_JUMP_BYTES + (uint64_t)(int64_t)distance : 0;
}

/* The bytes at an address of the file; NULL: they are not completely in it. */
static const void *in_file(const struct linked_patches *patches, uint64_t address, uint64_t bytes) {
  uint64_t offset;
  return elf_file_offset(&patches->file, address, bytes, &offset) ? elf_part(&patches->memory, offset, bytes) : NULL;
}

/* Where a function leads that is nothing but a jump; 0: it is more. */
static uint64_t lone_jump(const struct linked_patches *patches, const struct linked_symbol *symbol) {
  enum { SHORT_JUMP_BYTES = 2, SHORT_JUMP = 0xeb };
  const uint8_t *code = symbol->chosen_at_run_time ? NULL : in_file(patches, symbol->address, symbol->bytes);
  uint64_t at = symbol->address, bytes = symbol->bytes;
  if (code && bytes > sizeof endbr64 && memcmp(code, endbr64, sizeof endbr64) == 0) {
    code += sizeof endbr64;
    at += sizeof endbr64;
    bytes -= sizeof endbr64;
  }
  if (code && bytes == SHORT_JUMP_BYTES && code[0] == SHORT_JUMP)
    return at + SHORT_JUMP_BYTES + (uint64_t)(int64_t)(int8_t)code[1];
  return code && bytes == ENTRY_JUMP_BYTES ? jump_to(code, at) : 0;
}

/* Where a function is a lone jump, its target is what other functions of the allocator call (Firefox's strdup): the
   symbol then stands for the target, unless several lead there, which could not be told apart. An operator that jumps
   to a function which calls malloc stays what it is, and a control call, whose target the allocator calls, too. */
static void follow_lone_jumps(struct linked_patches *patches) {
  uint64_t to[LINKED_MOST], bytes[LINKED_MOST];
  for (size_t i = 0; i < patches->count; i++)
    to[i] = lone_jump(patches, &patches->symbols.at[i]);
  for (size_t i = 0; i < patches->count; i++) {
    uint8_t kind = patches->symbols.at[i].means.kind;
    bool stays =
        !to[i] || kind == LINKED_NEW || kind == LINKED_DELETE || kind == LINKED_CONTROL || is_listed(patches, to[i]);
    for (size_t n = 0; n < patches->count && !stays; n++)
      stays = n != i && to[n] == to[i];
    bytes[i] = stays ? 0 : elf_file_function_bytes(&patches->memory, &patches->file, to[i]);
  }
  for (size_t i = 0; i < patches->count; i++)
    if (bytes[i]) {
      patches->symbols.at[i].address = to[i];
      patches->symbols.at[i].bytes = bytes[i];
    }
}

/* Finds none where the executable has no allocator. Returns 0, or -1: no memory. */
static int find_functions(struct linked_patches *patches) {
  struct search *search = calloc(1, sizeof *search);
  if (!search)
    return -1;
  sort_names();
  elf_file_symbols(&patches->memory, &patches->file, note_in_families, search);
  search->marked[0] |= patches->is_static; /* the C library's, of which only the functions that are called are linked */
  int failed = 0;
  for (unsigned family = 0; family < FAMILIES; family++)
    for (unsigned number = 0; search->marked[family] && number < FUNCTIONS; number++)
      if (!is_doubtful(search, family, number))
        failed |= add(patches, &search->seen[family][number], family, number);
  free(search);
  patches->count = patches->symbols.count < LINKED_MOST ? patches->symbols.count : LINKED_MOST;
  follow_lone_jumps(patches);
  return failed;
}

enum { PADDING_ALIGN = 16 };

static bool read_at(int fd, void *bytes, size_t count, uint64_t address) {
  return pread(fd, bytes, count, (off_t)address) == (ssize_t)count;
}

uint64_t linked_jump_at(int memory, uint64_t at) {
  uint8_t code[ENTRY_JUMP_BYTES];
  return read_at(memory, code, sizeof code, at) ? jump_to(code, at) : 0;
}

uint64_t linked_room_of(int memory, uint64_t function, struct linked_saved *saved) {
  uint8_t code[sizeof endbr64];
  uint64_t magic, at = function;
  if (read_at(memory, code, sizeof code, at) && memcmp(code, endbr64, sizeof endbr64) == 0)
    at += sizeof endbr64;
  uint64_t target = linked_jump_at(memory, at), room = target & ~(uint64_t)(LINKED_ROOM_BYTES - 1),
           number = (target - room - LINKED_STUBS_AT) / ENTRY_ROOM_BYTES;
  bool found =
      target && number < LINKED_MOST && read_at(memory, &magic, sizeof magic, room) && magic == LINKED_ROOM_MAGIC &&
      read_at(memory, saved, sizeof *saved, room + offsetof(struct linked_room, saved) + number * sizeof *saved);
  return found && saved->at == at && saved->bytes >= ENTRY_JUMP_BYTES && saved->bytes <= ENTRY_PATCH_MOST ? room : 0;
}

/* Reads the code at a function's entry, as it was before an earlier recorder redirected it, if one did. */
static bool read_code(int memory, uint8_t *code, size_t known, uint64_t address) {
  struct linked_saved saved;
  if (!read_at(memory, code, known, address))
    return false;
  if (linked_room_of(memory, address, &saved) && saved.at - address + saved.bytes <= known)
    memcpy(code + (saved.at - address), saved.original, saved.bytes);
  return true;
}

/* Can hooks save the registers, other than general ones, that their own code may change? */
static bool vectors_can_be_saved(void) {
#if defined(__x86_64__)
  unsigned bytes, from, c, d;
  if (!__get_cpuid(1, &bytes, &from, &c, &d) || !(c & bit_OSXSAVE))
    return false;
  for (unsigned i = 2; i < 32; i++)
    if ((LINKED_VECTOR_MASK >> i & 1) && __get_cpuid_count(13, i, &bytes, &from, &c, &d) &&
        bytes + from > LINKED_VECTOR_ROOM)
      return false;
#endif
  return true;
}

/* Returns why it can't be redirected, or NULL. */
static const char *make_patch(const struct linked_patches *patches, int memory, size_t number) {
  enum { MOST = 1 << 16 };
  const struct linked_symbol *symbol = &patches->symbols.at[number];
  const struct linked_place *place = &patches->place;
  if (symbol->chosen_at_run_time)
    return "is chosen when the program runs";
  if (symbol->bytes == 0 || symbol->bytes > MOST)
    return "has an implausible size";
  uint64_t address = place->bias + symbol->address;
  size_t known = (size_t)(((address + symbol->bytes + PADDING_ALIGN - 1) & ~(uint64_t)(PADDING_ALIGN - 1)) - address);
  uint8_t *code = malloc(known);
  const char *why = "can't be read";
  const void *expected = in_file(patches, symbol->address, symbol->bytes);
  if (!code || !expected || !read_code(memory, code, known, address)) {
    /* nothing is known of it */
  } else if (memcmp(code, expected, symbol->bytes) != 0) { /* patched */
    why = "is not in memory as it is in the file";
  } else {
    struct entry_function function = {address, code, symbol->bytes, known};
    struct entry_target target = {.room = place->room + number * ENTRY_ROOM_BYTES,
                                  .hook = place->hook[symbol->hook],
                                  .passes = symbol->hook == LINKED_HOOK_ANY ? ENTRY_ARGUMENT_ON_STACK
                                                                            : ENTRY_ARGUMENT_IN_REGISTER,
                                  .argument = place->table + number * sizeof(struct linked_function)};
    why = entry_patch_make(&function, &target, &patches->patch[number]);
  }
  free(code);
  return why;
}

/* The hook for functions of that meaning that follow the calling convention. */
static enum linked_hook hook_for(const struct linked_function *means) {
  bool takes_size = means->size == 0, takes_object = means->object == 0, sized = means->size == 1;
  if (means->style != LINKED_PLAIN || means->count != LINKED_NONE)
    return LINKED_HOOK_ANY;
  if (sized && means->param == 0 && means->kind == LINKED_ACQUIRE)
    return means->call == CALL_calloc ? LINKED_HOOK_CALLOC : LINKED_HOOK_ALIGNED_ALLOC;
  if (means->size == 2 && means->param == 1 && means->kind == LINKED_RESULT)
    return LINKED_HOOK_POSIX_MEMALIGN;
  if (means->param != LINKED_NONE)
    return LINKED_HOOK_ANY;
  switch (means->kind) {
  case LINKED_ACQUIRE:
    return takes_size && means->call == CALL_malloc ? LINKED_HOOK_MALLOC : LINKED_HOOK_ANY;
  case LINKED_RESIZE:
    return takes_object && sized ? LINKED_HOOK_REALLOC : LINKED_HOOK_ANY;
  case LINKED_RELEASE:
    return takes_object && means->call == CALL_free ? LINKED_HOOK_FREE : LINKED_HOOK_ANY;
  case LINKED_NEW:
    return takes_size ? LINKED_HOOK_NEW : LINKED_HOOK_ANY;
  case LINKED_DELETE:
    return sized ? LINKED_HOOK_DELETE_SIZED : LINKED_HOOK_DELETE;
  default:
    return LINKED_HOOK_ANY;
  }
}

/* Finds the next executable segment's code, in the file. False: there is no more, or (*known) it can't be read. */
static bool next_text(const struct linked_patches *patches, size_t *next, struct entry_function *text, bool *known) {
  const struct elf_segments *segments = &patches->file.segments;
  for (*known = true; *next < segments->count;) {
    const Elf64_Phdr *segment = &segments->at[(*next)++];
    if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
      continue;
    const void *code = elf_part(&patches->memory, segment->p_offset, segment->p_filesz);
    *known = code;
    *text = (struct entry_function){patches->place.bias + segment->p_vaddr, code, segment->p_filesz, segment->p_filesz};
    return *known;
  }
  return false;
}

static const uint64_t LINKED_CODE_MOST = 512 << 20;

/* Is the executable's code more than is searched? Twice that of the largest browser; a program may name any, or some of
   it several times. */
static bool has_too_much_code(const struct linked_patches *patches) {
  struct entry_function text;
  uint64_t bytes = 0;
  bool known;
  for (size_t next = 0; next_text(patches, &next, &text, &known) && bytes <= LINKED_CODE_MOST;)
    bytes += text.bytes;
  return bytes > LINKED_CODE_MOST;
}

static void choose_hooks(struct linked_patches *patches) {
  struct entry_function text;
  bool known;
  for (size_t next = 0; next_text(patches, &next, &text, &known);)
    for (size_t i = 0; i < patches->count; i++) {
      struct linked_symbol *symbol = &patches->symbols.at[i];
      uint64_t address = patches->place.bias + symbol->address;
      enum linked_hook hook = hook_for(&symbol->means);
      if (hook != LINKED_HOOK_ANY && address - text.address < text.bytes && entry_patch_is_conventional(&text, address))
        symbol->hook = hook;
    }
}

/* Finds jumps from anywhere in the executable, by the bytes of its file. */
static bool find_jumps(struct linked_patches *patches) {
  struct entry_function text;
  bool *jumped_into = calloc(patches->count, sizeof *jumped_into), known = false;
  for (size_t next = 0; jumped_into && next_text(patches, &next, &text, &known);) {
    entry_patch_find_jumps(&text, patches->patch, patches->count, jumped_into);
    for (size_t n = 0; n < patches->count; n++)
      if (jumped_into[n] && !patches->why[n])
        patches->why[n] = "is jumped into";
  }
  free(jumped_into);
  return known;
}

static void find_overlaps(struct linked_patches *patches) {
  for (size_t i = 0; i < patches->count; i++)
    for (size_t n = 0; n < patches->count; n++) {
      uint64_t other = patches->place.bias + patches->symbols.at[n].address;
      if (!patches->why[i] && other > patches->patch[i].at && other < patches->patch[i].at + patches->patch[i].bytes)
        patches->why[i] = "is too short";
    }
}

/* Would a trace without its calls be wrong? */
static bool is_needed(const struct linked_patches *patches, size_t number) {
  uint8_t kind = patches->symbols.at[number].means.kind;
  return kind != LINKED_TOUCH && kind != LINKED_OTHER && kind != LINKED_CONTROL && kind != LINKED_LOOK_UP;
}

static int open_file(struct linked_patches *patches) {
  if (patches->executable < 0)
    return -1;
  if (!elf_map(patches->executable, &patches->memory) || !elf_file_read(&patches->memory, &patches->file))
    return 0;
  /* A loader names no loader. Of a program started as `ld.so PROGRAM`, /proc/PID/exe is the loader, and the functions
     in it (musl's libc is its loader) are not the program's own. */
  bool names_loader = elf_segment(&patches->file.segments, PT_INTERP);
  if (names_loader != patches->is_static && find_functions(patches) != 0)
    patches->count = 0;
  return 0;
}

int linked_patches_open(struct linked_patches *patches, int pid) {
  *patches = (struct linked_patches){.executable = proc_open(pid, "exe")};
  return open_file(patches);
}

int linked_list_read(struct linked_list *list, const char *program) {
  struct linked_patches patches = {.executable = open(program, O_RDONLY | O_CLOEXEC), .is_static = true};
  struct stat status;
  int result = open_file(&patches);
  if (result == 0)
    result = fstat(patches.executable, &status);
  *list = (struct linked_list){.device = 0};
  for (size_t i = 0; result == 0 && i < patches.count; i++) {
    const struct linked_symbol *symbol = &patches.symbols.at[i];
    uint64_t offset;
    uint8_t style = symbol->means.style;
    bool listed = style != LINKED_RATE && style != LINKED_PROPERTY;
    if (listed && !symbol->chosen_at_run_time && elf_file_offset(&patches.file, symbol->address, 1, &offset))
      list->at[list->count++] = (struct linked_listed){offset, symbol->bytes, symbol->means};
  }
  if (result == 0) {
    list->device = status.st_dev;
    list->inode = status.st_ino;
  }
  linked_patches_close(&patches);
  return result;
}

bool linked_patches_make(struct linked_patches *patches, int memory, const struct linked_place *place) {
  patches->place = *place;
  patches->patch = calloc(patches->count, sizeof *patches->patch);
  patches->why = calloc(patches->count, sizeof *patches->why);
  if (!patches->patch || !patches->why)
    return false;
  bool too_much = has_too_much_code(patches);
  const char *why_none = !vectors_can_be_saved()
                             ? "runs on a processor without XSAVE, or with larger vectors than are known"
                         : too_much ? "is among more than 512 MiB of code"
                                    : NULL;
  const struct elf_segments loaded = {patches->file.segment, patches->file.segments.count, place->bias};
  patches->extent = elf_extent(&loaded);
  if (!too_much)
    choose_hooks(patches);
  for (size_t i = 0; i < patches->count; i++)
    patches->why[i] = why_none ? why_none : make_patch(patches, memory, i);
  if (!too_much && !find_jumps(patches))
    return false;
  find_overlaps(patches);
  for (size_t i = 0; i < patches->count; i++) /* a family is redirected only if all its needed functions can be */
    if (patches->why[i] && is_needed(patches, i))
      patches->given_up[patches->symbols.at[i].family] = true;
  return true;
}

void linked_patches_close(struct linked_patches *patches) {
  free(patches->patch);
  free(patches->why);
  free(patches->symbols.at);
  elf_unmap(&patches->memory);
  os_close(patches->executable);
  *patches = (struct linked_patches){.executable = -1};
}

bool linked_patches_takes(const struct linked_patches *patches, size_t number) {
  const struct linked_symbol *symbol = &patches->symbols.at[number];
  return !patches->why[number] && !patches->given_up[symbol->family] && symbol->means.kind != LINKED_LOOK_UP;
}

bool linked_patches_is_plain(const struct linked_patches *patches, size_t number) {
  return patches->symbols.at[number].family == 0;
}

/* The address of the same allocator's mallctlnametomib. */
static uint64_t look_up_of(const struct linked_patches *patches, unsigned family) {
  for (size_t i = 0; i < patches->count; i++)
    if (patches->symbols.at[i].family == family && patches->symbols.at[i].means.kind == LINKED_LOOK_UP)
      return patches->place.bias + patches->symbols.at[i].address;
  return 0;
}

/* The trampoline of the same allocator's function for the usable size. */
static uint64_t usable_of(const struct linked_patches *patches, unsigned family) {
  for (size_t i = 0; i < patches->count; i++) {
    const struct linked_symbol *symbol = &patches->symbols.at[i];
    if (symbol->family == family && symbol->means.kind == LINKED_TOUCH && linked_patches_takes(patches, i))
      return patches->patch[i].trampoline;
  }
  return 0;
}

struct linked_function linked_patches_entry(const struct linked_patches *patches, size_t number) {
  struct linked_function entry = patches->symbols.at[number].means;
  entry.real = patches->patch[number].trampoline;
  entry.usable = entry.style == LINKED_MALLCTL_MIB ? look_up_of(patches, patches->symbols.at[number].family)
                                                   : usable_of(patches, patches->symbols.at[number].family);
  entry.quick = (int32_t)record_quick(entry.call, 0);
  entry.code = patches->place.bias + patches->symbols.at[number].address;
  entry.code_bytes = (uint32_t)patches->symbols.at[number].bytes;
  return entry;
}

void linked_patches_note(size_t number, struct linked_done *done) {
  done->functions++;
  done->entries = (uint32_t)number + 1;
}

bool linked_patches_complain(const struct linked_patches *patches, char *text, size_t bytes) {
  bool any_given_up = false;
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < patches->count; i++) {
    const struct linked_symbol *symbol = &patches->symbols.at[i];
    if (!patches->why[i] || symbol->means.kind == LINKED_LOOK_UP)
      continue;
    any_given_up |= is_needed(patches, i);
    int more = snprintf(text + used, bytes - used, "%s%s%s %s", used ? ", " : "", symbol->prefix, symbol->name,
                        patches->why[i]);
    used += more > 0 && (size_t)more < bytes - used ? (size_t)more : 0;
  }
  return any_given_up;
}

/* SPDX-License-Identifier: MIT */
/* dlopen and dlclose.

   dlclose: after it, another library may get the addresses of the closed one, so the collector reads the modules before
   it, and unwind rules are forgotten after it.

   dlopen(RTLD_DEEPBIND): such a library's references are bound to its own dependencies first, so its calls of malloc
   and free bypass us and go to the C library, although it may release objects that were acquired through us, and vice
   versa. The references that would be bound to us without that flag are bound to us again; all others stay.

   Not reached: calls of the library's own constructors (they run inside the real dlopen), and libraries named without a
   slash, as the real dlopen searches for those by its caller's paths, and we would be its caller.

   Allocators: their references to functions of their own (libraries_bind_own, real.h). */
#include "capture/host/process.h"
#include "capture/host/real/real.h"
#include "capture/host/stacks/stack.h"
#include "core/base/os.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Called from the assembly below. */
void *deepbind_real(void);
void *deepbind_open(const char *file, int mode);
int deepbind_wants(const char *file);

static void *(*real_dlopen)(const char *, int);

__attribute__((used, visibility("hidden"))) void *deepbind_real(void) {
  if (!real_dlopen)
    real_dlopen = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
  return (void *)real_dlopen;
}

__attribute__((used, visibility("hidden"))) int deepbind_wants(const char *file) {
  return file && strchr(file, '/') != NULL;
}

/* Without the flag the call is passed on unchanged, with the caller that the loader looks at. */
#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOBAL_DATA = R_X86_64_GLOB_DAT, ABSOLUTE = R_X86_64_64 };

__asm__(".text\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        "dlopen:\n"
        "  push %rdi\n"
        "  push %rsi\n"
        "  sub $8, %rsp\n"
        "  test $8, %esi\n" /* RTLD_DEEPBIND */
        "  jz 1f\n"
        "  call deepbind_wants\n"
        "  test %eax, %eax\n"
        "  jz 1f\n"
        "  add $8, %rsp\n"
        "  pop %rsi\n"
        "  pop %rdi\n"
        "  jmp deepbind_open\n"
        "1:\n"
        "  call deepbind_real\n"
        "  add $8, %rsp\n"
        "  pop %rsi\n"
        "  pop %rdi\n"
        "  jmp *%rax\n"
        ".size dlopen, .-dlopen\n");
#else
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOBAL_DATA = R_AARCH64_GLOB_DAT, ABSOLUTE = R_AARCH64_ABS64 };

__asm__(".text\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        "dlopen:\n"
        "  stp x29, x30, [sp, #-32]!\n"
        "  stp x0, x1, [sp, #16]\n"
        "  tbz w1, #3, 1f\n" /* RTLD_DEEPBIND */
        "  bl deepbind_wants\n"
        "  cbz w0, 1f\n"
        "  ldp x0, x1, [sp, #16]\n"
        "  ldp x29, x30, [sp], #32\n"
        "  b deepbind_open\n"
        "1:\n"
        "  bl deepbind_real\n"
        "  mov x16, x0\n"
        "  ldp x0, x1, [sp, #16]\n"
        "  ldp x29, x30, [sp], #32\n"
        "  br x16\n"
        ".size dlopen, .-dlopen\n");
#endif
_Static_assert(RTLD_DEEPBIND == 8, "the bit in dlopen");

/* This library's own addresses. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static bool is_ours(const void *address) {
  return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

struct object {
  ElfW(Addr) relro_from, relro_to;
  const ElfW(Sym) * symbols;
  const char *names;
  size_t names_bytes;
  const ElfW(Rela) * relocations[2];
  size_t relocation_bytes[2];
};

static bool put(const struct object *object, void **reference, void *value) {
  uintptr_t os_page = (uintptr_t)sysconf(_SC_PAGESIZE), page = (uintptr_t)reference & ~(os_page - 1);
  bool sealed = (uintptr_t)reference >= object->relro_from && (uintptr_t)reference < object->relro_to;
  if (sealed && (!host_may(HOST_REBIND) || mprotect((void *)page, os_page, PROT_READ | PROT_WRITE) != 0))
    return false;
  __atomic_store_n(reference, value, __ATOMIC_RELEASE);
  if (sealed)
    mprotect((void *)page, os_page, PROT_READ);
  return true;
}

/* The symbol to which the relocation's reference is bound; NULL: it is another kind of relocation. */
static const ElfW(Sym) * referred(const struct object *object, const ElfW(Rela) * relocation) {
  unsigned type = (unsigned)ELF64_R_TYPE(relocation->r_info);
  if ((type != JUMP_SLOT && type != GLOBAL_DATA && type != ABSOLUTE) || relocation->r_addend)
    return NULL;
  return &object->symbols[ELF64_R_SYM(relocation->r_info)];
}

static bool put_back(const struct object *object, ElfW(Addr) base, const ElfW(Rela) * relocation) {
  const ElfW(Sym) *symbol = referred(object, relocation);
  const char *name = symbol ? object->names + symbol->st_name : "";
  /* The names of the hook list and of the operators begin with one of these; a look-up costs a microsecond. */
  if (!*name || symbol->st_shndx != SHN_UNDEF || !strchr("_acfmprv", *name))
    return true;
  void *global = dlsym(RTLD_DEFAULT, name);
  void **reference = (void **)(base + relocation->r_offset);
  if (global && is_ours(global) && *reference != global)
    put(object, reference, global);
  return true;
}

static void read_dynamic(struct object *object, uintptr_t base, const ElfW(Dyn) * entry) {
  for (; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SYMTAB)
      object->symbols = (const ElfW(Sym) *)symbols_pointer(base, entry);
    else if (entry->d_tag == DT_STRTAB)
      object->names = (const char *)symbols_pointer(base, entry);
    else if (entry->d_tag == DT_STRSZ)
      object->names_bytes = entry->d_un.d_val;
    else if (entry->d_tag == DT_JMPREL || entry->d_tag == DT_RELA)
      object->relocations[entry->d_tag == DT_RELA] = (const ElfW(Rela) *)symbols_pointer(base, entry);
    else if (entry->d_tag == DT_PLTRELSZ || entry->d_tag == DT_RELASZ)
      object->relocation_bytes[entry->d_tag == DT_RELASZ] = entry->d_un.d_val;
  }
}

static struct object read_object(const struct dl_phdr_info *info) {
  struct object object = {0};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type == PT_DYNAMIC)
      read_dynamic(&object, info->dlpi_addr, (const ElfW(Dyn) *)(info->dlpi_addr + header->p_vaddr));
    if (header->p_type == PT_GNU_RELRO) {
      object.relro_from = info->dlpi_addr + header->p_vaddr;
      object.relro_to = object.relro_from + header->p_memsz;
    }
  }
  return object;
}

/* Passes each relocation to `change`; false: one of these calls returned false. */
static bool change_references(const struct dl_phdr_info *info,
                              bool (*change)(const struct object *, ElfW(Addr), const ElfW(Rela) *)) {
  struct object object = read_object(info);
  bool all = true;
  for (int table = 0; table < 2 && object.symbols && object.names; table++)
    for (size_t i = 0; i < object.relocation_bytes[table] / sizeof(ElfW(Rela)); i++)
      all &= change(&object, info->dlpi_addr, &object.relocations[table][i]);
  return all;
}

/* New objects are at the list's end. An object that another thread has loaded meanwhile is already bound according to
   the global scope, so nothing changes for it. */
struct visit {
  size_t count, skip;
};

static int visit_object(struct dl_phdr_info *info, size_t bytes, void *context) {
  struct visit *visit = context;
  (void)bytes;
  if (visit->count++ >= visit->skip)
    change_references(info, put_back);
  return 0;
}

__attribute__((used, visibility("hidden"))) void *deepbind_open(const char *file, int mode) {
  struct visit before = {.skip = SIZE_MAX};
  void *(*open)(const char *, int) = (void *(*)(const char *, int))deepbind_real();
  if (!open)
    return NULL;
  dl_iterate_phdr(visit_object, &before);
  void *handle = open(file, mode);
  struct visit after = {.skip = before.count};
  if (handle)
    dl_iterate_phdr(visit_object, &after);
  return handle;
}

/* --- allocators --- */

static const struct {
  const char *name;
  void *winner; /* ours, unless the program defines the name */
} hooks[] = {
#define HOOK(ident, ...) {#ident, (void *)ident},
#define OPERATOR(ident, symbol, ...) {symbol, (void *)ident},
#include "capture/host/real/entry_points.def"
};

static bool bind_own(const struct object *object, ElfW(Addr) base, const ElfW(Rela) * relocation) {
  const ElfW(Sym) *symbol = referred(object, relocation);
  for (size_t i = 0; symbol && i < sizeof hooks / sizeof *hooks; i++) {
    uintptr_t from, to;
    if (!is_ours(hooks[i].winner) || strcmp(object->names + symbol->st_name, hooks[i].name) != 0)
      continue;
    void *own = dlsym(RTLD_NEXT, hooks[i].name), **reference = (void **)(base + relocation->r_offset);
    if (!own || !real_library_of(own, &from, &to) || (uintptr_t)reference < from || (uintptr_t)reference >= to)
      return false;
    return put(object, reference, own);
  }
  return true;
}

struct bind {
  const void *base;
  bool all;
};

static int bind_object(struct dl_phdr_info *info, size_t bytes, void *context) {
  struct bind *bind = context;
  (void)bytes;
  if (!info->dlpi_name || (const void *)info->dlpi_addr != bind->base)
    return 0;
  bind->all = change_references(info, bind_own);
  return 1;
}

bool libraries_bind_own(const void *function) {
  Dl_info info;
  if (!dladdr(function, &info))
    return false;
  struct bind bind = {info.dli_fbase, false};
  dl_iterate_phdr(bind_object, &bind);
  return bind.all;
}

struct text {
  const void *base;
  const char *name;
  bool found;
};

static int find_text(struct dl_phdr_info *info, size_t bytes, void *context) {
  struct text *text = context;
  (void)bytes;
  if ((const void *)info->dlpi_addr != text->base)
    return 0;
  struct object object = read_object(info);
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    const char *at = (const char *)(info->dlpi_addr + header->p_vaddr), *end = at + header->p_memsz;
    if (header->p_type != PT_LOAD || (header->p_flags & (PF_R | PF_W)) != PF_R)
      continue;
    while ((at = memmem(at, (size_t)(end - at), text->name, strlen(text->name) + 1)) &&
           (uintptr_t)at - (uintptr_t)object.names < object.names_bytes)
      at++;
    text->found |= at != NULL;
  }
  return 1;
}

bool libraries_has_text(const void *function, const char *name) {
  Dl_info info;
  struct text text = {dladdr(function, &info) ? info.dli_fbase : NULL, name, false};
  dl_iterate_phdr(find_text, &text);
  return text.found;
}

/* --- dlclose --- */

void stack_wait_for_collector(void) {
  enum { TRIES = 5, WAIT_NS = 20000000 };
  struct stack_area *area = stack_settings.area;
  int error = errno;
  if (!area || host_state.flags & ATTACH_DROP || process_is_off())
    return;
  uint32_t requested = atomic_fetch_add(&area->requested, 1) + 1;
  for (int i = 0; i < TRIES && !host_collector_died(); i++) {
    uint32_t answered = atomic_load(&area->answered);
    if ((int32_t)(answered - requested) >= 0)
      break;
    host_wake_collector();
    os_futex_wait((const uint32_t *)&area->answered, answered, WAIT_NS, true);
  }
  errno = error;
}

/* Unwind rules of code that may be unmapped must be computed again, so their tags are made invalid. */
static void forget_rules(struct stack_area *area) {
  for (uint32_t i = 0; i < STACK_RULES; i++)
    if (atomic_load_explicit(&area->rules[i].instruction, memory_order_relaxed))
      atomic_store_explicit(&area->rules[i].rule, 0, memory_order_relaxed);
  atomic_fetch_add(&area->generation, 1);
}

__attribute__((visibility("default"))) int dlclose(void *handle) {
  static int (*_Atomic real_dlclose)(void *);
  if (!real_dlclose) {
    union {
      void *data;
      int (*code)(void *);
    } symbol = {.data = dlsym(RTLD_NEXT, "dlclose")};
    real_dlclose = symbol.code;
  }
  stack_wait_for_collector();
  int result = real_dlclose(handle);
  if (stack_settings.area)
    forget_rules(stack_settings.area);
  return result;
}

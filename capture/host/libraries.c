/* SPDX-License-Identifier: MIT */
/* dlopen, dlmopen and dlclose.

   dlclose: after it, another library may get the addresses of the closed one, so the collector reads the modules before
   it, and unwind rules are forgotten after it.

   dlopen(RTLD_DEEPBIND): such a library's references are bound to its own dependencies first, so its calls of malloc
   and free would bypass us and go to the C library, although it may release objects that were acquired through us. So
   before the first such call, the symbol tables of the libraries that define the real functions are made to lead to the
   hooks. A name that leads to another function than the hook calls stays: where the program's malloc is another than
   the C library's, which the library's calls then go to, their loss is noted. The call itself is passed on with the
   caller that the loader looks at: it searches by the caller's paths.

   dlmopen: objects in another name space have a C library of their own, whose calls are lost; this is noted.

   Allocators: their references to functions of their own (libraries_bind_own, real.h).

   Control calls: references to functions that only some allocators have (control_calls.h), and
   what a look-up in a library returns once the program opens libraries. */
#include "capture/host/hooks/control_calls.h"
#include "capture/host/process.h"
#include "capture/host/real/real.h"
#include "capture/host/stacks/stack.h"
#include "core/base/os.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Called from the assembly below. They change no register that they need not, and keep errno. */
void *opening_real(void);
void *opening_deeply(void);
void *opening_another(long name_space);

/* The call is passed on unchanged, by a jump: so the loader sees its caller. */
#if defined(__x86_64__)
#define PASS_ON                                                                                                        \
  "  pop %rdx\n  .cfi_adjust_cfa_offset -8\n"                                                                          \
  "  pop %rsi\n  .cfi_adjust_cfa_offset -8\n"                                                                          \
  "  pop %rdi\n  .cfi_adjust_cfa_offset -8\n"                                                                          \
  "  jmp *%rax\n"
#define ENTER(name)                                                                                                    \
  ".globl " name "\n.type " name ", @function\n" name ":\n  .cfi_startproc\n  endbr64\n"                               \
  "  push %rdi\n  .cfi_adjust_cfa_offset 8\n"                                                                          \
  "  push %rsi\n  .cfi_adjust_cfa_offset 8\n"                                                                          \
  "  push %rdx\n  .cfi_adjust_cfa_offset 8\n"
#define LEAVE(name) "  .cfi_endproc\n.size " name ", .-" name "\n"

__asm__(".text\n" ENTER("dlopen") "  test $8, %esi\n" /* RTLD_DEEPBIND */
                                  "  jnz 1f\n"
                                  "  call opening_real\n"
                                  "  jmp 2f\n"
                                  "1:  call opening_deeply\n"
                                  "2:\n" PASS_ON LEAVE("dlopen")
                                      ENTER("dlmopen") "  call opening_another\n" PASS_ON LEAVE("dlmopen"));
#else
#define PASS_ON                                                                                                        \
  "  mov x16, x0\n"                                                                                                    \
  "  ldp x0, x1, [sp, #16]\n"                                                                                          \
  "  ldr x2, [sp, #32]\n"                                                                                              \
  "  ldp x29, x30, [sp], #48\n"                                                                                        \
  "  .cfi_def_cfa_offset 0\n  .cfi_restore x29\n  .cfi_restore x30\n"                                                  \
  "  br x16\n"
#define ENTER(name)                                                                                                    \
  ".globl " name "\n.type " name ", @function\n" name ":\n  .cfi_startproc\n"                                          \
  "  stp x29, x30, [sp, #-48]!\n"                                                                                      \
  "  .cfi_def_cfa_offset 48\n  .cfi_offset x29, -48\n  .cfi_offset x30, -40\n"                                         \
  "  stp x0, x1, [sp, #16]\n"                                                                                          \
  "  str x2, [sp, #32]\n"
#define LEAVE(name) "  .cfi_endproc\n.size " name ", .-" name "\n"

__asm__(".text\n" ENTER("dlopen") "  tbnz w1, #3, 1f\n" /* RTLD_DEEPBIND */
                                  "  bl opening_real\n"
                                  "  b 2f\n"
                                  "1:  bl opening_deeply\n"
                                  "2:\n" PASS_ON LEAVE("dlopen")
                                      ENTER("dlmopen") "  bl opening_another\n" PASS_ON LEAVE("dlmopen"));
#endif
_Static_assert(RTLD_DEEPBIND == 8, "the bit in dlopen");

/* This library's own addresses. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static bool is_ours(const void *address) {
  return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

static bool put(void **reference, bool sealed, void *value) {
  uintptr_t os_page = (uintptr_t)sysconf(_SC_PAGESIZE), page = (uintptr_t)reference & ~(os_page - 1);
  if (sealed && (!host_may(HOST_REBIND) || mprotect((void *)page, os_page, PROT_READ | PROT_WRITE) != 0))
    return false;
  __atomic_store_n(reference, value, __ATOMIC_RELEASE);
  if (sealed)
    mprotect((void *)page, os_page, PROT_READ);
  return true;
}

/* A reference of an object to a function. */
struct reference {
  const char *name;
  void **at;
  bool sealed; /* by the loader, after it was bound */
};

/* Passes each to `change`; false: one of these calls returned false. */
static bool change_references(const struct dl_phdr_info *info, bool (*change)(const struct reference *)) {
  struct symbols_object object;
  bool all = true;
  if (!symbols_open(info, &object))
    return true;
  const Elf64_Phdr *sealed = elf_segment(&object.segments, PT_GNU_RELRO);
  const Elf64_Sym *symbols = (const Elf64_Sym *)object.dynamic.symbols;
  for (int table = 0; table < 2; table++) {
    const Elf64_Rela *relocations = (const Elf64_Rela *)object.dynamic.relocations[table];
    for (size_t i = 0; i < object.dynamic.relocation_bytes[table] / sizeof *relocations; i++) {
      uint32_t symbol = elf_referred_symbol(&relocations[i]);
      const char *name = symbol ? elf_name(&object.memory, &object.dynamic, symbols[symbol].st_name) : NULL;
      uintptr_t at = relocations[i].r_offset;
      if (name)
        all &= change(&(struct reference){name, (void **)(info->dlpi_addr + at),
                                          sealed && at - sealed->p_vaddr < sealed->p_memsz});
    }
  }
  return all;
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

static bool bind_own(const struct reference *reference) {
  for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
    uintptr_t from, to, at = (uintptr_t)reference->at;
    if (!is_ours(hooks[i].winner) || strcmp(reference->name, hooks[i].name) != 0)
      continue;
    void *own = symbols_next(hooks[i].name);
    if (!own || !real_library_of(own, &from, &to) || at < from || at >= to)
      return false;
    return put(reference->at, reference->sealed, own);
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

/* --- control calls --- */

static bool redirect(const struct reference *reference, enum control_kind from) {
  struct control_function *functions = control_functions();
  for (size_t i = 0; i < control_function_count; i++)
    if (functions[i].real && functions[i].kind >= from && strcmp(reference->name, functions[i].name) == 0)
      return put(reference->at, reference->sealed, functions[i].hook);
  return true;
}

static bool redirect_control(const struct reference *reference) {
  return redirect(reference, CONTROL_LIBC);
}

static bool redirect_virtual(const struct reference *reference) {
  return redirect(reference, CONTROL_VIRTUAL);
}

/* An allocator's references to its own functions stay, but for those to virtual ones, which lie in its tables of them.
 */
static int redirect_object(struct dl_phdr_info *info, size_t bytes, void *context) {
  const struct control_function *functions = control_functions();
  bool may = info->dlpi_name && !is_ours((const void *)info->dlpi_addr);
  (void)bytes, (void)context;
  for (size_t i = 0; may && i < control_function_count; i++) {
    Dl_info of;
    may = !functions[i].real || !dladdr(functions[i].real, &of) || of.dli_fbase != (void *)info->dlpi_addr;
  }
  if (info->dlpi_name && !is_ours((const void *)info->dlpi_addr))
    change_references(info, may ? redirect_control : redirect_virtual);
  return 0;
}

void libraries_redirect_controls(void) {
  const struct control_function *functions = control_functions();
  bool any = false;
  for (size_t i = 0; i < control_function_count; i++)
    any |= functions[i].real && functions[i].kind != CONTROL_LIBC;
  if (any)
    dl_iterate_phdr(redirect_object, NULL);
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
  struct symbols_object object;
  symbols_open(info, &object);
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    const char *at = (const char *)(info->dlpi_addr + header->p_vaddr), *end = at + header->p_memsz;
    if (header->p_type != PT_LOAD || (header->p_flags & (PF_R | PF_W)) != PF_R)
      continue;
    while ((at = memmem(at, (size_t)(end - at), text->name, strlen(text->name) + 1)) &&
           (uintptr_t)at - object.dynamic.names < object.dynamic.name_bytes)
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

/* --- opening --- */

struct lead {
  void *real, *hook;
  const char *name;
  bool done;
};

static int lead_to_hook(struct dl_phdr_info *info, size_t bytes, void *context) {
  struct lead *lead = context;
  Elf64_Sym *symbol = symbols_find(info, lead->name);
  (void)bytes;
  if (!symbol || symbol->st_shndx == SHN_UNDEF || (void *)(info->dlpi_addr + symbol->st_value) != lead->real)
    return 0;
  lead->done = put((void **)&symbol->st_value, true, (void *)((uintptr_t)lead->hook - info->dlpi_addr));
  return 1;
}

/* Makes references to that name, which are bound from now on, lead to the hook, if the first definition behind us is
   the real function. */
static bool lead(const char *name, void *hook, void *real) {
  struct lead lead = {real, hook, name, false};
  if (is_ours(hook))
    dl_iterate_phdr(lead_to_hook, &lead);
  return lead.done;
}

/* Before the program opens its first library: it may look control calls up there. */
static void lead_controls(void) {
  static _Atomic bool done;
  int error = errno;
  if (done || !real_resolve())
    return;
  done = true;
  const struct control_function *functions = control_functions();
  for (size_t i = 0; i < control_function_count; i++)
    if (functions[i].real)
      lead(functions[i].name, functions[i].hook, functions[i].real);
  errno = error;
}

/* Does that library, without which the C library's functions would be called, define the real malloc? */
static bool is_libcs_malloc(void) {
  union {
    void *(*code)(size_t);
    void *data;
  } malloc_code = {.code = real.malloc};
  return symbols_code_near(malloc_code.data, "__libc_start_main") != NULL;
}

static void lead_all_to_hooks(void *ignored) {
  static _Atomic bool done;
  bool all = is_libcs_malloc();
  (void)ignored;
  if (!done) {
    union {
      void *data;
      void (*code)(void);
    } function;
    if (real_began_with_cpp() && !operators.flags)
      operators_find(NULL);
#define HOOK(ident, ...)                                                                                               \
  function.code = (void (*)(void))real.ident;                                                                          \
  lead(#ident, (void *)ident, function.data);
#define OPERATOR(ident, symbol, ...)                                                                                   \
  function.code = (void (*)(void))operators.ident;                                                                     \
  if (operators.flags & OPERATORS_RECORDED)                                                                            \
    lead(symbol, (void *)ident, function.data);
#include "capture/host/real/entry_points.def"
    done = true;
  }
  if (!all)
    host_note_lost_calls();
}

__attribute__((used, visibility("hidden"))) void *opening_real(void) {
  static void *_Atomic code;
  void *known = code;
  lead_controls();
  if (!known)
    code = known = symbols_next("dlopen");
  return known;
}

__attribute__((used, visibility("hidden"))) void *opening_deeply(void) {
  real_resolve();
  if (!own_stack_run(lead_all_to_hooks, NULL))
    host_note_lost_calls();
  return opening_real();
}

__attribute__((used, visibility("hidden"))) void *opening_another(long name_space) {
  static void *_Atomic code;
  void *known = code;
  if (!known)
    code = known = symbols_next("dlmopen");
  if (name_space != LM_ID_BASE)
    host_note_lost_calls();
  return known;
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
    } symbol = {.data = symbols_next("dlclose")};
    real_dlclose = symbol.code;
  }
  stack_wait_for_collector();
  int result = real_dlclose(handle);
  operators_forget();
  if (stack_settings.area)
    forget_rules(stack_settings.area);
  return result;
}

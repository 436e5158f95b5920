/* SPDX-License-Identifier: MIT */
#include "capture/host/real/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

struct operators operators;

/* Addresses of which calls made during an operator's call are a part of it. */
enum { RANGES_MAX = 96 };
struct ranges {
  struct range {
    uintptr_t from, to;
  } range[RANGES_MAX];
  uint32_t count;
};
static struct ranges standard, others;

static const char *const symbols[] = {
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param) symbol,
#include "capture/host/real/entry_points.def"
};
enum { OPERATORS = sizeof symbols / sizeof *symbols };

/* The functions to which the dynamic linker binds these names: ours, unless the program has its own. */
static void *const winners[] = {
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param) (void *)ident,
#include "capture/host/real/entry_points.def"
};

/* For a name that cannot be found again, although it could be called: by a library that was loaded with dlopen and has
   its operators from a third one. */
#define OPERATOR_NEW_MISSING(ident, param) return param ? real.memalign(param, size) : real.malloc(size);
#define OPERATOR_DELETE_MISSING(ident, param) real.free(object);
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  _Pragma("GCC diagnostic push")                                                                                       \
      _Pragma("GCC diagnostic ignored \"-Wunused-parameter\"") static result missing_##ident declaration{              \
          OPERATOR_##kind##_MISSING(ident, param)} _Pragma("GCC diagnostic pop")
#include "capture/host/real/entry_points.def"

void operators_serve_early(void) {
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param) operators.ident = missing_##ident;
#include "capture/host/real/entry_points.def"
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool is_standard(const char *path) {
  static const char *const standard[] = {"libstdc++.so", "libc++.so", "libc++abi.so"};
  for (size_t i = 0; i < sizeof standard / sizeof *standard; i++)
    if (strncmp(base_name(path), standard[i], strlen(standard[i])) == 0)
      return true;
  return false;
}

static bool is_among(const struct ranges *all, const void *address) {
  for (uint32_t i = 0; i < all->count; i++)
    if ((uintptr_t)address - all->range[i].from < all->range[i].to - all->range[i].from)
      return true;
  return false;
}

struct operators_hull operators_hull = {UINTPTR_MAX, 0};

static void add_range(struct ranges *to, uintptr_t from, uintptr_t end) {
  if (from < operators_hull.from)
    operators_hull.from = from;
  if (end > operators_hull.end)
    operators_hull.end = end;
  if (to->count < RANGES_MAX)
    to->range[to->count++] = (struct range){from, end};
}

static int add_standard(struct dl_phdr_info *info, size_t bytes, void *context) {
  (void)bytes;
  if (!is_standard(info->dlpi_name))
    return 0;
  for (int i = 0; i < OPERATORS; i++) {
    const ElfW(Sym) *symbol = symbols_find(info, symbols[i]);
    if (symbol && symbol->st_shndx != SHN_UNDEF)
      add_range(context, info->dlpi_addr + symbol->st_value, info->dlpi_addr + symbol->st_value + symbol->st_size);
  }
  return 0;
}

/* Adds the library of a function that is neither the standard library's nor the allocator's: all of it counts, as its
   operators may call any of its functions. */
static void add_library_of(struct ranges *to, void *function) {
  struct range library;
  if (!is_among(to, function) && !real_is_allocator_code(function) &&
      real_library_of(function, &library.from, &library.to))
    add_range(to, library.from, library.to);
}

static bool of_standard(void *function) {
  Dl_info info;
  return dladdr(function, &info) && info.dli_fname && is_standard(info.dli_fname);
}

/* Sets the pointer at *target. Returns flag if the operator is missing or the standard library's, else 0. */
static uint32_t take(void **target, void *function, void *missing, uint32_t flag, struct ranges *to) {
  if (function && real_is_ours(function))
    function = NULL;
  *target = function ? function : missing;
  if (!function)
    return flag;
  if (of_standard(function))
    return flag;
  add_library_of(to, function);
  return 0;
}

/* As enum operator_flags, but not in operators.flags: the operators delete are the standard library's, which only call
   free. */
enum { DELETE_IS_FREE = 1 << 16 };
#define OPERATOR_NEW_FLAG OPERATORS_NEW_IS_MALLOC
#define OPERATOR_DELETE_FLAG DELETE_IS_FREE

/* Sets what depends on all operators. plain: the flags of the kinds that are the standard library's. free ignores the
   further arguments of an operator. */
static void choose_quick(struct operators *resolved, uint32_t plain) {
#if defined(__x86_64__)
  bool quiet = true;
#else
  bool quiet = false; /* hooks.c has no frame for one that throws */
#endif
#define OPERATOR_NEW_QUICK(ident, result, declaration)                                                                 \
  union {                                                                                                              \
    result(*code) declaration;                                                                                         \
    void *data;                                                                                                        \
  } its_##ident = {resolved->ident};                                                                                   \
  quiet &= real_calls_no_hook(its_##ident.data);
#define OPERATOR_DELETE_QUICK(ident, result, declaration)                                                              \
  union {                                                                                                              \
    result(*code) declaration;                                                                                         \
    void (*free)(void *object);                                                                                        \
    void *data;                                                                                                        \
  } its_##ident = {resolved->ident};                                                                                   \
  if (plain & DELETE_IS_FREE)                                                                                          \
    its_##ident.free = real.free;                                                                                      \
  else if (!real_calls_no_hook(its_##ident.data))                                                                      \
    its_##ident.data = NULL;                                                                                           \
  resolved->quick_##ident = its_##ident.code;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  OPERATOR_##kind##_QUICK(ident, result, declaration)
#include "capture/host/real/entry_points.def"
  resolved->flags |= (plain & OPERATORS_NEW_IS_MALLOC) | (quiet ? OPERATORS_NEW_IS_QUIET : 0);
}

/* scope NULL: what comes after us. */
static void find_from(const struct symbols_scope *scope) {
  struct operators resolved = {.flags = OPERATORS_FOUND | OPERATORS_RECORDED};
  struct ranges in_standard = {.count = 0}, in_others = {.count = 0};
  dl_iterate_phdr(add_standard, &in_standard);
  uint32_t plain = OPERATORS_NEW_IS_MALLOC | DELETE_IS_FREE;
  bool replaced = false;
  int at = 0;
/* A union turns the data pointer of dlsym into a function pointer without a cast that ISO C forbids. */
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  {                                                                                                                    \
    union {                                                                                                            \
      void *data;                                                                                                      \
      result(*code) declaration;                                                                                       \
    } next, missing = {.code = missing_##ident};                                                                       \
    uint32_t flag = take(&next.data, scope ? symbols_in(scope, symbol) : symbols_next(symbol), missing.data,           \
                         OPERATOR_##kind##_FLAG, &in_others);                                                          \
    plain &= flag ? ~(uint32_t)0 : ~(uint32_t)OPERATOR_##kind##_FLAG;                                                  \
    resolved.ident = next.code;                                                                                        \
    replaced |= real_is_replaced(winners[at], symbols[at]);                                                            \
    at++;                                                                                                              \
  }
#include "capture/host/real/entry_points.def"
  if (real_malloc_is_the_programs() || (replaced && plain))
    resolved.flags = OPERATORS_FOUND;
  else
    choose_quick(&resolved, plain);
  /* Two threads may do this at the same time: they find the same operators. */
  uint32_t flags = resolved.flags;
  resolved.flags = operators.flags;
  standard = in_standard;
  others = in_others;
  operators = resolved;
  __atomic_store_n(&operators.flags, flags, __ATOMIC_RELEASE);
}

/* Takes the operators as the recorder found them; see look_up. Operators that the program lacks are never called
   through us. */
static void take_from_recorder(const struct redirect_table *table) {
  struct operators resolved = {.flags = OPERATORS_FOUND};
  struct ranges in_standard = {.count = 0}, in_others = {.count = 0};
  const struct redirect_call *call = table->call;
  bool any = false;
  uint32_t plain = OPERATORS_NEW_IS_MALLOC | DELETE_IS_FREE;
  while (call->kind != REDIRECT_OPERATOR)
    call++;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  {                                                                                                                    \
    union {                                                                                                            \
      void *data;                                                                                                      \
      result(*code) declaration;                                                                                       \
    } listed = {.data = (void *)call->real};                                                                           \
    resolved.ident = listed.data ? listed.code : missing_##ident;                                                      \
    any |= listed.data != NULL;                                                                                        \
    if (call->place == REDIRECT_STANDARD)                                                                              \
      add_range(&in_standard, call->real, call->real + call->bytes);                                                   \
    if (call->place == REDIRECT_OTHER) {                                                                               \
      plain &= ~(uint32_t)OPERATOR_##kind##_FLAG;                                                                      \
      if (!is_among(&in_others, listed.data) && !real_is_allocator_code(listed.data))                                  \
        add_range(&in_others, call->from, call->to);                                                                   \
    }                                                                                                                  \
    call++;                                                                                                            \
  }
#include "capture/host/real/entry_points.def"
  standard = in_standard;
  others = in_others;
  if (any) {
    resolved.flags |= OPERATORS_RECORDED;
    choose_quick(&resolved, plain);
  }
  uint32_t flags = resolved.flags;
  resolved.flags = operators.flags;
  operators = resolved;
  __atomic_store_n(&operators.flags, flags, __ATOMIC_RELEASE);
}

static int find_standard(struct dl_phdr_info *info, size_t bytes, void *context) {
  (void)bytes;
  const ElfW(Sym) *symbol = is_standard(info->dlpi_name) ? symbols_find(info, "_Znwm") : NULL;
  if (!symbol || symbol->st_shndx == SHN_UNDEF)
    return 0;
  *(const void **)context = (const void *)(info->dlpi_addr + symbol->st_value);
  return 1;
}

void operators_find(void *caller) {
  real_resolve();
  if (redirected_table()) {
    take_from_recorder(redirected_table());
    return;
  }
  if (real_began_with_cpp()) {
    find_from(NULL);
    return;
  }
  struct symbols_scope scope;
  const void *standard;
  symbols_open_scope(&scope, caller); /* operators of a library that was loaded by dlopen may be in no other scope */
  if (!symbols_in(&scope, "_Znwm") && dl_iterate_phdr(find_standard, &standard))
    symbols_open_scope(&scope, standard);
  find_from(&scope);
}

static bool are_loaded(void) {
  uintptr_t from, to;
  bool all = true;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  {                                                                                                                    \
    union {                                                                                                            \
      result(*code) declaration;                                                                                       \
      void *data;                                                                                                      \
    } its = {operators.ident};                                                                                         \
    all = all && real_library_of(its.data, &from, &to);                                                                \
  }
#include "capture/host/real/entry_points.def"
  return all;
}

/* Others would not know the objects that there are. */
void operators_forget(void) {
  if (real_began_with_cpp() || redirected_table() || are_loaded())
    return;
#define QUICK_NEW_FORGET(ident)
#define QUICK_DELETE_FORGET(ident) operators.quick_##ident = NULL;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param) QUICK_##kind##_FORGET(ident)
#include "capture/host/real/entry_points.def"
  __atomic_store_n(&operators.flags, 0, __ATOMIC_RELEASE);
}

bool operators_are_at(const void *address, bool alike) {
  if (alike && real_is_operator_code(address))
    return true;
  return operators_may_be_at(address) && ((alike && is_among(&standard, address)) || is_among(&others, address));
}

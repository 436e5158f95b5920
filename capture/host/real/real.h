/* SPDX-License-Identifier: MIT */
/* The real functions: those of the next library after ours, looked up on first use, and a small static arena for memory
   that dlsym itself allocates meanwhile.

   Job, too: the prototypes of the entry points, for the compiler's checks (libc's headers lack some of them and mark
   others with attributes), and how the library came into the program: preloaded (libheaptape.so), or loaded into a
   running program (libheaptape-attach.so), where the recorder redirects references to our hooks and provides the real
   functions (capture/attach/). Not its job: recording. Invariants: real.* can be called at any time, from the very
   first call on; an arena object is never passed to a real function. Async-signal-safe after real_resolve has returned.
 */
#pragma once

#include "capture/wire/linked.h"
#include "capture/wire/redirect.h"
#include "core/elf/elf.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOOK(ident, kind, result, declaration, arguments, size, param) result ident declaration;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  result ident declaration __asm__(symbol);
#include "capture/host/real/entry_points.def"

struct real_calls {
#define HOOK(ident, kind, result, declaration, arguments, size, param) result(*ident) declaration;
#include "capture/host/real/entry_points.def"
};
extern struct real_calls real __attribute__((visibility("hidden")));

/* Functions that glibc exports as __libc_NAME, too. real_libc_NAME: that function, where the real one is another
   library's, which may be made of it; else NULL. */
#define REAL_LIBC_NAMES(X) X(malloc) X(free) X(calloc) X(realloc) X(memalign) X(valloc) X(pvalloc)
#define REAL_LIBC(ident) extern void *real_libc_##ident __attribute__((visibility("hidden")));
REAL_LIBC_NAMES(REAL_LIBC)
#undef REAL_LIBC

/* Looks the real functions up; later calls return at once. False: this thread is already looking them up (dlsym
   allocates). Keeps errno. */
bool real_resolve(void);

/* Base name of the library whose malloc is called; valid after real_resolve. */
const char *real_allocator_name(void);

/* Does the allocator have a malloc_usable_size for its own objects? Valid after real_resolve. */
bool real_has_usable_size(void);

/* In libraries.c: an object in which functions of an allocator are. Its references to hooks of ours whose real
   functions it defines itself are changed to these, as if it had been linked with -Bsymbolic: so its functions never
   call hooks. (Calls that it makes of itself outside any call of the program are not recorded either.) False: some
   could not be changed, or refer to another library's functions. Call while real_resolve is looking up. */
bool libraries_bind_own(const void *function);

/* Has the object of that function the name among its constants, other than its symbols' names? */
bool libraries_has_text(const void *function, const char *name);

/* Does the program define malloc itself, so that no call of malloc reaches us? Valid after real_resolve. */
bool real_malloc_is_the_programs(void);

/* Did the program have a C++ library when it began? Valid after real_resolve. */
bool real_began_with_cpp(void);

/* Is this code address ours? */
bool real_is_ours(const void *address);

/* winner: what the dynamic linker returns for the name of one of our hooks. True: the program has defined that name. */
bool real_is_replaced(void *winner, const char *name);

/* Finds the addresses that the library of this code occupies; false: libc, or not known. */
bool real_library_of(const void *address, uintptr_t *from, uintptr_t *to);

/* Is this code address inside an allocator? In glibc none is, as it never calls its own malloc from within; in musl
   only the allocator's functions are. Distinguishes calls that an allocator makes from those of a signal handler that
   interrupted it. */
bool real_is_allocator_code(const void *address);

/* The same as real_is_allocator_code for an address from which an allocator's operator new calls, or a new-handler of
   the program: in an executable with an allocator, only addresses in the functions that are redirected are the
   allocator's.
 */
bool real_is_operator_code(const void *address);

/* May the real functions call ours? glibc's never do; an allocator's library calls its own functions directly, as its
   references to them are changed (libraries_bind_own). It may where it refers to functions of another library. musl's
   malloc, free and realloc don't call others, its other functions may. Valid after real_resolve. */
bool real_may_call_back(void);
bool real_is_musl(void);

/* Is that operator of an allocator's library, and calls no hook? False where the library may look up other operators
   (dlsym), as libraries that count calls do: the standard library's call malloc. */
bool real_calls_no_hook(const void *function);

/* The bootstrap arena: memory of calls from before the library's relocation. */
extern char real_arena[] __attribute__((visibility("hidden")));
enum { REAL_ARENA_BYTES = 1 << 16 };

static inline bool real_in_arena(const void *object) {
  return (uintptr_t)object - (uintptr_t)real_arena < REAL_ARENA_BYTES;
}
size_t real_arena_usable(const void *object);

/* Bytes from its start that hold objects; final after real_resolve. */
size_t real_arena_used_bytes(void);

/* realloc of an arena object: returns a real object with its content; the old one is never reused. */
void *real_arena_move(const void *object, size_t size_bytes);

/* Has the dynamic linker relocated this library? */
bool real_is_relocated(void);

/* Before that: calls of real.* that follow are served from the arena, until it is. */
void real_serve_early(void);

/* The table in which the recorder has written the real functions; NULL: the library was preloaded. The same at all
   times. Async-signal-safe. Defined here as NULL, and in capture/attach/library/ for libheaptape-attach.so. */
struct redirect_table *redirected_table(void);

/* Functions of an allocator that is linked into the executable, which the collector redirects to our hooks:
   capture/linked/hooks/. Where that is not there, each does nothing.

   linked_offer and linked_take are called with the process locked, and may change errno. linked_offer, once per image:
   maps the memory near the executable, never writable here, which the collector fills in, and gives the table of the
   functions; place->room is 0 where there is no memory. A fork child has its parent's. linked_take, after the
   collector's reply: where no functions are redirected, unmaps the memory; else the executable's addresses count as an
   allocator's from now on (real_add_executable). */
void linked_offer(struct linked_place *place);
void linked_take(const struct linked_place *place, const struct linked_done *done);
void real_add_executable(uintptr_t from, uintptr_t to);

/* The table of the redirected functions is where the recorder of a running program has put it. */
void linked_use(const struct linked_function *functions, uint32_t entries);

/* Is the return address in a redirected function? */
bool linked_is_function(const void *address);

/* Symbols of loaded objects (symbols.c), read from their own tables. Allocates nothing, leaves what dlerror returns,
   and calls nothing by a name that the program may define; takes the locks of dl_iterate_phdr only. */

/* A loaded object, as core/elf/elf.h reads it. */
struct symbols_object {
  struct elf_segments segments;
  struct elf_memory memory;
  struct elf_dynamic dynamic;
  uintptr_t section; /* of dynamic */
};
/* False: it has no symbols; segments and memory are filled in. */
bool symbols_open(const struct dl_phdr_info *info, struct symbols_object *object);

/* That symbol of the object, defined there or not, or NULL. */
Elf64_Sym *symbols_find(const struct dl_phdr_info *info, const char *name);

/* The code of that function of the object that contains that address; NULL: it has none. */
void *symbols_code_near(const void *address, const char *name);

/* The same for the object that contains that address. */
const ElfW(Sym) * symbols_find_near(const void *address, const char *name);

/* What dlsym(RTLD_NEXT) would return to us: from the objects with which the program began, once symbols_begin has noted
   them. NULL: nothing. */
void symbols_begin(void);
void *symbols_next(const char *name);

/* The same for several names in one pass over the objects. code: NULL before. */
struct symbols_wanted {
  const char *name;
  void *code;
};
void symbols_next_all(struct symbols_wanted *wanted, size_t count);

/* An object and what it needs, in the order in which dlsym would search for a name. */
enum { SYMBOLS_SCOPE_MOST = 64 };
struct symbols_scope {
  struct dl_phdr_info object[SYMBOLS_SCOPE_MOST];
  uint32_t count;
  const void *inside;
};
void symbols_open_scope(struct symbols_scope *scope, const void *inside);
void *symbols_in(const struct symbols_scope *scope, const char *name);

/* --- operators.c --- */

/* The real C++ operators new and delete: those that the program would call without us.

   Job: find these operators, and recognise the calls of malloc and free that operators make internally. Invariants:
   libheaptape.so needs no C++ library and brings none into a C program. So the operators are searched only among the
   loaded libraries: at the start where the program has a C++ library, else when the first operator is called, which is
   then in a library loaded by dlopen. Once flags is not 0, all pointers are set. */

enum operator_flags {
  OPERATORS_FOUND = 1,
  /* The program's operator calls are recorded. Not set where the program itself replaces one operator and the others
     are the standard library's: these call the program's, and its calls of malloc are recorded. Nor where the program
     brings its own malloc, whose calls cannot be recorded. */
  OPERATORS_RECORDED = 2,
  /* Only with RECORDED. The operators are the standard library's, which only call malloc: our hooks call malloc
     directly, and the operator only where there is no memory. This halves the cost of recording a C++ program, as the
     operator's inner call would reach our hooks again. Not for the aligned forms of new. */
  OPERATORS_NEW_IS_MALLOC = 4,
  OPERATORS_NEW_IS_QUIET = 8, /* only with RECORDED: the operators are an allocator's, and call no hook */
};

struct operators {
  uint32_t flags;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param) result(*ident) declaration;
#include "capture/host/real/entry_points.def"
/* Where it is recorded and calls no hook: the operator, or free, which does the same; else NULL. */
#define QUICK_NEW(ident, result, declaration)
#define QUICK_DELETE(ident, result, declaration) result(*quick_##ident) declaration;
#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  QUICK_##kind(ident, result, declaration)
#include "capture/host/real/entry_points.def"
#undef QUICK_NEW
#undef QUICK_DELETE
};
extern struct operators operators __attribute__((visibility("hidden")));

/* Finds the operators; two threads may do so at the same time. caller: an address in the program or library that calls
   an operator. Takes some 10 KiB of stack; may change errno. */
void operators_find(void *caller);

/* Where the library is called too early for that: an operator takes memory from real.malloc, until they are found. */
void operators_serve_early(void);

/* After a library was closed: if operators that came by dlopen were in it, they are looked up again. */
void operators_forget(void);

/* Is a call made from this address, during an operator's call, a part of it? It is if it comes from another library
   that has its own operators. If it comes from an operator of the standard library or from the allocator, it is only if
   it is of the same kind (alike): an acquire in a new, a release in a delete. */
bool operators_are_at(const void *address, bool alike);

/* From the first to the last byte of the standard library's operators and of libraries that have their own: most
   addresses are outside. It only grows. */
struct operators_hull {
  uintptr_t from, end;
};
extern struct operators_hull operators_hull __attribute__((visibility("hidden")));

static inline bool operators_may_be_at(const void *address) {
  return (uintptr_t)address >= operators_hull.from && (uintptr_t)address < operators_hull.end;
}

/* SPDX-License-Identifier: MIT */
/* The allocator that is linked into a process's executable: redirects its functions to the hooks of libheaptape.so at
   their entries, and puts them back.

   Not its job: how one is redirected, and their patches' contents (linked_patches.c), to which hooks (redirect.h).
   Invariants: all functions of an allocator or none. Allocates with malloc; prints nothing.

   In a process that begins (linked_redirect): it waits in its attaching meanwhile, and has one thread; else nothing is
   written. It may itself write anything at the addresses that it gave: the memory is its own.

   In a running process (linked_running): what is needed to put the functions back is in the process itself (struct
   linked_room) before anything is redirected, so that any recorder can do it, at any time. That room stays forever,
   unchanged except for where the stubs lead, as a thread may be in a trampoline, or return to one from a signal
   handler. So the functions can be put back wherever threads are, and the next recording uses the same room. */
#pragma once

#include "capture/redirect/entry_patch.h"
#include "capture/redirect/peer.h"
#include "capture/redirect/tracee.h"
#include "capture/wire/linked.h"
#include "core/base/text.h"
#include "core/base/vector.h"
#include "core/elf/elf_file.h"

#include <stdbool.h>

/* --- linked_patches.c --- */

/* The patches by which the functions of a process's linked allocator are redirected, or why they can't be.

   Job: finds the functions in the executable, makes a patch of each, decides which allocators can be redirected
   completely. Invariants: only reads. Unless all functions of an allocator that acquire,
   release or resize can be redirected, it is left alone: a trace of some would not be a legal history. Allocates with
   malloc. */

enum { LINKED_FAMILIES_MOST = 16 };

struct linked_symbol {
  const char *prefix, *name;    /* its name is both together; static text */
  uint8_t family;               /* number in the table; 0: that of functions without a prefix */
  bool chosen_at_run_time;      /* GNU_IFUNC: the function is not where the symbol is */
  uint64_t address, bytes;      /* in the file's addresses */
  struct linked_function means; /* real and usable are 0 */
  enum linked_hook hook;
};

/* The memory near the executable of a running process that is redirected (linked.h): what is needed to put
   everything back, the hooks' table, and each function's stub and trampoline. At a multiple of LINKED_ROOM_BYTES. */
#define LINKED_ROOM_MAGIC 0x6d6f6f7261706174u
enum { LINKED_SETTING_BYTES = 128, LINKED_STUBS_AT = 16384 };

struct linked_room {
  uint64_t magic;
  char setting[LINKED_SETTING_BYTES]; /* of the recorder that redirects; empty: none does */
  struct linked_saved {
    uint64_t at;
    uint32_t bytes; /* 0: this function is not redirected */
    uint8_t original[ENTRY_PATCH_MOST];
  } saved[LINKED_MOST];
  struct linked_function table[LINKED_MOST];
};
_Static_assert(sizeof(struct linked_room) <= LINKED_STUBS_AT, "the room's stubs begin too early");
_Static_assert(LINKED_STUBS_AT + LINKED_MOST * ENTRY_ROOM_BYTES <= LINKED_ROOM_BYTES, "the room is too small");

struct linked_patches {
  VECTOR(struct linked_symbol) symbols; /* in the table's order */
  size_t count;                         /* 0: the executable has no allocator */
  struct entry_patch *patch;            /* one per function found, as in `why` */
  const char **why;                     /* NULL: it can be redirected */
  struct linked_place place;            /* room, table: of the first function's stub and entry */
  struct elf_extent extent;             /* what the executable occupies */
  bool given_up[LINKED_FAMILIES_MOST];
  bool is_static; /* it names no loader; else it must name one */
  int executable;
  struct elf_memory memory; /* its file, mapped */
  struct elf_file file;
};

/* Finds the functions. -1: the executable can't be read, with errno. To be closed in any case. */
int linked_patches_open(struct linked_patches *patches, int pid);
void linked_patches_close(struct linked_patches *patches);

/* Lists the functions in the file of a static program; count 0: it has none. -1: it can't be read, with errno. */
int linked_list_read(struct linked_list *list, const char *program);

/* Makes the patches. memory: /proc/PID/mem. False: the executable's code can't be read, or there is no memory. */
bool linked_patches_make(struct linked_patches *patches, int memory, const struct linked_place *place);

/* Is that function to be redirected? */
bool linked_patches_takes(const struct linked_patches *patches, size_t number);

/* The function's entry for the hooks. */
struct linked_function linked_patches_entry(const struct linked_patches *patches, size_t number);

/* Adds the function to *done. */
void linked_patches_note(size_t number, struct linked_done *done);

/* Is that function among those of malloc itself, without a prefix? */
bool linked_patches_is_plain(const struct linked_patches *patches, size_t number);

/* Writes which functions can't be redirected, and why; empty: all can. True: an allocator is therefore left alone. */
bool linked_patches_complain(const struct linked_patches *patches, char *text, size_t bytes);

/* Where the 32-bit jump at that address leads; 0: none is there. */
uint64_t linked_jump_at(int memory, uint64_t at);

/* The room to which the code at a function's entry jumps, and the function's saved bytes there; 0: it does not jump. */
uint64_t linked_room_of(int memory, uint64_t function, struct linked_saved *saved);

/* --- linked.c --- */

struct linked_result {
  struct linked_done done;
  bool has_malloc;            /* the functions of malloc itself are redirected */
  struct text_line complaint; /* what is not recorded and why; empty: nothing to report */
};

/* connection: the one by which the process asked; the process closes it when it no longer waits. Nothing is written
   where the process is no longer what it was when it connected (peer.h). */
void linked_redirect(const struct ucred *from, int connection, const struct linked_place *place,
                     struct linked_result *result);

struct linked_running {
  struct linked_patches patches; /* count 0: the executable has no allocator, and there is nothing to do */
  uint64_t room;                 /* its address, present or planned */
};

/* Looks at the process; changes nothing. known_room: the room of an earlier recording; 0: none is known. -1: an
   allocator's functions can't be redirected. Its patches are to be closed in any case. */
int linked_running_open(struct linked_running *linked, const struct tracee *tracee, uint64_t known_room,
                        struct error *error);

/* Are malloc and the other functions of its API themselves among the functions, so that references to them need not be
   redirected? */
bool linked_running_has_malloc(const struct linked_running *linked);

/* What is redirected. */
struct linked_done linked_running_done(const struct linked_running *linked);

#define LINKED_THREAD_IN_THE_WAY                                                                                       \
  "a thread is at the first instructions of an allocator's function, and can't be moved (in a signal handler?)"

/* While the threads are held: redirects all functions to the hooks; already redirected functions now go to these.
   Sets *again where a thread is at a place from which it can't be moved now; then nothing is redirected. */
struct linked_orders {
  const uint64_t *hook;         /* LINKED_HOOKS */
  const char *setting;          /* of the recorder */
  uint64_t syscall_instruction; /* in the process */
};
int linked_running_redirect(struct linked_running *linked, struct tracee *tracee, const struct linked_orders *orders,
                            bool *again, struct error *error);

/* Do the functions' code and the stack of a thread at an entry of the relay show that an allocator's function has
   called another? */
bool linked_running_calls_itself(const struct linked_running *linked, const struct tracee *tracee, uint64_t stack);

/* While the threads are held: puts all functions back that a recorder with that setting has redirected. -1: some can't
   be written. */
int linked_put_back(const struct tracee *tracee, uint64_t room, const char *setting, struct error *error);

/* The same in all processes except `except` that have such a room: fork children. They are held meanwhile. */
int linked_put_back_copies(int except, uint64_t room, const char *setting, struct error *error);

/* The room to which functions of that process's executable are redirected; 0: none are. */
uint64_t linked_find_room(const struct tracee *tracee);

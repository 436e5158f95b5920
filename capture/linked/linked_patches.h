/* SPDX-License-Identifier: MIT */
/* The patches by which the functions of a process's linked allocator are redirected, or why they can't be.

   Job: finds the functions in the executable, makes a patch of each, decides which allocators can be redirected
   completely. Invariants: only reads. Unless all functions of an allocator that acquire,
   release or resize can be redirected, it is left alone: a trace of some would not be a legal history. Allocates with
   malloc. */
#pragma once

#include "capture/linked/entry_patch.h"
#include "capture/wire/linked.h"
#include "core/base/vector.h"
#include "core/elf/elf_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

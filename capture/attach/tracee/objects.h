/* SPDX-License-Identifier: MIT */
/* The loaded objects of another process, as its dynamic linker lists them, their symbols, and their references to
   functions: all read from its memory.

   Invariants: nothing that is read there is trusted: invalid entries are left out, and no length read there leads to an
   allocation beyond a limit. The list is a snapshot. Allocates with malloc. */
#pragma once

#include "capture/attach/tracee/tracee.h"
#include "core/base/error.h"
#include "core/base/vector.h"
#include "core/elf/elf.h"
#include "core/system/process.h"

#include <stdbool.h>
#include <stdint.h>

/* The path by which a program opens a library that the recorder has lent it as a descriptor. It is not the shortest, so
   that no other library has that name. */
#define OBJECT_LENT "/proc/self/fd/../fd/"

struct object {
  char path[256]; /* as the dynamic linker has it; empty: the executable; for OBJECT_LENT its own name */
  struct elf_dynamic dynamic;
  bool is_executable, is_loader;
};

struct objects {
  VECTOR(struct object) all; /* in the order in which names are looked up */
  uint64_t list;             /* address of the dynamic linker's struct r_debug */
  uint64_t loader_from, loader_to;
};

/* -1: the process has no dynamic linker, or an unknown one, or its list is too long. */
int objects_read(struct objects *objects, const struct tracee *tracee, struct error *error);
void objects_free(struct objects *objects);

/* Is the list unchanged, and the dynamic linker not changing it? To be called while the threads are held. */
bool objects_are_settled(const struct objects *objects, const struct tracee *tracee);

/* The object whose file has that base name; NULL: there is none. */
const struct object *objects_find(const struct objects *objects, const char *name);
const char *object_name(const struct object *object);

/* The dynamic linker itself; NULL: it is not in the list. */
const struct object *objects_loader(const struct objects *objects);

/* The address of an instruction in the program's C library that calls the kernel; 0: there is none. */
uint64_t objects_syscall_instruction(const struct objects *objects, const struct tracee *tracee);

struct symbol {
  uint64_t address, bytes;
  uint64_t entry; /* address of its value in the symbol table */
};

/* Finds what the object defines by that name; false: nothing. */
bool object_symbol(const struct object *object, const struct tracee *tracee, const char *name, struct symbol *symbol);

/* Finds the mapping of an address. False: there is none. */
bool area_of(const struct tracee *tracee, uint64_t address, struct proc_mapping *area);

/* Is nothing mapped there? */
bool area_is_free(const struct tracee *tracee, uint64_t from, uint64_t to);

/* Where the executable begins to run; 0: not known. */
uint64_t objects_entry(const struct tracee *tracee);

/* Finds the extent of the neighbouring mappings of the same file, from the first to the last. False: no mapping is
   there. */
bool object_extent(const struct tracee *tracee, uint64_t inside, struct proc_mapping *extent);

struct reference {
  uint64_t address; /* of the reference itself */
  uint32_t call;    /* index into the names */
};

struct names {
  const char *const *at;
  uint32_t count;
};

/* All references by one of the names, except those of the dynamic linker, which are left alone, and those of `except`
   (NULL: none). objects counts the objects that have some. -1: no memory. */
struct references {
  VECTOR(struct reference) all;
  uint32_t objects;
};
int references_read(struct references *references, const struct objects *objects, const struct tracee *tracee,
                    const struct names *names, const struct object *except);
void references_free(struct references *references);

/* The object in which a name is found first, and its symbol there. NULL: nowhere. */
const struct object *definer_of(const struct objects *objects, const struct tracee *tracee, const char *name,
                                struct symbol *symbol);

/* Code in which a thread may be. */
struct code_range {
  uint64_t from, to;
  enum {
    COUNTS_BEHIND_CALL, /* as a return address: only behind a call instruction */
    COUNTS_AT_FRAME,    /* signal handlers return there: at the head of the frame that the kernel puts on their stack */
    COUNTS_WHERE_IT_LIES /* anywhere, also as the instruction that a signal has interrupted */
  } counts;
};

/* A stack from its innermost word on; `end` is a guess: an end that is not above, in the same mapping, is not used. */
struct stack_part {
  uint64_t from, end;
};

/* Does that part of a stack hold a return address into one of the ranges? Unused words count, too, so true may be
   wrong, but false is right. */
bool stack_holds(const struct tracee *tracee, struct stack_part stack, const struct code_range *ranges, size_t count);

/* Is a held thread inside one of the ranges, or will it return there? True where that can't be determined. */
bool thread_is_inside(const struct tracee *tracee, const struct tracee_thread *thread, const struct code_range *ranges,
                      size_t count);

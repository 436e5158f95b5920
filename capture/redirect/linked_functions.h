/* SPDX-License-Identifier: MIT */
/* Finds the functions of an allocator that is linked into an executable.

   Job: read the executable's symbols (.symtab and .dynsym), compare them with linked_functions.def. Not its job: the
   process (linked.h). Invariants: the file is untrusted: damaged parts are left out. A function with several names is
   found once, by the first name in the table. Names of a family count only with one of its marks. Allocates with
   malloc. */
#pragma once

#include "capture/wire/linked.h"
#include "core/base/vector.h"

#include <libelf.h>
#include <stdbool.h>

enum { LINKED_FAMILIES_MOST = 16 };

struct linked_found {
  const char *prefix, *name;    /* its name is both together; static text */
  uint8_t family;               /* number in the table; 0: that of functions without a prefix */
  bool chosen_at_run_time;      /* GNU_IFUNC: the function is not where the symbol is */
  uint64_t address, bytes;      /* in the file's addresses */
  struct linked_function means; /* real and usable are 0 */
};

struct linked_functions {
  VECTOR(struct linked_found) found; /* in the table's order */
};

/* Finds none where the executable has no allocator. Returns 0, or -1: no memory. */
int linked_functions_find(struct linked_functions *functions, Elf *elf);

void linked_functions_free(struct linked_functions *functions);

/* SPDX-License-Identifier: MIT */
/* Which references of another process lead to which function, and whether a thread may be inside some code.

   Not its job: changing them (redirect.h, loading.h). Invariants: as in objects.h. Allocates with malloc. */
#pragma once

#include "capture/redirect/objects.h"

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

/* SPDX-License-Identifier: MIT */
/* The gate: two OS pages that are put into a program so that one of its own threads loads our library where that is
   safe.

   References to malloc, calloc, realloc and free are pointed at the gate's entries, which continue to the real
   functions; functions of an allocator in the executable are redirected to one, too. A thread at a gate's entry is in
   no function of the allocator, and so holds none of its locks. The first one while the gate is armed waits, for 200 ms
   at most, until the recorder has looked at its stack and decided; then it loads the library, with all signals blocked,
   and continues. All other threads continue at once, as all do in fork children.

   Layout and code only; used by loading.c. Invariants: the code keeps errno and all registers, and for functions in the
   executable the flags, too (capture/host/linked_hooks.c says why); where the recorder has ended it loads nothing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GATE_MAGIC 0x6574616765706174u
enum { GATE_CODE_BYTES = 4096, GATE_BYTES = 8192, GATE_CALLS = 4 };

enum gate_state {
  GATE_SHUT,   /* all threads continue */
  GATE_ARMED,  /* the first thread asks */
  GATE_ASKING, /* one has asked, and waits */
  GATE_GO,     /* it is to load the library */
  GATE_PASS,   /* it is not */
  GATE_LOADING,
  GATE_DONE, /* handle or failure has the result */
};

/* Behind the code. The offsets are the code's, too. */
struct gate_data {
  uint64_t magic;
  uint32_t state;
  uint32_t pid; /* of the process in which the library is to be loaded */
  uint64_t dlopen, dlerror, errno_location;
  uint64_t stack;   /* of the thread that asks */
  uint64_t handle;  /* 0: the library could not be loaded */
  uint64_t failure; /* what dlerror returned */
  uint64_t real[GATE_CALLS];
  int64_t wait[2]; /* from one look at the state to the next: struct timespec */
  uint64_t all_signals;
  uint64_t thread_pointer; /* of the thread that asks */
  char library[3072];
};
_Static_assert(offsetof(struct gate_data, library) == 128, "the gate's code has other offsets");
_Static_assert(sizeof(struct gate_data) <= GATE_BYTES - GATE_CODE_BYTES, "the gate's data do not fit");

extern const char *const gate_calls[GATE_CALLS]; /* names, in the order of the entries */

/* The code, and the offsets of its entries. */
const void *gate_code(void);
size_t gate_code_bytes(void);
uint64_t gate_entry_offset(unsigned call);

/* The offset of the entry for functions in the executable. The stub has pushed a pointer to the function's address; the
   entry continues there. */
uint64_t gate_linked_offset(void);

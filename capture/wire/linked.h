/* SPDX-License-Identifier: MIT */
/* Functions of an allocator that is linked into the executable: what the host's hooks need to know of each.

   Layout only. The host has a table of these and memory near the executable. As it attaches, it gives both addresses to
   the collector, which fills them in through /proc/PID/mem before it redirects the functions to the hooks. Invariant:
   an entry that is in use does not change. */
#pragma once

#include <stdint.h>

/* What a function does. */
enum linked_kind {
  LINKED_ACQUIRE, /* returns an object, or NULL */
  LINKED_NEW,     /* the same, of a C++ operator: may throw */
  LINKED_RELEASE,
  LINKED_DELETE, /* a C++ operator */
  LINKED_RESIZE,
  LINKED_TOUCH,   /* returns the usable size of an object */
  LINKED_RESULT,  /* posix_memalign: the object's address is stored where the first parameter points, and 0 is
                     returned */
  LINKED_INNER,   /* not of the API: in it, the allocator calls functions of the API itself */
  LINKED_OTHER,   /* no call of calls.def means what it does: its calls are counted as dropped */
  LINKED_CONTROL, /* a control call */
  LINKED_LOOK_UP, /* not redirected: jemalloc's mallctlnametomib, which the hook of mallctlbymib calls */
};

/* What a parameter means, besides an object, a size or an alignment. */
enum linked_style {
  LINKED_PLAIN,
  LINKED_FLAGS, /* param is jemalloc's flags, of which the alignment, and whether it is to be zeroed, decide the call */
  /* Of control calls: size is the parameter with the value, param that with the option, an int. */
  LINKED_INT,
  LINKED_LONG,
  LINKED_BOOL,
  LINKED_TRUE, /* the value is not passed */
  LINKED_FALSE,
  LINKED_RATE, /* the value is the first double */
  /* The option is a name, by which the call has what capture/host/hooks/named_controls.h says: mallctl, mallctlbymib,
     and param is the name, size the value of tcmalloc's property. */
  LINKED_MALLCTL,
  LINKED_MALLCTL_MIB,
  LINKED_PROPERTY,
};

/* Hooks leave every register to the program as the function itself would. Registers that their own code may change,
   other than general registers, are saved by XSAVE, in LINKED_VECTOR_ROOM bytes of the program's stack. These
   components are all that a program's functions use, except the tiles of AMX (8 KiB, and no code that hooks call uses
   any) and PKRU. */
#define LINKED_VECTOR_MASK 0x800e7 /* x87, SSE, AVX, AVX-512 (three), APX */
#define LINKED_VECTOR_ROOM 2752
#define LINKED_TEXT_OF(number) #number
#define LINKED_TEXT(number) LINKED_TEXT_OF(number)

/* Assembler code. Saving aligns the stack, takes that room of it, and changes eax, ecx, edx and the flags; restoring
   changes eax, edx and the flags, and leaves the room taken. XSAVE rather than XSAVEC, as XSAVEC's format needs the
   same zeroes, and a processor that has it. */
/* clang-format off */
#define LINKED_SAVE_VECTORS                                                                                            \
  "  subq $" LINKED_TEXT(LINKED_VECTOR_ROOM) ", %rsp\n  andq $-64, %rsp\n"                                             \
  "  xorl %edx, %edx\n  movl $512, %ecx\n"                                                                             \
  "8:  movq %rdx, (%rsp, %rcx)\n  addl $8, %ecx\n  cmpl $576, %ecx\n  jb 8b\n"                                         \
  "  movl $" LINKED_TEXT(LINKED_VECTOR_MASK) ", %eax\n  xsave64 (%rsp)\n"
#define LINKED_RESTORE_VECTORS                                                                                         \
  "  xorl %edx, %edx\n  movl $" LINKED_TEXT(LINKED_VECTOR_MASK) ", %eax\n  xrstor64 (%rsp)\n"
/* clang-format on */

/* The hooks. All but the first are for functions that follow the calling convention (entry_patch_is_conventional), with
   these parameters in front: these hooks do, too, and find the function's entry of the table in the last register for
   parameters. The first one finds it on the stack. */
enum linked_hook {
  LINKED_HOOK_ANY,
  LINKED_HOOK_MALLOC,         /* size */
  LINKED_HOOK_CALLOC,         /* count, size */
  LINKED_HOOK_ALIGNED_ALLOC,  /* alignment, size */
  LINKED_HOOK_POSIX_MEMALIGN, /* result, alignment, size */
  LINKED_HOOK_REALLOC,        /* object, size */
  LINKED_HOOK_FREE,           /* object */
  LINKED_HOOK_NEW,            /* size; any operator */
  LINKED_HOOK_DELETE,         /* object; any operator */
  LINKED_HOOK_DELETE_SIZED,   /* object, size; any operator */
  LINKED_HOOKS,
};

enum {
  LINKED_MOST = 192,     /* functions */
  LINKED_PARAMETERS = 4, /* of a function, in registers */
  LINKED_NONE = 255,     /* in place of a parameter's number */
  LINKED_ROOM_BYTES = 64 << 10,
};

struct linked_function {
  uint64_t real;   /* the trampoline */
  uint64_t usable; /* trampoline of the same allocator's LINKED_TOUCH; of LINKED_MALLCTL_MIB: its LINKED_LOOK_UP; 0:
                      it has none */
  uint8_t kind;    /* enum linked_kind */
  uint8_t call;    /* of calls.def */
  uint8_t style;   /* enum linked_style */
  /* Numbers of the parameters with these meanings. param: as calls.def has it; count: the request is count times size,
     for which calls.def has no parameter. */
  uint8_t object, size, param, count;
  uint8_t pad;
  uint64_t code; /* the function itself */
  uint32_t code_bytes;
  int32_t quick; /* record_quick of the call, without a size */
};

/* What the collector has done. */
struct linked_done {
  uint32_t functions; /* that are redirected; 0: the executable has no allocator, or it can't be recorded */
  uint32_t entries;   /* of the table, from its start on, some of them empty */
};

/* Addresses in the host. room 0: there is no such memory. */
struct linked_place {
  uint64_t bias;  /* of the executable's addresses in its file */
  uint64_t room;  /* LINKED_ROOM_BYTES, near the executable's code */
  uint64_t table; /* struct linked_function[LINKED_MOST] */
  uint64_t hook[LINKED_HOOKS];
};

/* The functions of a static program, whose calls our Valgrind tool records (observe/valgrind/calls/calls.c): the
   recorder writes them to a file, by their places in the program's file. */
struct linked_list {
  uint64_t device, inode, count;
  struct linked_listed {
    uint64_t file_offset, bytes;
    struct linked_function function; /* real and usable are 0 */
  } at[LINKED_MOST];
};

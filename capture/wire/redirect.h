/* SPDX-License-Identifier: MIT */
/* The redirect table of libheaptape-attach.so, which it shares with the recorder when a running program is recorded.

   Layout only. The table is in the library's own memory. The recorder finds it by its symbol, and reads and writes it
   while all threads of the program are stopped; the library reads it. Invariant: hooks are called only after setting
   and the real functions were written. */
#pragma once

#include "capture/wire/linked.h"

#include <stdint.h>

#define REDIRECT_LIBRARY "libheaptape-attach.so"
#define REDIRECT_SYMBOL heaptape_redirect
#define REDIRECT_MAGIC 0x3172696465726174u
enum { REDIRECT_VERSION = 6, REDIRECT_CALLS_MAX = 96, REDIRECT_THREAD_PARTS = 3 };

/* Where a real function is. */
enum redirect_place {
  REDIRECT_NOWHERE,  /* no object of the program has it: no reference is redirected */
  REDIRECT_LIBC,     /* it calls none of its own functions through references that matter */
  REDIRECT_STANDARD, /* in a C++ standard library, whose operators call malloc and free */
  REDIRECT_OTHER,    /* in an allocator's library */
};

/* The table's first names are those of the calls of capture/host/real/entry_points.def: first those of HOOK, then those
   of OPERATOR, then others. */
enum redirect_kind { REDIRECT_CALL, REDIRECT_OPERATOR, REDIRECT_OTHER_CALL };

struct redirect_call {
  const char *name;     /* NULL: the end of the table */
  const void *hook;     /* ours */
  uint64_t kind;        /* enum redirect_kind */
  uint64_t real, bytes; /* the function that would be called without us; its size */
  uint64_t from, to;    /* addresses that its object occupies */
  uint64_t place;       /* enum redirect_place */
};

/* Per-thread state of the library, in static TLS. When the recorder begins a recording in a program that was recorded
   before, it sets the state of each thread to these values. */
enum { REDIRECT_THREAD_MOST = 4096 };
struct redirect_thread_part {
  uint64_t address; /* of the part of the calling thread, when thread_pointer was read */
  uint64_t bytes;   /* a multiple of 8, at most REDIRECT_THREAD_MOST; 0: none */
  uint64_t first;   /* value of the first 8 bytes; the others are 0 */
};

/* An allocator in the executable, whose functions are redirected at their entries. */
struct redirect_linked {
  uint64_t hook[LINKED_HOOKS]; /* ours */
  uint64_t room;               /* the recorder's memory near the executable; 0: there is no such allocator */
  uint64_t table;              /* the room's struct linked_function[] */
  uint64_t from, to;           /* what the executable occupies */
  struct linked_done done;
};

struct redirect_table {
  uint64_t magic;
  uint32_t version;
  uint32_t generation; /* of the recording; 0: none has begun */
  uint64_t token;      /* random: the same in the program and in its fork children, and nowhere else */
  char setting[128];   /* as HEAPTAPE_SOCKET; empty: not to be recorded */
  char allocator[64];  /* base name of the object that has malloc */
  uint64_t has_usable_size;
  uint64_t calls_back;     /* an allocator's library refers to functions of another library that are redirected */
  void *own;               /* address of the pointer to the library's process state */
  uint64_t retired;        /* process state of the recording before, which no thread uses any more; 0: none */
  uint64_t thread_pointer; /* of the thread that loaded the library */
  struct redirect_thread_part thread[REDIRECT_THREAD_PARTS];
  struct redirect_linked linked;
  struct redirect_call call[REDIRECT_CALLS_MAX];
};

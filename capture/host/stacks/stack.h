/* SPDX-License-Identifier: MIT */
/* Call stacks: finds, in the host and during the call, the node of the tree (stack_area.h) for the call's stack.

   Job: walking, remembering the thread's last walk, making nodes. Not its job: records, and what the addresses mean
   (stacks.h, in the recorder). Invariants: reads no memory but the stack on which it is called, within the bounds of
   its mapping, so that a wrong rule or frame pointer gives a wrong or short stack and never a fault; takes no lock of
   the host, allocates only its own OS pages, keeps errno. Precondition: the thread's call did not interrupt another
   call of stack_take, as a call in a signal handler may. */
#pragma once

#include "capture/wire/stack_area.h"

#include <stdbool.h>
#include <stdint.h>

/* --- stack_rules.c --- */

/* Unwind rules: how to get from a frame to its caller's, computed from the call frame information (.eh_frame) that
   compilers put into every program for exceptions.

   Why not libunwind: inside a host it takes the loader's lock (dl_iterate_phdr), may allocate, and would clash with a
   copy that the program brings. Malloc's callers need little of DWARF: the frame's address and the frame pointer. Tests
   compare the stacks with libunwind's. Not its job: reading the stack. Takes no lock, allocates nothing,
   calls nothing but _dl_find_object (glibc 2.35: lock-free, made for unwinding), so it is safe in signal handlers and
   after fork. musl has no such function: there only objects loaded when the process attached have rules, and other
   objects need frame pointers. */

enum rule_kind {
  RULE_NONE,     /* nothing is known of this instruction */
  RULE_END,      /* the outermost frame */
  RULE_SP,       /* the caller's stack pointer is ours plus cfa_offset */
  RULE_BP,       /* ... the frame pointer plus cfa_offset */
  RULE_BP_DEREF, /* ... what is stored there */
  RULE_SIGNAL,   /* the kernel's frame: a ucontext at the stack pointer */
};

enum rule_bp { BP_SAME, BP_AT_CFA, BP_AT_BP };

/* The return address is at the caller's stack pointer less 8. */
struct unwind_rule {
  enum rule_kind kind;
  enum rule_bp bp; /* where the caller's frame pointer is: in its register, at CFA or frame pointer plus bp_offset */
  int64_t cfa_offset, bp_offset;
};

/* Called before any walk, at attaching, by one thread: notes the loaded objects where they can't be found during a
   walk. */
void unwind_rules_begin(void);

/* The rule for code at pc: an instruction, or the byte before a return address. */
struct unwind_rule unwind_rule_find(uintptr_t pc);

/* Packed into 44 bits, for the cache; a rule that does not fit becomes RULE_NONE. Offsets are multiples of 8. */
enum {
  RULE_BITS = 44,
  RULE_KIND_BITS = 3,
  RULE_BP_BITS = 2,
  RULE_CFA_BITS = 24,
  RULE_BP_OFFSET_BITS = RULE_BITS - RULE_KIND_BITS - RULE_BP_BITS - RULE_CFA_BITS
};

static inline bool rule_fits(int64_t offset, int bits) {
  int64_t limit = (int64_t)1 << (bits - 1);
  return offset % 8 == 0 && offset / 8 >= -limit && offset / 8 < limit;
}

static inline uint64_t rule_put(int64_t offset, int bits) {
  return (uint64_t)(offset / 8) & (((uint64_t)1 << bits) - 1);
}

static inline int64_t rule_get(uint64_t value, int bits) {
  return ((int64_t)(value << (64 - bits)) >> (64 - bits)) * 8;
}

static inline uint64_t unwind_rule_pack(struct unwind_rule rule) {
  if (!rule_fits(rule.cfa_offset, RULE_CFA_BITS) || !rule_fits(rule.bp_offset, RULE_BP_OFFSET_BITS))
    return RULE_NONE;
  return (uint64_t)rule.kind | (uint64_t)rule.bp << RULE_KIND_BITS |
         rule_put(rule.cfa_offset, RULE_CFA_BITS) << (RULE_KIND_BITS + RULE_BP_BITS) |
         rule_put(rule.bp_offset, RULE_BP_OFFSET_BITS) << (RULE_KIND_BITS + RULE_BP_BITS + RULE_CFA_BITS);
}

static inline struct unwind_rule unwind_rule_unpack(uint64_t bits) {
  return (struct unwind_rule){(enum rule_kind)(bits & ((1 << RULE_KIND_BITS) - 1)),
                              (enum rule_bp)(bits >> RULE_KIND_BITS & ((1 << RULE_BP_BITS) - 1)),
                              rule_get(bits >> (RULE_KIND_BITS + RULE_BP_BITS), RULE_CFA_BITS),
                              rule_get(bits >> (RULE_KIND_BITS + RULE_BP_BITS + RULE_CFA_BITS), RULE_BP_OFFSET_BITS)};
}

/* --- stack.c --- */

/* A thread's last walk; of one thread at a time, mapped on first use, wiped in a fork child. */
struct stack_memo;

/* Set when the process attaches. area NULL: no stacks are wanted. */
struct stack_settings {
  struct stack_area *area;
  uint32_t depth;  /* frames, at most STACK_DEPTH_MAX */
  uint32_t unwind; /* enum stack_unwind */
};
extern struct stack_settings stack_settings;

/* The node of the stack whose innermost frame is that of caller, a return address; that frame is among the last few.
   hook: __builtin_frame_address(0) of the function that returns there; where it is NULL, or another function's, the
   frame is searched. 0: the stack could not be taken, which is counted in the area. */
uint32_t stack_take(struct stack_memo **memo, const void *caller, const void *hook);

/* May stack_take walk by libunwind, which libunwind.c loads? It may lock and allocate: then the caller blocks
   signals, and ignores calls that the thread makes meanwhile, which are not the program's. */
static inline bool stack_is_unwound(void) {
  return stack_settings.unwind == UNWIND_LIBUNWIND;
}

/* Unmaps its memory; memo may be NULL. */
void stack_memo_free(struct stack_memo *memo);

/* Called when another thread takes the memo over: forgets the previous thread's walks. */
void stack_memo_reset(struct stack_memo *memo);

/* Waits until the collector has read the stacks in the rings, so that it reads their modules while these are mapped. At
   most 0.1 s, and not at all where the recording may not wait. Keeps errno. */
void stack_wait_for_collector(void);

/* How the library that walks stacks in our place registers itself (libunwind.c, record --unwind libunwind): once, by
   its constructor; walks before that use our own rules. */

/* Writes the instructions of the stack's frames, innermost first, at most `most`, and returns their number. The first
   is its caller's or one further in. It may lock and allocate: called with signals blocked. */
typedef uint32_t stack_unwinder(uintptr_t *instructions, uint32_t most);

/* Exported by libheaptape.so; a null pointer elsewhere. NULL: it cannot walk, which is printed. */
__attribute__((weak, visibility("default"))) void heaptape_lib_set_unwinder(stack_unwinder *unwinder);

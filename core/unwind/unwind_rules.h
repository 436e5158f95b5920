/* SPDX-License-Identifier: MIT */
/* Unwind rules: how to get from a frame to its caller's, computed from the call frame information (.eh_frame) that
   compilers put into every program for exceptions.

   Why not libunwind: inside a host it takes the loader's lock (dl_iterate_phdr), may allocate, and would clash with a
   copy that the program brings. Malloc's callers need little of DWARF: the frame's address and the frame pointer. Tests
   compare the stacks with libunwind's. Takes no lock, allocates nothing, calls nothing but _dl_find_object (glibc 2.35:
   lock-free, made for unwinding), so it is safe in signal handlers and after fork. musl has no such function: there
   only objects loaded when the process attached have rules, and other objects need frame pointers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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

/* SPDX-License-Identifier: MIT */
#include "capture/host/stacks/stack_walk.h"

#include "capture/host/process.h"
#include "capture/host/stacks/stack_rules.h"
#include "core/base/os.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { BEING_WRITTEN = 1 };

static uint64_t tag_of(uintptr_t pc) {
  return (pc * 0x9e3779b97f4a7c15u) >> RULE_BITS << RULE_BITS;
}

/* The rule for pc, from the table or computed now. Readers take no lock: an entry that another thread is changing looks
   like the entry of another instruction, by its instruction or by the tag beside the rule. */
static struct unwind_rule find_rule(struct stack_area *area, uintptr_t pc) {
  struct stack_rule_entry *entry = &area->rules[(pc * 0x9e3779b97f4a7c15u) >> 40 & (STACK_RULES - 1)];
  uint64_t holder = atomic_load_explicit(&entry->instruction, memory_order_acquire);
  if (holder == pc) {
    uint64_t bits = atomic_load_explicit(&entry->rule, memory_order_acquire);
    if (bits >> RULE_BITS << RULE_BITS == tag_of(pc))
      return unwind_rule_unpack(bits);
  }
  struct unwind_rule rule = unwind_rule_find(pc);
  uint64_t bits = unwind_rule_pack(rule);
  if (holder != BEING_WRITTEN && atomic_compare_exchange_strong(&entry->instruction, &holder, BEING_WRITTEN)) {
    atomic_store_explicit(&entry->rule, bits | tag_of(pc), memory_order_release);
    atomic_store_explicit(&entry->instruction, pc, memory_order_release);
  }
  return unwind_rule_unpack(bits);
}

/* Is there a word at address that may be read? */
static bool readable(uintptr_t address, uintptr_t low, uintptr_t high) {
  return address % sizeof(uintptr_t) == 0 && address >= low && address < high && high - address >= sizeof(uintptr_t);
}

static uintptr_t word_at(uintptr_t address) {
  return *(const uintptr_t *)address;
}

/* On all processors, a frame pointer points to the caller's frame pointer, which the return address follows. sp is set
   behind these two, which is the caller's stack pointer on x86; on aarch64 the caller's is further out, but nothing
   here needs it. */
static enum walk step_by_frame_pointer(struct frame *frame, uintptr_t high) {
  uintptr_t bp = frame->bp;
  if (!readable(bp, frame->sp, high) || !readable(bp + 8, frame->sp, high))
    return WALK_END;
  *frame = (struct frame){os_return_address(word_at(bp + 8)), bp + 16, word_at(bp)};
  return frame->instruction > 4096 ? WALK_ON : WALK_END;
}

static enum walk step_by_rule(struct unwind_rule rule, struct frame *frame, uintptr_t high) {
  uintptr_t cfa = (rule.kind == RULE_SP ? frame->sp : frame->bp) + (uintptr_t)rule.cfa_offset;
  if (rule.kind == RULE_BP_DEREF) {
    if (!readable(cfa, frame->sp, high))
      return WALK_END;
    cfa = word_at(cfa);
  }
  uintptr_t bp = frame->bp, from = (rule.bp == BP_AT_CFA ? cfa : frame->bp) + (uintptr_t)rule.bp_offset;
  if (rule.bp != BP_SAME) {
    if (!readable(from, frame->sp, high))
      return WALK_END;
    bp = word_at(from);
  }
  if (cfa <= frame->sp || !readable(cfa - 8, frame->sp, high))
    return WALK_END;
  *frame = (struct frame){word_at(cfa - 8), cfa, bp};
  return frame->instruction ? WALK_ON : WALK_END;
}

static enum walk step_by_signal(struct frame *frame, uintptr_t high) {
#if defined(__x86_64__)
  const ucontext_t *context = (const ucontext_t *)frame->sp;
  if (!readable(frame->sp, frame->sp, high) || high - frame->sp < sizeof context->uc_mcontext + 40)
    return WALK_END;
  const greg_t *registers = context->uc_mcontext.gregs;
  *frame = (struct frame){(uintptr_t)registers[REG_RIP], (uintptr_t)registers[REG_RSP], (uintptr_t)registers[REG_RBP]};
  return frame->instruction ? WALK_SIGNAL : WALK_END;
#else
  (void)frame;
  (void)high;
  return WALK_END;
#endif
}

enum walk stack_step(struct stack_area *area, enum stack_unwind unwind, struct frame *frame, bool exact,
                     uintptr_t high) {
  if (unwind == UNWIND_FP || OS_FRAME_POINTERS_ALONE)
    return step_by_frame_pointer(frame, high);
  struct unwind_rule rule = find_rule(area, frame->instruction - !exact);
  switch (rule.kind) {
  case RULE_END:
    return WALK_END;
  case RULE_SIGNAL:
    return step_by_signal(frame, high);
  case RULE_NONE: /* mostly code that was made at run time, which often keeps frame pointers */
    return unwind == UNWIND_DWARF ? WALK_END : step_by_frame_pointer(frame, high);
  default:
    return step_by_rule(rule, frame, high);
  }
}

/* Reads lines of /proc/self/maps, a character at a time through a small buffer: the stack may be small. */
struct maps {
  int fd;
  char bytes[512];
  long used, at;
};

static int next_character(struct maps *maps) {
  if (maps->at == maps->used) {
    maps->used = syscall(SYS_read, maps->fd, maps->bytes, sizeof maps->bytes);
    maps->at = 0;
    if (maps->used <= 0) {
      maps->used = 0;
      return -1;
    }
  }
  return (unsigned char)maps->bytes[maps->at++];
}

/* A hexadecimal number; returns the character after it. */
static int next_number(struct maps *maps, uintptr_t *number) {
  int character;
  *number = 0;
  while ((character = next_character(maps)) >= 0) {
    bool digit = character >= '0' && character <= '9', letter = character >= 'a' && character <= 'f';
    if (!digit && !letter)
      break;
    *number = *number << 4 | (uintptr_t)(digit ? character - '0' : character - 'a' + 10);
  }
  return character;
}

bool stack_find_bounds(uintptr_t sp, struct stack_bounds *bounds) {
  if (host_sandboxed())
    return false;
  struct maps maps = {.fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC)};
  bool found = false;
  if (maps.fd < 0)
    return false;
  int character = 0;
  while (!found && character >= 0) {
    uintptr_t low, high;
    next_number(&maps, &low);
    character = next_number(&maps, &high);
    found = character == ' ' && sp - low < high - low && next_character(&maps) == 'r';
    if (found)
      *bounds = (struct stack_bounds){low, high};
    while (character >= 0 && character != '\n')
      character = next_character(&maps);
  }
  syscall(SYS_close, maps.fd);
  return found;
}

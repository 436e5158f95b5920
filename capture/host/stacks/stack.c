/* SPDX-License-Identifier: MIT */
#include "capture/host/stacks/stack.h"

#include "capture/host/kernel/maps.h"
#include "capture/host/kernel/own_memory.h"
#include "capture/host/process.h"
#include "core/base/assert.h"
#include "core/base/os.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* --- one step of a walk: from a frame to its caller's --- */

struct frame {
  uintptr_t instruction; /* where the frame continues: a return address, or, if exact, an interrupted instruction */
  uintptr_t sp, bp;      /* stack and frame pointer there */
};

enum walk { WALK_END, WALK_ON, WALK_SIGNAL /* on, but past an interruption: the frame's instruction is exact */ };

/* Addresses of the stack that may be read. */
struct stack_bounds {
  uintptr_t low, high;
};

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

/* Turns the frame into its caller's. exact: frame->instruction is an instruction itself, not a return address. Reads
   only below high. */
static enum walk stack_step(struct stack_area *area, enum stack_unwind unwind, struct frame *frame, bool exact,
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

/* The mapping in which sp is, from /proc/self/maps; false: it cannot be read. Costs 10 to 100 us. */
static bool stack_find_bounds(uintptr_t sp, struct stack_bounds *bounds) {
  struct maps maps;
  struct mapping mapping;
  bool found = false;
  if (!maps_open(&maps))
    return false;
  while (!found && maps_next(&maps, &mapping))
    found = mapping.readable && sp - mapping.low < mapping.high - mapping.low;
  if (found)
    *bounds = (struct stack_bounds){mapping.low, mapping.high};
  maps_close(&maps);
  return found;
}

struct stack_settings stack_settings;

static stack_unwinder *unwinder; /* NULL: none has been set */

enum {
  MEMO_FRAMES = 1024,  /* frames remembered of a thread's last walk */
  WALK_FRAMES = 512,   /* frames of one walk, at most */
  NODES_CACHED = 4096, /* 64 KiB: in the second-level cache, while a look into the area misses twice */
  OWN_FRAMES = 10,     /* frames between a walk's first frame and the program's, at most */
  BOUNDS_KEPT = 4,     /* stacks that a thread runs on alternately */
  THREAD_STACK_LEAST_BYTES = 16 << 10,
};

struct memo_frame {
  struct frame frame;
  uint32_t node; /* valid in noded_from .. noded_to */
};

/* The thread's last walk. Most calls come from nearly the same stack as the one before: where a walk meets a
   frame of the last one, and the return addresses outward from there are unchanged, the rest is known. To compare a
   return address costs a load; a step by rule costs 5 to 10 ns. */
struct stack_memo {
  uint32_t generation; /* of the area */
  uint32_t count;      /* frames, outermost first */
  uint32_t origin;     /* frames that were dropped, outward from frames[0] */
  bool complete;       /* the outermost of all these is the thread's first frame */
  uint32_t noded_from, noded_to;
  uint32_t next_bounds;
  struct stack_bounds bounds[BOUNDS_KEPT];
  struct cached_node {
    uint64_t instruction;
    uint32_t parent, node; /* node 0: none */
  } cached[NODES_CACHED];
  struct memo_frame frames[MEMO_FRAMES];
  struct frame fresh[WALK_FRAMES];
  uintptr_t unwound[OWN_FRAMES + WALK_FRAMES]; /* the unwinder's frames */
};

void stack_memo_reset(struct stack_memo *memo) {
  if (!memo)
    return;
  memo->count = 0;
  memset(memo->bounds, 0, sizeof memo->bounds);
}

/* --- nodes --- */

static uint32_t hash(uint64_t instruction, uint32_t parent) {
  return (uint32_t)((instruction + parent * 0xd6e8feb86659fd93u) * 0x9e3779b97f4a7c15u >> 32);
}

/* The node in the index of that size, or 0; *place: where it is or belongs, NULL: the index has no room, as only an
   overwritten one can. */
static uint32_t find_node(struct stack_area *area, uint32_t log, uint64_t instruction, uint32_t parent,
                          _Atomic uint32_t **place) {
  _Atomic uint32_t *index = area->index + ((size_t)1 << log);
  uint32_t mask = ((uint32_t)1 << log) - 1, at = hash(instruction, parent) & mask;
  for (uint32_t tries = 0; tries <= mask; tries++, at = (at + 1) & mask) {
    uint32_t node = atomic_load_explicit(&index[at], memory_order_acquire);
    if (node > STACK_NODES_MAX)
      continue;
    if (node == 0 || (area->nodes[node - 1].instruction == instruction && area->nodes[node - 1].parent == parent)) {
      *place = &index[at];
      return node;
    }
  }
  *place = NULL;
  return 0;
}

static void grow_index(struct stack_area *area, uint32_t log, uint32_t used) {
  for (uint32_t node = 1; node <= used; node++) {
    _Atomic uint32_t *place;
    find_node(area, log + 1, area->nodes[node - 1].instruction, area->nodes[node - 1].parent, &place);
    if (place)
      atomic_store_explicit(place, node, memory_order_relaxed);
  }
  atomic_store_explicit(&area->index_log, log + 1, memory_order_release);
}

enum { LOCK_OF_SANDBOXED = UINT32_MAX };

/* What the area's lock holds while this thread has it. */
static uint32_t lock_word(void) {
  return host_may(HOST_THREAD) ? (uint32_t)os_thread_id() : LOCK_OF_SANDBOXED;
}

/* Takes the lock from a thread that will never release it. That thread may have put a node into the index that does not
   exist yet, so that number is not given to another stack. A new index that it has not finished is begun again. */
static bool take_over(struct stack_area *area, uint32_t holder, uint32_t own) {
  if (!atomic_compare_exchange_strong(&area->lock, &holder, own))
    return false;
  uint32_t used = atomic_load(&area->used);
  if (used < STACK_NODES_MAX && (area->nodes[used].instruction || area->nodes[used].parent))
    atomic_store_explicit(&area->used, used + 1, memory_order_release);
  return true;
}

void stack_let_go(void) {
  struct stack_area *area = stack_settings.area;
  uint32_t holder = area ? atomic_load_explicit(&area->lock, memory_order_relaxed) : 0;
  if (holder && holder != LOCK_OF_SANDBOXED && holder == lock_word() && take_over(area, holder, holder))
    atomic_store(&area->lock, 0);
}

static bool has_ended(uint32_t holder) {
  return holder != LOCK_OF_SANDBOXED && host_may(HOST_THREAD) &&
         syscall(SYS_tgkill, process_own()->pid, (int)holder, 0) != 0 && errno == ESRCH;
}

/* A signal handler never gets here while its thread is here, so the thread that holds the lock is running. But a thread
   that a handler left by longjmp unlocks only at its next call (stack_let_go), or never. So the wait is limited, and
   not repeated for the same holder. */
static bool lock_nodes(struct stack_area *area) {
  enum { PAUSES = 100, YIELDS = 100000, ASK = 1000 };
  static _Atomic uint32_t gone;
  uint32_t own = lock_word(), holder = 0, last = 0;
  for (int i = 0; i < YIELDS; i = holder == last ? i + 1 : 0) {
    last = holder;
    for (int pause = 0; pause < PAUSES; pause++) {
      holder = 0;
      if (atomic_compare_exchange_strong(&area->lock, &holder, own))
        return true;
      if (holder == atomic_load_explicit(&gone, memory_order_relaxed))
        return false;
      os_spin_pause();
    }
    if (i % ASK == ASK - 1 && has_ended(holder) && take_over(area, holder, own))
      return true;
    if (host_may(HOST_YIELD))
      syscall(SYS_sched_yield);
    else
      os_spin_pause();
  }
  atomic_store_explicit(&gone, holder, memory_order_relaxed);
  return false;
}

static uint32_t make_node(struct stack_area *area, uint64_t instruction, uint32_t parent) {
  _Atomic uint32_t *place;
  if (!lock_nodes(area))
    return 0;
  uint32_t log = stack_index_log(area), used = atomic_load(&area->used);
  used = used < STACK_NODES_MAX ? used : STACK_NODES_MAX;
  if (log < STACK_INDEX_LAST_LOG && used >= (uint32_t)1 << (log - 1)) {
    grow_index(area, log, used);
    log++;
  }
  uint32_t node = find_node(area, log, instruction, parent, &place);
  if (!node && place && used < STACK_NODES_MAX) {
    area->nodes[used] = (struct stack_node){instruction, parent, 0};
    node = used + 1;
    atomic_store_explicit(place, node, memory_order_release);
    atomic_store_explicit(&area->used, node, memory_order_release);
  }
  atomic_store(&area->lock, 0);
  return node;
}

/* 0: no room. */
static uint32_t node_of(struct stack_area *area, struct stack_memo *memo, uint64_t instruction, uint32_t parent) {
  struct cached_node *cached = &memo->cached[hash(instruction, parent) % NODES_CACHED];
  if (cached->instruction == instruction && cached->parent == parent && cached->node)
    return cached->node;
  _Atomic uint32_t *place;
  uint32_t node = find_node(area, stack_index_log(area), instruction, parent, &place);
  if (!node)
    node = make_node(area, instruction, parent);
  *cached = (struct cached_node){instruction, parent, node};
  return node;
}

/* --- bounds --- */

/* The bounds of the stack that sp is on. /proc/self/maps is read once per stack of a thread, and again as the main
   thread's stack grows. Where it cannot be read, only the rest of the OS page is known to be mapped. */
static struct stack_bounds bounds_of(struct stack_memo *memo, uintptr_t sp) {
  for (int i = 0; i < BOUNDS_KEPT; i++)
    if (sp - memo->bounds[i].low < memo->bounds[i].high - memo->bounds[i].low)
      return memo->bounds[i];
  /* glibc puts a thread's control block at the upper end of its stack. */
  uintptr_t own = (uintptr_t)pthread_self();
  struct stack_bounds bounds = {own - THREAD_STACK_LEAST_BYTES, own};
  if (own - sp >= THREAD_STACK_LEAST_BYTES) {
    if (!stack_find_bounds(sp, &bounds))
      return (struct stack_bounds){sp, (sp | 4095) + 1};
    if (own - bounds.low < bounds.high - bounds.low)
      bounds.high = own;
    else if (sp > bounds.high) /* the mapping that was read is another one, unmapped since */
      return (struct stack_bounds){sp, (sp | 4095) + 1};
  }
  memo->bounds[memo->next_bounds++ % BOUNDS_KEPT] = bounds;
  return bounds;
}

/* --- walking --- */

/* Where a stack of `frames` frames is cut: at a multiple of the depth, counted from the outermost frame. So the
   innermost depth frames are kept, fewer than twice as many in total, and a stack that grows and shrinks keeps its
   nodes. If it were cut at exactly depth frames, each level of a recursion would be a separate tree. */
static uint32_t cut_of(uint32_t frames) {
  uint32_t depth = stack_settings.depth;
  return frames < depth ? 0 : (frames - depth) / depth * depth;
}

/* Of the last walk's frames from last - 1 outward to first, the index plus 1 of the first one whose return address has
   changed; `first` where none has. The return address at last - 1 has been compared already. */
static uint32_t last_change(const struct stack_memo *memo, uint32_t first, uint32_t last, uintptr_t high) {
  if (memo->frames[first].frame.sp > high)
    return last;
  for (uint32_t i = last - 1; i-- > first;)
    if (os_return_address(*(const uintptr_t *)(memo->frames[i].frame.sp - 8)) != memo->frames[i].frame.instruction)
      return i + 1;
  return first;
}

static bool is_same(const struct frame *a, const struct frame *b) {
  return a->sp == b->sp && a->instruction == b->instruction && a->bp == b->bp;
}

struct walked {
  uint32_t known;      /* of memo->frames, the outermost, still hold */
  uint32_t fresh;      /* then come these of memo->fresh, innermost first */
  bool to_the_end;     /* the outermost is the thread's first frame; set only where known is 0 */
  bool through_signal; /* it crosses an interruption: not to be remembered */
};

static struct walked walk(struct stack_memo *memo, struct frame frame) {
  struct stack_bounds bounds = bounds_of(memo, frame.sp);
  struct walked walked = {0};
  uint32_t left = memo->count;
  enum walk how = WALK_ON;
  while (how != WALK_END && walked.fresh < WALK_FRAMES) {
    while (left && memo->frames[left - 1].frame.sp < frame.sp)
      left--;
    if (left && is_same(&memo->frames[left - 1].frame, &frame)) {
      uint32_t cut = cut_of(memo->origin + left + walked.fresh);
      uint32_t first = cut < memo->origin + left ? cut - memo->origin : left - 1;
      uint32_t change = cut >= memo->origin ? last_change(memo, first, left, bounds.high) : left;
      if (cut >= memo->origin && change == first) {
        walked.known = left;
        return walked;
      }
      left = cut >= memo->origin ? change - 1 : 0;
    }
    memo->fresh[walked.fresh++] = frame;
    how = stack_step(stack_settings.area, stack_settings.unwind, &frame, how == WALK_SIGNAL, bounds.high);
    if (how == WALK_SIGNAL) { /* perhaps from the handler's own stack */
      walked.through_signal = true;
      left = 0;
      bounds = bounds_of(memo, frame.sp);
    }
  }
  walked.to_the_end = how == WALK_END;
  return walked;
}

/* Remembers the walk: the known frames and, inward from them, the fresh ones. memo->count stays 0 until that is done,
   so that a handler that leaves by longjmp leaves an empty memo. */
static uint32_t remember(struct stack_memo *memo, const struct walked *walked) {
  uint32_t known = walked->known;
  memo->count = 0;
  atomic_signal_fence(memory_order_seq_cst);
  if (!known) {
    memo->origin = 0;
    memo->complete = walked->to_the_end;
  }
  if (known + walked->fresh > MEMO_FRAMES) { /* the outermost frames are dropped */
    uint32_t drop = known < MEMO_FRAMES / 2 ? known : MEMO_FRAMES / 2;
    memmove(memo->frames, memo->frames + drop, (known - drop) * sizeof *memo->frames);
    known -= drop;
    memo->origin += drop;
    memo->noded_from = memo->noded_to = 0;
  }
  HT_ASSERT(known + walked->fresh <= MEMO_FRAMES);
  if (memo->noded_to > known)
    memo->noded_to = known;
  for (uint32_t i = 0; i < walked->fresh; i++)
    memo->frames[known + i].frame = memo->fresh[walked->fresh - 1 - i];
  return known + walked->fresh;
}

/* The node of the innermost of count frames. 0: no room for it. */
static uint32_t nodes_of(struct stack_area *area, struct stack_memo *memo, uint32_t count) {
  uint32_t cut = cut_of(memo->origin + count), first = cut - memo->origin, node;
  if (first != memo->noded_from || memo->noded_to < first)
    memo->noded_from = memo->noded_to = first;
  uint32_t at = memo->noded_to;
  if (at > first)
    node = memo->frames[at - 1].node;
  else
    node = cut > 0 || !memo->complete ? node_of(area, memo, 0, 0) : 0;
  for (; at < count; at++) {
    node = node_of(area, memo, memo->frames[at].frame.instruction, node);
    if (!node)
      break;
    memo->frames[at].node = node;
  }
  memo->noded_to = at;
  return node;
}

static struct stack_memo *memo_of(struct stack_memo **place) {
  if (!*place)
    *place = memory_map(sizeof **place, MEMORY_SHARED);
  struct stack_memo *memo = *place;
  uint32_t generation = atomic_load_explicit(&stack_settings.area->generation, memory_order_relaxed);
  if (memo && memo->generation != generation) {
    memo->generation = generation;
    memo->count = 0;
  }
  return memo;
}

void stack_memo_free(struct stack_memo *memo) {
  if (memo)
    memory_unmap(memo, sizeof *memo);
}

static uint32_t take_from(struct stack_area *area, struct stack_memo *memo, struct frame frame) {
  struct walked walked = walk(memo, frame);
  uint32_t count = remember(memo, &walked), node = nodes_of(area, memo, count);
  atomic_signal_fence(memory_order_seq_cst);
  memo->count = walked.through_signal ? 0 : count;
  return node;
}

/* The program's frame that contains that return address, found by walking outward from our frames by their rules. As
   the hooks end in jumps where possible, it is not known which of them have frames and what they leave in registers. */
static bool find_caller(struct frame *frame, uintptr_t caller, uintptr_t high) {
  for (int i = 0; i < OWN_FRAMES; i++) {
    if (frame->instruction == caller)
      return true;
    if (stack_step(stack_settings.area, UNWIND_DWARF, frame, false, high) != WALK_ON)
      return false;
  }
  return false;
}

void heaptape_lib_set_unwinder(stack_unwinder *its) {
  unwinder = its;
  if (!its)
    message_print("libunwind.so.8 can't be loaded: call stacks are taken by heaptape's own rules");
}

/* The node of the stack as the unwinder returns it, which does not remember the last walk. */
static __attribute__((noinline)) uint32_t take_unwound(struct stack_area *area, struct stack_memo *memo,
                                                       uintptr_t caller) {
  uint32_t end = unwinder(memo->unwound, OWN_FRAMES + WALK_FRAMES), at = 0;
  while (at < end && memo->unwound[at] != caller)
    at++;
  if (at == end || at > OWN_FRAMES)
    return 0;
  struct walked walked = {.to_the_end = end < OWN_FRAMES + WALK_FRAMES};
  for (; at < end && walked.fresh < WALK_FRAMES && memo->unwound[at]; at++)
    memo->fresh[walked.fresh++] = (struct frame){.instruction = memo->unwound[at]};
  uint32_t node = nodes_of(area, memo, remember(memo, &walked));
  memo->count = 0;
  return node;
}

uint32_t stack_take(struct stack_memo **place, const void *caller, const void *hook) {
  struct stack_area *area = stack_settings.area;
  int error = errno;
  struct stack_memo *memo = memo_of(place);
  uint32_t node = 0;
  if (memo && stack_is_unwound() && unwinder && host_may(HOST_ALL)) {
    node = take_unwound(area, memo, (uintptr_t)caller);
  } else if (memo) {
    const uintptr_t *own = __builtin_frame_address(0), *its = hook; /* saved frame pointer, return address */
    if (its && os_return_address(its[1]) == (uintptr_t)caller)
      own = its;
    struct frame frame = {os_return_address(own[1]), (uintptr_t)(own + 2), own[0]};
    if (own == its || find_caller(&frame, (uintptr_t)caller, bounds_of(memo, frame.sp).high))
      node = take_from(area, memo, frame);
  }
  if (!node)
    atomic_fetch_add(&area->lost, 1);
  errno = error;
  return node;
}

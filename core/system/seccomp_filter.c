/* SPDX-License-Identifier: MIT */
#include "core/system/seccomp_filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>

#if defined(__x86_64__)
enum { OWN_ARCHITECTURE = (int)AUDIT_ARCH_X86_64 };
#else
enum { OWN_ARCHITECTURE = (int)AUDIT_ARCH_AARCH64 };
#endif

struct value {
  uint32_t bits;
  bool known;
};

struct state {
  struct value a, x, memory[BPF_MEMWORDS];
  unsigned at;
  unsigned branches; /* that were decided by unknown values */
};

struct run {
  const struct sock_fprog *filter;
  const struct seccomp_call *call;
  unsigned steps;
};

enum { STEPS_MAX = 1 << 20, BRANCHES_MAX = 64 };
static const uint32_t UNKNOWN = SECCOMP_RET_KILL_PROCESS;

static struct value known(uint32_t bits) {
  return (struct value){bits, true};
}

/* A word of struct seccomp_data. */
static struct value load(const struct seccomp_call *call, uint32_t offset) {
  if (offset == offsetof(struct seccomp_data, nr))
    return known(call->number);
  if (offset == offsetof(struct seccomp_data, arch))
    return known((uint32_t)OWN_ARCHITECTURE);
  for (size_t i = 0; i < sizeof call->known / sizeof *call->known; i++) {
    const struct seccomp_argument *argument = &call->known[i];
    size_t at = offsetof(struct seccomp_data, args) + (argument->number - 1u) * sizeof argument->value;
    if (argument->number && (offset == at || offset == at + 4))
      return known((uint32_t)(offset == at ? argument->value : argument->value >> 32));
  }
  return (struct value){0, false};
}

static struct value calculate(uint16_t operation, struct value a, struct value b) {
  struct value result = {0, a.known && b.known};
  switch (operation) {
  case BPF_ADD:
    result.bits = a.bits + b.bits;
    break;
  case BPF_SUB:
    result.bits = a.bits - b.bits;
    break;
  case BPF_MUL:
    result.bits = a.bits * b.bits;
    break;
  case BPF_DIV:
    result.bits = b.bits ? a.bits / b.bits : 0;
    result.known &= b.bits != 0;
    break;
  case BPF_OR:
    result.bits = a.bits | b.bits;
    break;
  case BPF_AND:
    result.bits = a.bits & b.bits;
    break;
  case BPF_XOR:
    result.bits = a.bits ^ b.bits;
    break;
  case BPF_LSH:
    result.bits = a.bits << (b.bits & 31);
    break;
  case BPF_RSH:
    result.bits = a.bits >> (b.bits & 31);
    break;
  case BPF_NEG:
    result.bits = -a.bits;
    break;
  default:
    result.known = false;
  }
  return result;
}

static bool is_taken(uint16_t operation, uint32_t a, uint32_t b) {
  return operation == BPF_JEQ ? a == b : operation == BPF_JGT ? a > b : operation == BPF_JGE ? a >= b : (a & b) != 0;
}

/* The kernel compares actions as signed numbers, the least wins. */
uint32_t seccomp_more_restrictive(uint32_t one, uint32_t other) {
  return (int32_t)(one & SECCOMP_RET_ACTION_FULL) <= (int32_t)(other & SECCOMP_RET_ACTION_FULL) ? one : other;
}

static void load_or_store(const struct run *run, const struct sock_filter *code, struct state *s) {
  struct value *to = BPF_CLASS(code->code) == BPF_LDX ? &s->x : &s->a, *word = &s->memory[code->k % BPF_MEMWORDS];
  if (code->code == BPF_ST || code->code == BPF_STX)
    *word = code->code == BPF_ST ? s->a : s->x;
  else if (BPF_MODE(code->code) == BPF_ABS)
    *to = load(run->call, code->k);
  else if (BPF_MODE(code->code) == BPF_MEM)
    *to = *word;
  else
    *to = known(BPF_MODE(code->code) == BPF_LEN ? sizeof(struct seccomp_data) : code->k);
}

static uint32_t evaluate(struct run *run, struct state s) {
  while (s.at < run->filter->len && run->steps++ < STEPS_MAX) {
    const struct sock_filter *code = &run->filter->filter[s.at++];
    struct value operand = BPF_SRC(code->code) == BPF_X ? s.x : known(code->k);
    uint16_t operation = BPF_OP(code->code);
    switch (BPF_CLASS(code->code)) {
    case BPF_RET:
      return BPF_RVAL(code->code) == BPF_K ? code->k : s.a.known ? s.a.bits : UNKNOWN;
    case BPF_ALU:
      s.a = calculate(operation, s.a, operation == BPF_NEG ? known(0) : operand);
      break;
    case BPF_MISC:
      *(BPF_MISCOP(code->code) == BPF_TAX ? &s.x : &s.a) = BPF_MISCOP(code->code) == BPF_TAX ? s.a : s.x;
      break;
    case BPF_JMP: {
      unsigned from = s.at;
      if (operation == BPF_JA) {
        s.at += code->k;
      } else if (s.a.known && operand.known) {
        s.at += is_taken(operation, s.a.bits, operand.bits) ? code->jt : code->jf;
      } else if (s.branches++ == BRANCHES_MAX) {
        return UNKNOWN;
      } else {
        s.at = from + code->jt;
        uint32_t taken = evaluate(run, s);
        s.at = from + code->jf;
        return seccomp_more_restrictive(taken, evaluate(run, s));
      }
      break;
    }
    default:
      load_or_store(run, code, &s);
    }
  }
  return UNKNOWN;
}

uint32_t seccomp_evaluate(const struct sock_fprog *filter, const struct seccomp_call *call) {
  struct run run = {.filter = filter, .call = call};
  struct state begin = {.a = known(0), .x = known(0)};
  return evaluate(&run, begin);
}

bool seccomp_permits(uint32_t action, const struct seccomp_call *call) {
  action &= SECCOMP_RET_ACTION_FULL;
  return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG ||
         (action == SECCOMP_RET_ERRNO && (call->need == SECCOMP_OPTIONAL || call->need == SECCOMP_STARTED));
}

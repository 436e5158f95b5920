/* SPDX-License-Identifier: MIT */
/* Random filters of system calls: with all arguments known, seccomp_evaluate returns what the kernel returns; with some
   unknown, nothing that is less restrictive. */
#include "core/base/split_mix.h"
#include "core/system/seccomp_filter.h"
#include "core/test/usual.h"

#include <linux/audit.h>
#include <linux/seccomp.h>

enum { FILTERS = 150, PROBES = 16, PARTS = 24, ARGUMENTS = 3, PROBE = SYS_getpriority, DATA = 0xfff };

static uint64_t seed;
static struct sock_filter code[512];
static struct sock_fprog filter = {0, code};

static uint32_t below(uint32_t limit) {
  return (uint32_t)(split_mix_next(&seed) >> 32) % limit;
}

static void put(unsigned what, uint32_t value, unsigned if_true, unsigned if_false) {
  code[filter.len++] = (struct sock_filter){(uint16_t)what, (uint8_t)if_true, (uint8_t)if_false, value};
}

static uint32_t number(void) {
  static const uint32_t often[] = {0, 1, 2, 31, 0x7fffffff, 0x80000000, 0xffffffff};
  return below(2) ? often[below(sizeof often / sizeof *often)] : (uint32_t)split_mix_next(&seed);
}

static uint64_t argument(void) {
  return (uint64_t)(below(3) ? 0 : number()) << 32 | (below(3) ? below(4) : number());
}

static void put_load(void) {
  uint32_t at = (uint32_t)offsetof(struct seccomp_data, args) + 4 * below(2 * ARGUMENTS);
  switch (below(6)) {
  case 0:
    put(BPF_LD | BPF_W | BPF_LEN, 0, 0, 0);
    break;
  case 1:
    put(BPF_LD | BPF_IMM, number(), 0, 0);
    break;
  case 2:
    put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    break;
  default:
    put(BPF_LD | BPF_W | BPF_ABS, at, 0, 0);
  }
}

static void put_part(void) {
  static const unsigned operations[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR, BPF_AND, BPF_XOR, BPF_LSH, BPF_RSH};
  static const unsigned jumps[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
  unsigned operation = operations[below(9)], word = below(2);
  switch (below(7)) {
  case 0:
    put_load();
    break;
  case 1: /* to X and back by a word of memory */
    put(BPF_ST, word, 0, 0);
    put_load();
    put(BPF_LDX | BPF_MEM, word, 0, 0);
    break;
  case 2:
    put(BPF_MISC | BPF_TAX, 0, 0, 0);
    put(BPF_STX, 2, 0, 0);
    put_load();
    put(BPF_MISC | (below(2) ? BPF_TXA : BPF_TAX), 0, 0, 0);
    put(BPF_LD | BPF_MEM, 2, 0, 0);
    break;
  case 3:
    put(BPF_ALU | BPF_NEG, 0, 0, 0);
    break;
  case 4: /* the part after it is left out, or one instruction of it */
    put(BPF_JMP | jumps[below(4)] | (below(2) ? BPF_X : BPF_K), below(4), 0, 1);
    put(below(2) ? BPF_JMP | BPF_JA : BPF_ALU | BPF_XOR | BPF_K, 1, 0, 0);
    put(BPF_ALU | BPF_ADD | BPF_K, number(), 0, 0);
    break;
  default:
    if (operation == BPF_DIV)
      put(BPF_ALU | operation | BPF_K, 1 + below(9), 0, 0);
    else if (operation == BPF_LSH || operation == BPF_RSH)
      put(BPF_ALU | operation | BPF_K, below(32), 0, 0);
    else
      put(BPF_ALU | operation | (below(2) ? BPF_X : BPF_K), number(), 0, 0);
  }
}

/* Lets all calls but PROBE pass, and has that fail with an error that all of the filter decides. */
static void make_filter(void) {
  filter.len = 0;
  put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
  put(BPF_JMP | BPF_JEQ | BPF_K, PROBE, 1, 0);
  put(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
  put(BPF_LD | BPF_IMM, number(), 0, 0);
  for (unsigned i = 0; i < PARTS; i++)
    put_part();
  put(BPF_ALU | BPF_AND | BPF_K, DATA, 0, 0);
  put(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO, 0, 0);
  put(BPF_RET | (below(8) ? BPF_A : BPF_K), SECCOMP_RET_ERRNO | 7, 0, 0);
}

static int probe(void) {
  struct seccomp_call call = {.number = PROBE}, other = {.number = SYS_getpid};
  for (unsigned i = 0; i < ARGUMENTS; i++)
    call.known[i] = (struct seccomp_argument){(uint8_t)(i + 1), argument()};
  errno = 0;
  syscall(PROBE, call.known[0].value, call.known[1].value, call.known[2].value);
  uint32_t found = seccomp_evaluate(&filter, &call);
  int wrong = found != (SECCOMP_RET_ERRNO | (uint32_t)errno);
  call.known[below(ARGUMENTS)].number = 0;
  uint32_t partly = seccomp_evaluate(&filter, &call);
  wrong |= seccomp_more_restrictive(found, partly) != partly && (partly & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO;
  return wrong || seccomp_evaluate(&filter, &other) != SECCOMP_RET_ALLOW;
}

static int in_child(void) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return 2;
  int wrong = 0;
  for (int i = 0; i < PROBES; i++)
    wrong |= probe();
  return wrong;
}

/* One comparison of an argument decides between two actions. */
static int decided(uint32_t equal, uint32_t unequal, uint32_t unknown) {
  struct seccomp_call call = {.number = PROBE, .known = {{2, 5ull << 32 | 4}}};
  filter.len = 0;
  put(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args[1]) + 4, 0, 0);
  put(BPF_JMP | BPF_JEQ | BPF_K, 5, 0, 1);
  put(BPF_RET | BPF_K, equal, 0, 0);
  put(BPF_RET | BPF_K, unequal, 0, 0);
  int wrong = seccomp_evaluate(&filter, &call) != equal;
  call.known[0].value = 5;
  wrong |= seccomp_evaluate(&filter, &call) != unequal;
  call.known[0].number = 1;
  return wrong | (seccomp_evaluate(&filter, &call) != unknown);
}

static int permits_wrongly(void) {
  static const uint32_t actions[] = {SECCOMP_RET_ALLOW, SECCOMP_RET_LOG,  SECCOMP_RET_ERRNO | 1,   SECCOMP_RET_TRACE,
                                     SECCOMP_RET_TRAP,  SECCOMP_RET_KILL, SECCOMP_RET_KILL_PROCESS};
  int wrong = 0;
  for (unsigned i = 0; i < sizeof actions / sizeof *actions; i++)
    for (int need = SECCOMP_NEEDED; need <= SECCOMP_STARTED; need++) {
      bool may_fail = need == SECCOMP_OPTIONAL || need == SECCOMP_STARTED;
      wrong |= seccomp_permits(actions[i], &(struct seccomp_call){.need = need}) != (i < 2 || (i == 2 && may_fail));
    }
  return wrong;
}

int main(void) {
  if (permits_wrongly() || decided(SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | 1, SECCOMP_RET_ERRNO | 1) ||
      decided(SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO, SECCOMP_RET_TRAP) ||
      decided(SECCOMP_RET_LOG, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_PROCESS))
    return 1;
  for (uint64_t i = 0; i < FILTERS; i++) {
    seed = i;
    make_filter();
    int status = 0;
    pid_t child = fork();
    if (child == 0)
      _exit(in_child());
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      fprintf(stderr, "filter %d: status %x\n", (int)i, status);
      return 1;
    }
  }
  return 0;
}

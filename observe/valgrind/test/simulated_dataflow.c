/* SPDX-License-Identifier: GPL-2.0-only */
/* Loops of one kind of dependence: simulated_dataflow KIND ROUNDS. Chains and streams walk over 1 MiB in random order.
 */
#include "core/base/split_mix.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 1 << 14, STREAMS = 8 };

struct node {
  struct node *next;
  uint64_t random, rest[6];
} __attribute__((aligned(64)));

static struct node nodes[NODES] __attribute__((aligned(2 * sizeof(struct node))));
static volatile uint64_t sink;

/* One ring over all nodes; of pairs of neighbours if `beside` is 2. */
static void lay(uint32_t beside) {
  static uint32_t order[NODES];
  uint64_t counter = 0;
  for (uint32_t index = 0; index < NODES; index += beside) {
    uint32_t other = (uint32_t)(split_mix_next(&counter) % (index / beside + 1)) * beside;
    for (uint32_t each = 0; each < beside; each++) {
      order[index + each] = order[other + each];
      order[other + each] = index + each;
    }
  }
  for (uint32_t index = 0; index < NODES; index++) {
    nodes[order[index]].next = &nodes[order[(index + 1) % NODES]];
    nodes[order[index]].random = split_mix_next(&counter);
  }
}

static void walk(uint64_t rounds, uint64_t streams) {
  struct node *at[STREAMS];
  for (unsigned index = 0; index < STREAMS; index++)
    at[index] = &nodes[index * (NODES / STREAMS)];
  if (streams == 1)
    for (uint64_t round = 0; round < rounds; round++)
      at[0] = at[0]->next;
  else
    for (uint64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 8
      for (unsigned index = 0; index < STREAMS; index++)
        at[index] = *(struct node *volatile *)&at[index]->next;
    }
  sink = (uintptr_t)at[0];
}

/* Two misses that do not depend on each other, with instructions behind each. */
#define WALK_PAIRS(name, behind_one, behind_other)                                                                     \
  static void name(uint64_t rounds) {                                                                                  \
    struct node *one = &nodes[0], *other = &nodes[NODES / 2];                                                          \
    for (uint64_t round = 0; round < rounds; round++)                                                                  \
      __asm__ volatile("mov (%0),%0\n" behind_one "mov (%1),%1\n" behind_other                                         \
                       : "+r"(one), "+r"(other)                                                                        \
                       : "r"(nodes)                                                                                    \
                       : "rax", "rcx", "cc");                                                                          \
    sink = (uintptr_t)one + (uintptr_t)other;                                                                          \
  }
#define NOPS ".rept 100\n nop\n .endr\n"
#define WAITING_LOADS(node) "mov " node ",%%rax\n shr $63,%%rax\n .rept 50\n add (%2,%%rax),%%rcx\n .endr\n"
WALK_PAIRS(walk_far, NOPS, NOPS)
WALK_PAIRS(walk_waiting, WAITING_LOADS("%0"), WAITING_LOADS("%1"))

/* Branches at random: on a register, or on a node that is loaded, whose address is known long before. */
static void branch(uint64_t rounds, int loads) {
  uint64_t state = 1, sum = 0;
  for (uint64_t round = 0; round < rounds; round++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = loads ? nodes[state >> 50].random : state >> 60;
    __asm__ volatile("test $1,%b1\n jz 1f\n add $1,%0\n 1:" : "+r"(sum) : "r"(bits) : "cc");
  }
  sink = sum;
}

#define JUMPS(rest) ".rept 100\n jmp 1f\n nop\n 1:" rest "\n .endr"

static void jump(uint64_t rounds) {
  for (uint64_t round = 0; round < rounds; round++)
    __asm__ volatile(JUMPS(""));
}

static void jump_apart(uint64_t rounds) {
  for (uint64_t round = 0; round < rounds; round++)
    __asm__ volatile(JUMPS("\n .rept 20\n nop\n .endr"));
}

/* Indirect calls: of two functions in turn, or of either at random. */
static uint64_t one_more(uint64_t sum) {
  return sum + 1;
}

static uint64_t two_more(uint64_t sum) {
  return sum + 2;
}

static void call(uint64_t rounds, int random) {
  static uint64_t (*volatile functions[])(uint64_t) = {one_more, two_more};
  uint64_t state = 1, sum = 0;
  for (uint64_t round = 0; round < rounds; round++) {
    state = random ? state * 6364136223846793005u + 1442695040888963407u : ~state;
    sum = functions[state >> 63](sum);
  }
  sink = sum;
}

static void add(uint64_t rounds) {
  uint64_t sum = 0;
  for (uint64_t round = 0; round < rounds; round++)
    __asm__ volatile(".rept 100\n add %1,%0\n .endr" : "+r"(sum) : "r"(rounds));
  sink = sum;
}

static void nop(uint64_t rounds) {
  for (uint64_t round = 0; round < rounds; round++)
    __asm__ volatile(".rept 100\n nop\n .endr");
}

/* Each addition reads what the last one has stored. */
static void pass_through_memory(uint64_t rounds) {
  static uint64_t word;
  for (uint64_t round = 0; round < rounds; round++)
    __asm__ volatile("addq $1,%0" : "+m"(word));
}

static void fill(uint64_t rounds) {
  static char bytes[1024] __attribute__((aligned(64)));
  for (uint64_t round = 0; round < rounds; round++) {
    char *to = bytes;
    uint64_t count = sizeof bytes;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(1) : "memory");
  }
}

int main(int count, char **arguments) {
  if (count < 3)
    return 1;
  const char *kind = arguments[1];
  uint64_t rounds = strtoull(arguments[2], NULL, 10);
  lay(!strcmp(kind, "pairs") ? 2 : 1);
  if (!strcmp(kind, "chain") || !strcmp(kind, "pairs"))
    walk(rounds, 1);
  else if (!strcmp(kind, "streams"))
    walk(rounds, STREAMS);
  else if (!strcmp(kind, "far"))
    walk_far(rounds);
  else if (!strcmp(kind, "waiting"))
    walk_waiting(rounds);
  else if (!strcmp(kind, "branch"))
    branch(rounds, 0);
  else if (!strcmp(kind, "branch-on-load"))
    branch(rounds, 1);
  else if (!strcmp(kind, "jump"))
    jump(rounds);
  else if (!strcmp(kind, "jump-apart"))
    jump_apart(rounds);
  else if (!strcmp(kind, "call"))
    call(rounds, 0);
  else if (!strcmp(kind, "call-random"))
    call(rounds, 1);
  else if (!strcmp(kind, "add"))
    add(rounds);
  else if (!strcmp(kind, "nop"))
    nop(rounds);
  else if (!strcmp(kind, "memory"))
    pass_through_memory(rounds);
  else if (!strcmp(kind, "fill"))
    fill(rounds);
  else
    return 1;
  return 0;
}

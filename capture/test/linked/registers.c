/* SPDX-License-Identifier: MIT */
/* Calls its own allocator with known values in all registers that a call may change, in the flags and in the vector
   state, and compares the values afterwards with those left by the same code under a name that is not redirected.
   argv[1]: rounds; 0: until the standard input ends. Exit status: 0, or 1 if something differs. */
#include "core/test/usual.h"

enum { RBX_KEPT, VECTORS = 0xe7, AREA_BYTES = 4096, HEADER = 512 };
#define ARENA_BYTES 0x30000000

char arena[ARENA_BYTES + (1 << 20)] __attribute__((aligned(16)));
uint64_t arena_used;
uint32_t turns; /* of malloc's loop in its next call */

/* An allocator that never reuses memory, and leaves all registers but rax alone, and constant flags at the end. Its
   functions rely on this in each other. With LOOP, one malloc jumps to its own first instruction, more often than a
   stack has room for frames. */
#ifdef LOOP
#define TURN "  decl turns(%rip)\n  jns malloc\n"
#else
#define TURN ""
#endif
#define ALLOCATOR(prefix, turn)                                                                                        \
  ".globl " prefix "malloc\n.type " prefix "malloc, @function\n" prefix "malloc:\n"                                    \
  "  leaq 31(%rdi), %rax\n  andq $-16, %rax\n" turn "  lock xaddq %rax, arena_used(%rip)\n"                            \
  "  pushq %rdx\n  leaq arena(%rip), %rdx\n  addq %rdx, %rax\n  popq %rdx\n  cmpq %rdi, %rdi\n  ret\n"                 \
  ".size " prefix "malloc, . - " prefix "malloc\n"                                                                     \
  ".globl " prefix "free\n.type " prefix "free, @function\n" prefix "free:\n"                                          \
  "  nopw 0(%rax, %rax)\n  ret\n"                                                                                      \
  ".size " prefix "free, . - " prefix "free\n"                                                                         \
  ".globl " prefix "calloc\n.type " prefix "calloc, @function\n" prefix "calloc:\n"                                    \
  "  imulq %rsi, %rdi\n  call " prefix "malloc\n"                                                                      \
  "  pushq %rdi\n  pushq %rcx\n  pushq %rax\n  movq %rdi, %rcx\n  movq %rax, %rdi\n  xorl %eax, %eax\n"                \
  "  rep stosb\n  popq %rax\n  popq %rcx\n  popq %rdi\n  cmpq %rdi, %rdi\n  ret\n"                                     \
  ".size " prefix "calloc, . - " prefix "calloc\n"                                                                     \
  ".globl " prefix "realloc\n.type " prefix "realloc, @function\n" prefix "realloc:\n"                                 \
  "  pushq %rdi\n  movq %rsi, %rdi\n  call " prefix "malloc\n  popq %rdi\n  testq %rdi, %rdi\n  jz 1f\n"               \
  "  pushq %rdi\n  pushq %rsi\n  pushq %rcx\n  movq %rsi, %rcx\n  movq %rdi, %rsi\n  movq %rax, %rdi\n"                \
  "  rep movsb\n  popq %rcx\n  popq %rsi\n  popq %rdi\n1:  cmpq %rdi, %rdi\n  ret\n"                                   \
  ".size " prefix "realloc, . - " prefix "realloc\n"

enum { RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11, FLAGS, REGISTERS };
static const char *const names[REGISTERS] = {"rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "flags"};

struct state {
  uint64_t value[REGISTERS], function, misaligned;
  _Alignas(64) uint8_t before[AREA_BYTES], after[AREA_BYTES];
};
_Static_assert(offsetof(struct state, before) == 128 && offsetof(struct state, after) == 4224, "the code has others");

/* clang-format off */
void call_with(struct state *state);
__asm__(".text\n.balign 16\n" ALLOCATOR("", TURN) ALLOCATOR("twin_", "")
        "call_with:\n"
        "  pushq %rbx\n  pushq %r12\n  movq %rdi, %rbx\n  movq %rsp, %r12\n"
        "  subq $8, %rsp\n  subq 88(%rbx), %rsp\n"
        "  movl $0xe7, %eax\n  xorl %edx, %edx\n  xrstor64 128(%rbx)\n"
        "  pushq 72(%rbx)\n  popfq\n"
        "  movq (%rbx), %rax\n  movq 8(%rbx), %rcx\n  movq 16(%rbx), %rdx\n  movq 24(%rbx), %rsi\n"
        "  movq 32(%rbx), %rdi\n  movq 40(%rbx), %r8\n  movq 48(%rbx), %r9\n  movq 56(%rbx), %r10\n"
        "  movq 64(%rbx), %r11\n"
        "  call *80(%rbx)\n"
        "  movq %rax, (%rbx)\n  movq %rcx, 8(%rbx)\n  movq %rdx, 16(%rbx)\n  movq %rsi, 24(%rbx)\n"
        "  movq %rdi, 32(%rbx)\n  movq %r8, 40(%rbx)\n  movq %r9, 48(%rbx)\n  movq %r10, 56(%rbx)\n"
        "  movq %r11, 64(%rbx)\n"
        "  pushfq\n  popq 72(%rbx)\n"
        "  movl $0xe7, %eax\n  xorl %edx, %edx\n  xsave64 4224(%rbx)\n"
        "  movq %r12, %rsp\n  popq %r12\n  popq %rbx\n  vzeroupper\n  ret\n");
/* clang-format on */

void *twin_malloc(size_t bytes), *twin_calloc(size_t count, size_t bytes), *twin_realloc(void *old, size_t bytes);
void twin_free(void *object);

static uint64_t next_random(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

/* Takes the present state, then random bits for the components that the processor has; sometimes only for a smaller
   part, with the rest unused. */
static void randomise(struct state *state, uint64_t *seed) {
  enum { STATUS = 0xcd5 & ~0x400, TAGS_AT = 4, MXCSR_AT = 24, ST_AT = 32, XMM_AT = 160, XMM_END = 416, MORE = 576 };
  memset(state, 0, sizeof *state);
  uint64_t parts = next_random(seed) % 2 ? VECTORS : 3;
  __asm__ volatile("xsave64 (%0)" : : "r"(state->before), "a"(VECTORS), "d"(0) : "memory");
  for (size_t at = ST_AT; at < AREA_BYTES; at += 8)
    if (at < XMM_END || at >= MORE) {
      uint64_t random = next_random(seed);
      memcpy(state->before + at, &random, sizeof random);
    }
  for (size_t at = ST_AT; at < XMM_AT; at += 16) /* 10 bytes each, followed by padding */
    memset(state->before + at + 10, 0, 6);
  state->before[TAGS_AT] = 0xff;
  memcpy(state->before + MXCSR_AT, &(uint32_t){0x1f80 | (uint32_t)(next_random(seed) % 4) << 13}, 4);
  uint32_t known[2];
  __asm__ volatile("xgetbv" : "=a"(known[0]), "=d"(known[1]) : "c"(0));
  memcpy(state->before + HEADER, &(uint64_t){parts & known[0]}, 8);
  for (int i = 0; i < REGISTERS; i++)
    state->value[i] = next_random(seed);
  state->value[FLAGS] = 2 | 0x200 | (state->value[FLAGS] & STATUS);
  state->misaligned = next_random(seed) % 2 * 8;
}

/* Returns 1 if something differs. */
static int compare(const struct state *one, const struct state *other, const char *call, bool acquires) {
  for (int i = acquires ? RCX : RAX; i < REGISTERS; i++)
    if (one->value[i] != other->value[i]) {
      fprintf(stderr, "%s changes %s: %#lx is not %#lx\n", call, names[i], one->value[i], other->value[i]);
      return 1;
    }
  for (size_t i = 0; i < AREA_BYTES; i++)
    if (one->after[i] != other->after[i]) {
      fprintf(stderr, "%s changes byte %zu of the vector state: %#x is not %#x\n", call, i, one->after[i],
              other->after[i]);
      return 1;
    }
  if (acquires && (one->value[RAX] < (uintptr_t)arena || one->value[RAX] >= (uintptr_t)arena + ARENA_BYTES)) {
    fprintf(stderr, "%s returns %#lx\n", call, one->value[RAX]);
    return 1;
  }
  return 0;
}

static int differs(uint64_t *seed, uint64_t round) {
  static _Thread_local struct state random, one, other;
  static _Thread_local uint64_t object;
  static const struct {
    const char *name;
    void *function, *twin;
  } calls[] = {{"free", (void *)free, (void *)twin_free},
               {"malloc", (void *)malloc, (void *)twin_malloc},
               {"realloc", (void *)realloc, (void *)twin_realloc},
               {"free", (void *)free, (void *)twin_free},
               {"calloc", (void *)calloc, (void *)twin_calloc}};
  enum { CALLS = sizeof calls / sizeof *calls, LARGE = 20000 };
  size_t n = round % CALLS;
  bool acquires = calls[n].twin != (void *)twin_free;
  randomise(&random, seed);
  uint64_t bytes = next_random(seed) % 64 == 0 ? LARGE : next_random(seed) % 300;
  random.value[RDI] = calls[n].twin == (void *)twin_malloc ? bytes : calls[n].twin == (void *)twin_calloc ? 2 : object;
  if (acquires && calls[n].twin != (void *)twin_malloc)
    random.value[RSI] = bytes;
  one = other = random;
  one.function = (uint64_t)(uintptr_t)calls[n].function;
  other.function = (uint64_t)(uintptr_t)calls[n].twin;
  call_with(&one);
  call_with(&other);
  if (acquires)
    object = one.value[RAX];
  return compare(&one, &other, calls[n].name, acquires);
}

static void *one_thread(void *seed) {
  uint64_t random = (uintptr_t)seed;
  return (void *)(uintptr_t)differs(&random, 1); /* a thread's first call is a separate case */
}

int main(int count, char **arguments) {
  uint64_t rounds = count > 1 ? strtoull(arguments[1], NULL, 10) : 0, seed = 88172645463325252u;
  struct pollfd ends = {.fd = STDIN_FILENO, .events = POLLIN};
  if (!rounds)
    puts(""), fflush(stdout);
  turns = 1000000;
  for (uint64_t round = 0; rounds ? round < rounds : poll(&ends, 1, 0) == 0; round++) {
    pthread_t thread;
    void *wrong = NULL;
    if (arena_used > ARENA_BYTES / 10 * 9) {
      usleep(1000);
      continue;
    }
    if (round % 1000 == 0 && pthread_create(&thread, NULL, one_thread, (void *)(uintptr_t)(round + 7)) == 0)
      pthread_join(thread, &wrong);
    if (wrong || differs(&seed, round))
      return 1;
  }
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* Random functions with instructions that depend on their place, and the functions of libm, are redirected to a hook
   that counts and calls the trampoline: their results, and the return addresses that they pass to called functions, are
   unchanged. Functions that can't be moved are refused for the right reason. */
#include "capture/linked/entry_patch.h"
#include "core/base/split_mix.h"
#include "core/test/check.h"

#include <elf.h>
#include <link.h>

#if !defined(__x86_64__)
int main(void) {
  puts("for x86-64 alone");
  return 77;
}
#else

enum {
  AREA_BYTES = 1 << 16,
  ROOM_AT = 1 << 15,
  DATA_AT = 0x7000,
  HELPER_AT = 0x7800,
  FUNCTIONS = 20000,
  OS_PAGE = 4096
};

uint64_t hook_calls, hook_trampoline;
void hook(void);
/* Changes no register and no flag that a function may read. */
__asm__(".text\n"
        ".globl hook\n"
        "hook:\n"
        "  incq hook_calls(%rip)\n"
        "  jmp *hook_trampoline(%rip)\n");

/* A function under construction. Each piece keeps rdi, rsi and rdx, or decreases rdi, and changes rax. */
struct maker {
  uint8_t *area;
  uint32_t at, begin, tails;
  uint32_t tail[16]; /* places of 8-bit distances to the end */
  uint32_t starts[32], count;
};

static void add(struct maker *maker, const char *bytes, uint32_t count) {
  memcpy(maker->area + maker->at, bytes, count);
  maker->at += count;
}

static void add_distance(struct maker *maker, uint32_t to, uint32_t behind) {
  int32_t distance = (int32_t)to - (int32_t)(maker->at + 4 + behind);
  add(maker, (const char *)&distance, 4);
}

static void add_short_jump_to_end(struct maker *maker, char opcode) {
  if (maker->tails == 16)
    return;
  add(maker, &opcode, 1);
  maker->tail[maker->tails++] = maker->at;
  add(maker, "", 1);
}

static void add_piece(struct maker *maker, uint64_t random) {
  uint32_t data = DATA_AT + (uint32_t)(random >> 8) % 64 * 8;
  switch (random % 11) {
  case 0:
    add(maker, "\x48\x03\x05", 3), add_distance(maker, data, 0);
    break; /* add rax, [rip] */
  case 1:
    add(maker, "\x48\x8d\x0d", 3), add_distance(maker, data, 0), add(maker, "\x48\x01\xc8", 3);
    break; /* lea */
  case 2:
    add(maker, "\x48\x01\xf8", 3);
    break; /* add rax, rdi */
  case 3:
    add(maker, "\x48\x31\xf0", 3);
    break; /* xor rax, rsi */
  case 4:
    add(maker, "\x48\x85\xff", 3), add_short_jump_to_end(maker, '\x74');
    break; /* jz */
  case 5:
    add(maker, "\x83\x3d", 2), add_distance(maker, data, 1), add(maker, "\x40", 1); /* cmp [rip], 64 */
    add_short_jump_to_end(maker, '\x73');
    break;
  case 6:
    add(maker, "\xe8", 1), add_distance(maker, HELPER_AT, 0);
    break; /* call */
  case 7:
    add(maker, "\x53\x48\x89\xfb\x48\x01\xd8\x5b", 8);
    break; /* push, pop rbx */
  case 8:
    add(maker, "\x83\xef\x01\x7f", 4);
    { /* sub; jg back */
      uint32_t to = maker->starts[(random >> 16) % maker->count];
      int32_t distance = (int32_t)to - (int32_t)(maker->at + 1);
      add(maker, (char[]){(char)(distance < -128 ? 0 : distance)}, 1);
    }
    break;
  case 9:
    add(maker, "\x48\xff\xc0", 3);
    break; /* inc rax */
  default:
    if (random >> 60 == 0)
      add_short_jump_to_end(maker, '\xeb');
    else
      add(maker, "\x90", 1); /* jmp; nop */
  }
}

/* Returns its bytes. */
static uint32_t make_function(struct maker *maker, uint64_t *seed) {
  maker->begin = maker->at = 64;
  maker->tails = maker->count = 0;
  if (split_mix_next(seed) % 3 == 0)
    add(maker, "\xf3\x0f\x1e\xfa", 4);
  uint32_t pieces = (uint32_t)(split_mix_next(seed) % 9);
  for (uint32_t i = 0; i < pieces; i++) {
    maker->starts[maker->count++] = maker->at;
    add_piece(maker, split_mix_next(seed));
  }
  for (uint32_t i = 0; i < maker->tails; i++)
    maker->area[maker->tail[i]] = (uint8_t)(maker->at - maker->tail[i] - 1);
  add(maker, "\xc3", 1);
  uint32_t bytes = maker->at - maker->begin;
  memset(maker->area + maker->at, split_mix_next(seed) % 2 ? 0xcc : 0x90, 64);
  return bytes;
}

static uint64_t call(uint64_t function, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t result = 0;
  __asm__ volatile("call *%[function]"
                   : "+a"(result), "+D"(a), "+S"(b), "+d"(c)
                   : [function] "r"(function)
                   : "rcx", "r8", "r9", "r10", "r11", "memory", "cc");
  return result;
}

static void apply(const struct entry_patch *patch, uint64_t room) {
  memcpy((void *)room, patch->room, patch->room_bytes);
  memcpy((void *)patch->at, patch->code, patch->bytes);
  hook_trampoline = patch->trampoline;
}

static void take_back(const struct entry_patch *patch) {
  memcpy((void *)patch->at, patch->original, patch->bytes);
}

static uint32_t differences(const struct entry_patch *patch, uint64_t function, uint64_t *seed) {
  enum { ARGUMENTS = 6 };
  uint64_t arguments[ARGUMENTS][3], before[ARGUMENTS];
  uint64_t room = patch->trampoline & ~(uint64_t)(ENTRY_ROOM_BYTES - 1);
  uint32_t wrong = 0;
  for (int i = 0; i < ARGUMENTS; i++) {
    arguments[i][0] = split_mix_next(seed) % 5; /* of which a function may count down */
    arguments[i][1] = split_mix_next(seed);
    arguments[i][2] = split_mix_next(seed);
    before[i] = call(function, arguments[i][0], arguments[i][1], arguments[i][2]);
  }
  apply(patch, room);
  for (int i = 0; i < ARGUMENTS; i++) {
    uint64_t counted = hook_calls;
    wrong += call(function, arguments[i][0], arguments[i][1], arguments[i][2]) != before[i];
    wrong += hook_calls == counted;
  }
  take_back(patch);
  return wrong;
}

static void random_functions(uint8_t *area) {
  uint64_t seed = 7;
  uint32_t redirected = 0, jumped = 0, pointless = 0, shadowed = 0, others = 0;
  for (int i = 0; i < 64; i++)
    ((uint64_t *)(area + DATA_AT))[i] = split_mix_next(&seed) % 128;
  memcpy(area + HELPER_AT, "\x48\x03\x04\x24\xc3", 5); /* adds the return address to rax */
  for (int i = 0; i < FUNCTIONS; i++) {
    struct maker maker = {.area = area};
    uint32_t bytes = make_function(&maker, &seed);
    uint64_t address = (uint64_t)(uintptr_t)area + maker.begin;
    struct entry_function function = {address, area + maker.begin, bytes, bytes + (split_mix_next(&seed) % 2 ? 16 : 0)};
    struct entry_target target = {.room = (uint64_t)(uintptr_t)area + ROOM_AT, .hook = (uint64_t)(uintptr_t)hook};
    struct entry_patch patch;
    const char *why = entry_patch_make(&function, &target, &patch);
    if (why) {
      jumped += strstr(why, "jumps into its first") != NULL;
      pointless += strstr(why, "too short") != NULL;
      shadowed += strstr(why, "shadow stack") != NULL;
      others += !strstr(why, "jumps into its first") && !strstr(why, "too short") && !strstr(why, "shadow stack");
      continue;
    }
    redirected++;
    uint32_t wrong = differences(&patch, address, &seed);
    CHECK(wrong == 0, "random function %d of %u bytes: %u wrong", i, bytes, wrong);
  }
  printf("random functions: %u redirected, %u jump into their begin, %u too short, %u others\n", redirected, jumped,
         pointless, others);
  CHECK(redirected > FUNCTIONS / 2, "few functions are redirected");
  CHECK(jumped > 0 && pointless > 0 && shadowed > 0 && others == 0, "refusals are not those of these functions");
}

static void library_functions(uint8_t *near) {
  static const char *const names[] = {"cbrt",        "erf",   "erfc",  "expm1", "log1p", "sinh",      "cosh",
                                      "tanh",        "asinh", "acosh", "atanh", "asin",  "acos",      "tgamma",
                                      "lgamma",      "j0",    "j1",    "y0",    "y1",    "exp10",     "logb",
                                      "significand", "sqrt",  "fabs",  "cbrtf", "erff",  "nearbyint", "round"};
  void *libm = dlopen("libm.so.6", RTLD_NOW);
  uint32_t redirected = 0;
  for (size_t i = 0; libm && i < sizeof names / sizeof *names; i++) {
    union {
      void *data;
      double (*code)(double);
    } symbol = {.data = dlsym(libm, names[i])};
    Dl_info info;
    const ElfW(Sym) *entry = NULL;
    if (!symbol.data || !dladdr1(symbol.data, &info, (void **)&entry, RTLD_DL_SYMENT) || !entry ||
        info.dli_saddr != symbol.data || ELF64_ST_TYPE(entry->st_info) != STT_FUNC)
      continue; /* chosen by the processor: no symbol has its size */
    uint64_t address = (uint64_t)(uintptr_t)symbol.data;
    struct entry_function function = {address, symbol.data, entry->st_size, entry->st_size};
    struct entry_target target = {.room = (uint64_t)(uintptr_t)near, .hook = (uint64_t)(uintptr_t)hook};
    struct entry_patch patch;
    if (entry_patch_make(&function, &target, &patch))
      continue;
    double before[100], after[100];
    for (int n = 0; n < 100; n++)
      before[n] = symbol.code((n - 20) * 0.37);
    void *os_page = (void *)(address & ~(uint64_t)(OS_PAGE - 1));
    CHECK(mprotect(os_page, 2 * OS_PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, "mprotect");
    apply(&patch, (uint64_t)(uintptr_t)near);
    uint64_t counted = hook_calls;
    for (int n = 0; n < 100; n++)
      after[n] = symbol.code((n - 20) * 0.37);
    take_back(&patch);
    CHECK(memcmp(before, after, sizeof before) == 0, "%s gives other results", names[i]);
    CHECK(hook_calls >= counted + 100, "%s was not redirected", names[i]);
    redirected++;
  }
  printf("libm: %u functions redirected\n", redirected);
  CHECK(redirected >= 8, "few functions of libm are redirected");
}

static void refusals(void) {
  static const struct {
    const char *code;
    size_t bytes, known;
    const char *says;
  } cases[] = {
      {"\xc3\x55\x48\x89\xe5\x5d\xc3", 1, 7, "too short"},
      {"\x31\xc0\xc3\x55\x48\x89\xe5", 3, 7, "too short"},
      {"\xff\xd0\x90\x90\x90\xc3", 6, 6, "call by a pointer"},
      {"\xff\x15\x00\x00\x00\x00\xc3", 7, 7, "call by a pointer"},
      {"\xe3\x05\x90\x90\x90\x90\x90\x90\xc3", 9, 9, "no form for longer distances"},
      {"\x31\xc0\x90\x90\x90\x90\x75\xfa\xc3", 9, 9, "jumps into its first instructions"},
      {"\x90\x90\x90\x90\x90\x90\x06\xc3", 8, 8, "not an instruction"},
      {"\x48\x89\xf8\x90\x90\xff\x24\xc5\x00\x10\x00\x00", 12, 12, "jumps by a table"},
      {"\x48\x89\xf8\x90\x90\x3e\xff\xe0", 8, 8, "jumps by a table"},
      {"\x48\x63\x04\x81\x90\x48\x01\xd0\xff\xe0", 10, 10, "jumps by a table"},
      {"\x31\xc0\x31", 3, 3, "not an instruction"},
      {"\x31\xc0", 2, 2, "ends in the middle"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct entry_function function = {0x401000, (const uint8_t *)cases[i].code, cases[i].bytes, cases[i].known};
    struct entry_target target = {.room = 0x200000, .hook = 1};
    struct entry_patch patch;
    const char *why = entry_patch_make(&function, &target, &patch);
    CHECK(why && strstr(why, cases[i].says), "case %zu: \"%s\" is not \"%s\"", i, why ? why : "", cases[i].says);
  }
  static const uint8_t plain[] = {0x55, 0x48, 0x89, 0xe5, 0x90, 0x5d, 0xc3};
  struct entry_function function = {0x401000, plain, sizeof plain, sizeof plain};
  struct entry_target far = {.room = 0x100401000, .hook = 1};
  struct entry_patch patch;
  const char *why = entry_patch_make(&function, &far, &patch);
  CHECK(why && strstr(why, "too far"), "a room far away is accepted");
}

/* The bytes of jumps, and of a constant that looks like one, among other instructions. */
static void jump_among_others(const struct entry_patch *patch, const char *opcode, size_t opcode_bytes, bool is_jump) {
  uint8_t code[1024];
  struct entry_function text = {0x402000, code, sizeof code, sizeof code};
  for (size_t i = 0; i < sizeof code; i += 4)
    memcpy(code + i, "\x48\x83\xc0\x11", 4); /* add rax, 17 */
  memcpy(code + 512, opcode, opcode_bytes);
  int32_t distance = (int32_t)(patch->at + 2 - (text.address + 512 + opcode_bytes + 4));
  memcpy(code + 512 + opcode_bytes, &distance, 4);
  memset(code + 512 + opcode_bytes + 4, 0x90, 4 + (size_t)(-(int)opcode_bytes & 3));
  bool jumped;
  entry_patch_find_jumps(&text, patch, 1, &jumped);
  CHECK(jumped == is_jump, "%zu bytes are %s taken for a jump", opcode_bytes, jumped ? "" : "not");
}

/* Jumps from other places: to the entry, behind the patch, into it. */
static void jumps_from_elsewhere(void) {
  static const uint8_t function_code[] = {0x55, 0x48, 0x89, 0xe5, 0x90, 0x5d, 0xc3};
  struct entry_function function = {0x401000, function_code, sizeof function_code, sizeof function_code};
  struct entry_target target = {.room = 0x200000, .hook = 1};
  struct entry_patch patch;
  CHECK(!entry_patch_make(&function, &target, &patch) && patch.bytes == 5, "a plain function is refused");
  jump_among_others(&patch, "\xe9", 1, true);
  jump_among_others(&patch, "\xe8", 1, true);
  jump_among_others(&patch, "\x0f\x85", 2, true);
  jump_among_others(&patch, "\x48\xc7\xc0", 3, false);
  jump_among_others(&patch, "\x48\xb8\xe9", 3, false); /* movabs: the last byte of the three belongs to the constant */
  for (int offset = 0; offset <= 5; offset++)
    for (int form = 0; form < 3; form++) {
      uint8_t code[16] = {0x90, 0x90, form == 2 ? 0x0f : 0x90, (uint8_t[]){0xe9, 0xe8, 0x84}[form]};
      struct entry_function text = {0x402000, code, sizeof code, sizeof code};
      int32_t distance = 0x401000 + offset - (0x402000 + 8);
      memcpy(code + 4, &distance, 4);
      bool jumped;
      entry_patch_find_jumps(&text, &patch, 1, &jumped);
      CHECK(jumped == (offset > 0 && offset < 5), "a jump of form %d to byte %d", form, offset);
    }
}

/* A function that calls by a pointer, one that calls this one, one that jumps to itself after such a call, and one that
   only computes. */
extern const char conventions_begin[], conventions_end[], by_pointer[], by_callee[], loops[], computes[];
__asm__(".text\n"
        ".globl conventions_begin, conventions_end, by_pointer, by_callee, loops, computes\n"
        "conventions_begin:\n"
        "by_pointer:\n  cmpq $9, %rdi\n  jb 1f\n  ret\n1:  call *hook_trampoline(%rip)\n  ret\n"
        "by_callee:\n  jmp 2f\n  .skip 8, 0xcc\n2:  call by_pointer\n  ret\n"
        "loops:\n  endbr64\n3:  call by_pointer\n  decq %rdi\n  jnz 3b\n  ret\n"
        "computes:\n  leaq 1(%rdi), %rax\n  ret\n"
        "conventions_end:\n");

static void conventions(void) {
  const struct {
    const char *function;
    bool is;
  } cases[] = {{by_pointer, true}, {by_callee, true}, {loops, false}, {computes, false}};
  size_t bytes = (size_t)(conventions_end - conventions_begin);
  struct entry_function text = {(uintptr_t)conventions_begin, (const uint8_t *)conventions_begin, bytes, bytes};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    CHECK(entry_patch_is_conventional(&text, (uintptr_t)cases[i].function) == cases[i].is, "case %zu", i);
}

int main(void) {
  void *area = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void *near = mmap(NULL, OS_PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED || near == MAP_FAILED)
    return 1;
  random_functions(area);
  library_functions(near);
  refusals();
  jumps_from_elsewhere();
  conventions();
  return 0;
}
#endif

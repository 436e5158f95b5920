/* SPDX-License-Identifier: MIT */
/* Claim: each instruction of DWARF's call frame programs has the effect on the rule that the standard gives it, at the
   bytes of code that it is for; what is cut off or unknown gives no rule. Also: finding a function's entry, reading its
   common part, and packing a rule. */
#include "core/unwind/unwind_rules.c"

#include "core/test/check.h"

#ifndef DLFO_STRUCT_HAS_EH_DBASE
int main(void) {
  return puts("this C library has no _dl_find_object"), 77;
}
#else

enum { BEGIN = 0x1000, FOREVER = 0x7fffff };

#define PROGRAM(...) .program = (const uint8_t[]){__VA_ARGS__}, .bytes = sizeof((const uint8_t[]){__VA_ARGS__})
#define NO_RULE                                                                                                        \
  { RULE_NONE, BP_SAME, 0, 0 }
#define REMEMBER_8 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a

/* At first the caller's stack pointer is ours plus 8. A step of the location is 2 bytes, a factor of offsets -8. */
static const struct {
  const char *what;
  const uint8_t *program;
  size_t bytes;
  unsigned at; /* bytes of code after BEGIN */
  struct unwind_rule rule;
} cases[] = {
    {"nop", PROGRAM(0x00), FOREVER, {RULE_SP, BP_SAME, 8, 0}},
    {"def_cfa", PROGRAM(0x0c, REG_BP, 16), FOREVER, {RULE_BP, BP_SAME, 16, 0}},
    {"def_cfa of another register", PROGRAM(0x0c, 3, 16), FOREVER, NO_RULE},
    {"def_cfa_sf", PROGRAM(0x12, REG_SP, 0x7e), FOREVER, {RULE_SP, BP_SAME, 16, 0}},
    {"def_cfa_register", PROGRAM(0x0d, REG_BP), FOREVER, {RULE_BP, BP_SAME, 8, 0}},
    {"def_cfa_offset", PROGRAM(0x0e, 0x80, 0x02), FOREVER, {RULE_SP, BP_SAME, 256, 0}},
    {"def_cfa_offset of eleven bytes",
     PROGRAM(0x0e, 0x90, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00),
     FOREVER,
     {RULE_SP, BP_SAME, 16, 0}},
    {"def_cfa_offset_sf, -129", PROGRAM(0x13, 0xff, 0x7e), FOREVER, {RULE_SP, BP_SAME, 1032, 0}},
    {"def_cfa_offset_sf, 64", PROGRAM(0x13, 0xc0, 0x00), FOREVER, {RULE_SP, BP_SAME, -512, 0}},
    {"offset", PROGRAM(0x80 | REG_BP, 2), FOREVER, {RULE_SP, BP_AT_CFA, 8, -16}},
    {"offset of another register", PROGRAM(0x83, 2), FOREVER, {RULE_SP, BP_SAME, 8, 0}},
    {"offset of the return address elsewhere", PROGRAM(0x80 | REG_RA, 2), FOREVER, NO_RULE},
    {"offset_extended", PROGRAM(0x05, REG_BP, 3), FOREVER, {RULE_SP, BP_AT_CFA, 8, -24}},
    {"offset_extended_sf", PROGRAM(0x11, REG_BP, 0x7f), FOREVER, {RULE_SP, BP_AT_CFA, 8, 8}},
    {"restore", PROGRAM(0x80 | REG_BP, 2, 0xc0 | REG_BP), FOREVER, {RULE_SP, BP_SAME, 8, 0}},
    {"restore of another", PROGRAM(0x80 | REG_BP, 2, 0xc3), FOREVER, {RULE_SP, BP_AT_CFA, 8, -16}},
    {"restore of the return address", PROGRAM(0x80 | REG_RA, 2, 0xc0 | REG_RA), FOREVER, {RULE_SP, BP_SAME, 8, 0}},
    {"restore_extended", PROGRAM(0x07, REG_BP, 0x06, REG_BP), FOREVER, {RULE_SP, BP_SAME, 8, 0}},
    {"restore_extended of what was undefined", PROGRAM(0x07, REG_RA, 0x06, REG_RA), FOREVER, {RULE_SP, BP_SAME, 8, 0}},
    {"undefined return address", PROGRAM(0x07, REG_RA), FOREVER, {RULE_END, BP_SAME, 0, 0}},
    {"undefined return address that is given again",
     PROGRAM(0x07, REG_RA, 0x80 | REG_RA, 1),
     FOREVER,
     {RULE_SP, BP_SAME, 8, 0}},
    {"undefined frame pointer", PROGRAM(0x07, REG_BP), FOREVER, NO_RULE},
    {"undefined frame pointer that is given again",
     PROGRAM(0x07, REG_BP, 0x80 | REG_BP, 2),
     FOREVER,
     {RULE_SP, BP_AT_CFA, 8, -16}},
    {"undefined other", PROGRAM(0x07, 3), FOREVER, {RULE_SP, BP_SAME, 8, 0}},
    {"same_value", PROGRAM(0x80 | REG_BP, 0, 0x07, REG_BP, 0x08, REG_BP), FOREVER, {RULE_SP, BP_SAME, 8, 0}},
    {"same_value of another", PROGRAM(0x07, REG_BP, 0x08, 3), FOREVER, NO_RULE},
    {"register", PROGRAM(0x09, REG_BP, 3), FOREVER, NO_RULE},
    {"register of the return address", PROGRAM(0x09, REG_RA, 3), FOREVER, NO_RULE},
    {"register of another", PROGRAM(0x09, 3, REG_RA, 0x0e, 16), FOREVER, {RULE_SP, BP_SAME, 16, 0}},
    {"remember_state and restore_state", PROGRAM(0x0a, 0x0e, 16, 0x0b), FOREVER, {RULE_SP, BP_SAME, 8, 0}},
    {"restore_state without another", PROGRAM(0x0b), FOREVER, NO_RULE},
    {"remember_state eight times", PROGRAM(REMEMBER_8, 0x0e, 16, 0x0b), FOREVER, {RULE_SP, BP_SAME, 8, 0}},
    {"remember_state nine times", PROGRAM(REMEMBER_8, 0x0a), FOREVER, NO_RULE},
    {"advance_loc, before", PROGRAM(0x43, 0x0e, 16), 5, {RULE_SP, BP_SAME, 8, 0}},
    {"advance_loc, there", PROGRAM(0x43, 0x0e, 16), 6, {RULE_SP, BP_SAME, 16, 0}},
    {"advance_loc1, before", PROGRAM(0x02, 0xff, 0x0e, 16), 509, {RULE_SP, BP_SAME, 8, 0}},
    {"advance_loc1, there", PROGRAM(0x02, 0xff, 0x0e, 16), 510, {RULE_SP, BP_SAME, 16, 0}},
    {"advance_loc2, before", PROGRAM(0x03, 1, 1, 0x0e, 16), 513, {RULE_SP, BP_SAME, 8, 0}},
    {"advance_loc2, there", PROGRAM(0x03, 1, 1, 0x0e, 16), 514, {RULE_SP, BP_SAME, 16, 0}},
    {"advance_loc4, before", PROGRAM(0x04, 1, 0, 1, 0, 0x0e, 16), 131073, {RULE_SP, BP_SAME, 8, 0}},
    {"advance_loc4, there", PROGRAM(0x04, 1, 0, 1, 0, 0x0e, 16), 131074, {RULE_SP, BP_SAME, 16, 0}},
    {"set_loc, before", PROGRAM(0x01, 0x10, 0x10, 0, 0, 0x0e, 16), 15, {RULE_SP, BP_SAME, 8, 0}},
    {"set_loc, there", PROGRAM(0x01, 0x10, 0x10, 0, 0, 0x0e, 16), 16, {RULE_SP, BP_SAME, 16, 0}},
    {"two steps, between", PROGRAM(0x41, 0x0e, 16, 0x41, 0x0e, 24), 3, {RULE_SP, BP_SAME, 16, 0}},
    {"def_cfa_expression", PROGRAM(0x0f, 2, 0x76, 0x10), FOREVER, {RULE_BP, BP_SAME, 16, 0}},
    {"def_cfa_expression of what is stored",
     PROGRAM(0x0f, 3, 0x76, 0x78, 0x06),
     FOREVER,
     {RULE_BP_DEREF, BP_SAME, -8, 0}},
    {"def_cfa_expression of another register", PROGRAM(0x0f, 2, 0x77, 0x10), FOREVER, NO_RULE},
    {"def_cfa_expression with more", PROGRAM(0x0f, 4, 0x76, 0x78, 0x06, 0x06), FOREVER, NO_RULE},
    {"def_cfa after an expression",
     PROGRAM(0x0f, 3, 0x76, 0, 0x06, 0x0c, REG_BP, 16),
     FOREVER,
     {RULE_BP, BP_SAME, 16, 0}},
    {"expression", PROGRAM(0x10, REG_BP, 2, 0x76, 0x70), FOREVER, {RULE_SP, BP_AT_BP, 8, -16}},
    {"expression of what is stored", PROGRAM(0x10, REG_BP, 3, 0x76, 0x70, 0x06), FOREVER, NO_RULE},
    {"expression of the return address", PROGRAM(0x10, REG_RA, 2, 0x76, 0), FOREVER, NO_RULE},
    {"expression of another", PROGRAM(0x10, 3, 2, 0x76, 0, 0x0e, 16), FOREVER, {RULE_SP, BP_SAME, 16, 0}},
    {"expression that is cut off", PROGRAM(0x10, REG_BP, 9, 0x76, 0x70), FOREVER, {RULE_SP, BP_AT_BP, 8, -16}},
    {"val_expression", PROGRAM(0x16, REG_BP, 2, 0x76, 0x70), FOREVER, NO_RULE},
    {"val_offset", PROGRAM(0x14, REG_BP, 1), FOREVER, NO_RULE},
    {"val_offset_sf of another", PROGRAM(0x15, 3, 0x81, 0x01, 0x0e, 16), FOREVER, {RULE_SP, BP_SAME, 16, 0}},
    {"GNU_args_size", PROGRAM(0x2e, 0x8e, 0x10, 0x0e, 16), FOREVER, {RULE_SP, BP_SAME, 16, 0}},
    {"unknown", PROGRAM(0x1f), FOREVER, NO_RULE},
    {"a number cut off", PROGRAM(0x0e, 16, 0x04, 1, 0), FOREVER, {RULE_SP, BP_SAME, 16, 0}},
};

static void expect(const char *what, struct unwind_rule found, struct unwind_rule rule) {
  CHECK(found.kind == rule.kind, "%s: kind %d", what, (int)found.kind);
  if (rule.kind != RULE_NONE)
    CHECK(found.bp == rule.bp && found.cfa_offset == rule.cfa_offset && found.bp_offset == rule.bp_offset,
          "%s: bp %d, cfa %ld, bp at %ld", what, (int)found.bp, (long)found.cfa_offset, (long)found.bp_offset);
}

static void try_programs(void) {
  static const uint8_t initial[] = {0x0c, REG_SP, 8, 0x80 | REG_RA, 1};
  struct cie cie = {
      .program = {initial, initial + sizeof initial}, .code_align = 2, .data_align = -8, .encoding = ENC_UDATA4};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct machine machine = {.cie = &cie, .row.ra_moved = true};
    CHECK(run(&machine, cie.program, UINTPTR_MAX), "the common part");
    machine.initial = machine.row;
    machine.location = BEGIN;
    bool known =
        run(&machine, (struct bytes){cases[i].program, cases[i].program + cases[i].bytes}, BEGIN + cases[i].at);
    expect(cases[i].what, known ? rule_of(&machine.row) : (struct unwind_rule){RULE_NONE, BP_SAME, 0, 0},
           cases[i].rule);
  }
}

/* A table of functions: the entry of the last one that begins at or before pc. */
static void try_tables(void) {
  struct __attribute__((packed)) {
    uint8_t head[4];
    int32_t eh_frame;
    uint32_t count;
    int32_t rows[6][2];
  } header = {{1, ENC_PCREL | ENC_SDATA4, ENC_UDATA4, ENC_DATAREL | ENC_SDATA4}, 0, 0, {{0}}};
  for (int i = 0; i < 6; i++)
    header.rows[i][0] = 1000 + 100 * i, header.rows[i][1] = 5000 + i;
  const uint8_t *start = (const uint8_t *)&header;
  for (header.count = 0; header.count <= 6; header.count++)
    for (uint32_t i = 0; i < 7; i++)
      for (int less = 0; less < 2; less++) {
        uint32_t last = i + 1 - (uint32_t)less < header.count ? i + 1 - (uint32_t)less : header.count;
        const uint8_t *found = find_fde(start, (uintptr_t)start + 1000 + 100 * i - (uintptr_t)less);
        CHECK(found == (last ? start + 5000 + last - 1 : NULL), "of %u functions, %u", header.count, i);
      }
  header.count = 6;
  for (int at = 0; at < 4; at++) {
    uint8_t kept = header.head[at];
    header.head[at] = at == 1 ? ENC_UDATA4 : ENC_OMIT; /* the place of .eh_frame is not needed */
    CHECK((find_fde(start, (uintptr_t)start + 1000) != NULL) == (at == 1), "head %d", at);
    header.head[at] = kept;
  }
}

static void try_common_part(void) {
  static const uint8_t whole[] = {24,  0,   0,    0,    0,    0,  0,    0,  1, 'z',
                                  'P', 'L', 'R',  'S',  0,    2,  0x78, 16, 5, ENC_UDATA4 - 1,
                                  1,   2,   0x0b, 0x1b, 0x0e, 16, 0,    0};
  static const struct {
    int at;
    uint8_t put;
    bool known;
  } changes[] = {{0, 24, true},   {0, 0, false}, {4, 1, false},   {8, 3, true},   {17, 15, false},
                 {9, 'y', false}, {9, 0, false}, {12, 'X', true}, {18, 99, false}};
  uint8_t entry[sizeof whole];
  struct cie cie;
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    memcpy(entry, whole, sizeof whole);
    entry[changes[i].at] = changes[i].put;
    CHECK(read_cie(entry, &cie) == changes[i].known, "change %zu", i);
    if (i == 0)
      CHECK(cie.code_align == 2 && cie.data_align == -8 && cie.encoding == 0x1b && cie.signal && cie.augmented &&
                cie.program.at == entry + 24 && cie.program.end == entry + sizeof whole,
            "encoding %x, program at %td", cie.encoding, cie.program.at - entry);
  }
  memset(entry, 0xff, 4);
  CHECK(!read_cie(entry, &cie), "a length of 64 bits");
  memset(entry + 4, 0, 4);
  memcpy(entry, (const uint8_t[]){11, 0, 0, 0}, 4);
  memset(entry + 8, 'z', 7);
  CHECK(!read_cie(entry, &cie), "a name without an end");
}

/* Pointers of each form, alone and relative to where they are. */
static void try_pointers(void) {
  static const uint8_t bytes[8] = {0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0};
  static const struct {
    uint8_t encoding;
    uintptr_t value;
    int length;
  } forms[] = {{0, 0x0ffffffffe, 8}, {1, 0xfffffffe, 5},       {2, 0xfffe, 2},           {3, 0xfffffffe, 4},
               {9, 0xfffffffe, 5},   {0x0a, (uintptr_t)-2, 2}, {0x0b, (uintptr_t)-2, 4}, {0x0c, 0x0ffffffffe, 8}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    for (int relative = 0; relative < 2; relative++) {
      struct bytes from = {bytes, bytes + sizeof bytes};
      uintptr_t found = pointer(&from, forms[i].encoding | (relative ? ENC_PCREL : 0));
      CHECK(found == forms[i].value + (relative ? (uintptr_t)bytes : 0) && from.at == bytes + forms[i].length,
            "form %d: %lx", forms[i].encoding, (unsigned long)found);
    }
}

static void try_packing(void) {
  static const int64_t offsets[] = {0,          8, -8,           8 * 16383,     -8 * 16384,  8 * 16384,
                                    -8 * 16385, 4, 8 * 8388607l, -8 * 8388608l, 8 * 8388608l};
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
    for (int where = 0; where < 2; where++) {
      struct unwind_rule rule = {RULE_BP_DEREF, BP_AT_BP, where ? 0 : offsets[i], where ? offsets[i] : 0};
      int64_t limit = 8 * (where ? 16384 : 8388608l);
      bool fits = offsets[i] % 8 == 0 && offsets[i] >= -limit && offsets[i] < limit;
      uint64_t bits = unwind_rule_pack(rule);
      CHECK(bits >> RULE_BITS == 0, "%ld", (long)offsets[i]);
      expect("packed", unwind_rule_unpack(bits), fits ? rule : (struct unwind_rule){RULE_NONE, BP_SAME, 0, 0});
    }
}

#ifdef __x86_64__
static uintptr_t outside; /* where clean_up returns to */

static __attribute__((noinline)) void look(void) {
  const uintptr_t *frame = __builtin_frame_address(0);
  struct unwind_rule rule = unwind_rule_find(frame[1] - 1);
  CHECK(rule.kind == RULE_SP || rule.kind == RULE_BP, "of a function of this program, kind %d", (int)rule.kind);
  uintptr_t before = (rule.kind == RULE_SP ? (uintptr_t)(frame + 2) : frame[0]) + (uintptr_t)rule.cfa_offset;
  CHECK(((const uintptr_t *)before)[-1] == outside, "its return address is elsewhere");
}

static void (*volatile look_there)(void) = look; /* may throw, for all that the compiler knows */

static void forget(volatile int *value) {
  *value = 0;
}

/* Its entry has data of its own, for exceptions, before its program. */
static __attribute__((noinline)) void clean_up(void) {
  __attribute__((cleanup(forget), unused)) volatile int value = 1; /* clang sees no use in its cleanup */
  outside = (uintptr_t)__builtin_return_address(0);
  look_there();
}
#else
static void clean_up(void) {}
#endif

int main(void) {
  try_programs();
  clean_up();
  try_tables();
  try_common_part();
  try_pointers();
  try_packing();
  return 0;
}
#endif

/* SPDX-License-Identifier: MIT */
#include "capture/linked/entry_patch.h"

#include <string.h>

#if defined(__x86_64__)

#include <Zydis/Zydis.h>

enum {
  ENDBR_BYTES = 4,
  JMP_REL32 = 0xe9,
  CALL_REL32 = 0xe8,
  INT3 = 0xcc,
  JUMP_INDIRECT_BYTES = 14, /* with its address behind it */
  PADDING_ALIGN = 16,
};

/* The bytes written for the room so far. */
struct writer {
  uint64_t address; /* of bytes[0] */
  uint8_t *bytes;
  uint32_t used, most;
  bool marked;  /* the function begins with endbr64: it may run with a shadow stack */
  bool too_far; /* a distance did not fit, or the room was too small */
};

static void put(struct writer *writer, const void *bytes, size_t count) {
  if (writer->used + count > writer->most) {
    writer->too_far = true;
    return;
  }
  memcpy(writer->bytes + writer->used, bytes, count);
  writer->used += (uint32_t)count;
}

static void put_byte(struct writer *writer, uint8_t byte) {
  put(writer, &byte, 1);
}

/* Puts the four-byte distance to target, counted from `behind` bytes after these four. */
static void put_distance(struct writer *writer, uint64_t target, uint32_t behind) {
  int64_t distance = (int64_t)(target - (writer->address + writer->used + 4 + behind));
  int32_t word = (int32_t)distance;
  if (word != distance)
    writer->too_far = true;
  put(writer, &word, sizeof word);
}

static void put_jump(struct writer *writer, uint64_t target) {
  put_byte(writer, JMP_REL32);
  put_distance(writer, target, 0);
}

static void put_stub(struct writer *writer, const struct entry_target *target) {
  static const uint8_t push_argument[] = {0xff, 0x35, 18, 0, 0, 0}, load_r9[] = {0x4c, 0x8b, 0x0d, 17, 0, 0, 0};
  uint8_t jump_to_hook[] = {0xff, 0x25, 0, 0, 0, 0};
  bool has_argument = target->passes != ENTRY_NO_ARGUMENT;
  if (target->passes == ENTRY_ARGUMENT_ON_STACK)
    put(writer, push_argument, sizeof push_argument);
  else if (has_argument)
    put(writer, load_r9, sizeof load_r9);
  if (has_argument)
    jump_to_hook[2] = (uint8_t)(ENTRY_HOOK_AT - writer->used - sizeof jump_to_hook);
  put(writer, jump_to_hook, sizeof jump_to_hook);
  while (has_argument && writer->used < ENTRY_HOOK_AT)
    put_byte(writer, INT3);
  put(writer, &target->hook, sizeof target->hook);
  if (has_argument)
    put(writer, &target->argument, sizeof target->argument);
  while (writer->used % 16)
    put_byte(writer, INT3);
}

struct decoded {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
  uint64_t address;
  const uint8_t *code;
};

static bool decode(const struct entry_function *function, size_t at, size_t end, struct decoded *decoded) {
  ZydisDecoder decoder;
  decoded->address = function->address + at;
  decoded->code = function->code + at;
  return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) &&
         ZYAN_SUCCESS(
             ZydisDecoderDecodeFull(&decoder, decoded->code, end - at, &decoded->instruction, decoded->operand));
}

static bool is_relative(const struct decoded *decoded) {
  return decoded->instruction.attributes & ZYDIS_ATTRIB_IS_RELATIVE;
}

/* Finds where a direct jump or call leads; false: it is another instruction. */
static bool leads_to(const struct decoded *decoded, uint64_t *target) {
  const ZydisDecodedOperand *operand = &decoded->operand[0];
  return is_relative(decoded) && operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operand->imm.is_relative &&
         ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&decoded->instruction, operand, decoded->address, target));
}

/* The memory operand that is relative to the instruction; NULL: there is none. */
static const ZydisDecodedOperand *relative_memory(const struct decoded *decoded) {
  for (unsigned i = 0; i < decoded->instruction.operand_count_visible; i++)
    if (decoded->operand[i].type == ZYDIS_OPERAND_TYPE_MEMORY && decoded->operand[i].mem.base == ZYDIS_REGISTER_RIP)
      return &decoded->operand[i];
  return NULL;
}

static const char *put_relative_memory(struct writer *writer, const struct decoded *decoded) {
  const ZydisDecodedOperand *operand = relative_memory(decoded);
  const ZydisDecodedInstruction *instruction = &decoded->instruction;
  uint64_t target;
  if (!operand || instruction->raw.disp.size != 32 ||
      !ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(instruction, operand, decoded->address, &target)))
    return "begins with an instruction that works at its own place only";
  uint32_t before = instruction->raw.disp.offset, behind = instruction->length - before - 4;
  put(writer, decoded->code, before);
  put_distance(writer, target, behind);
  put(writer, decoded->code + before + 4, behind);
  return NULL;
}

/* Puts a call with its original return address, so that it returns to the function. */
static void put_call(struct writer *writer, const struct decoded *decoded, uint64_t target) {
  static const uint8_t push_from[] = {0xff, 0x35};
  uint64_t back = decoded->address + decoded->instruction.length;
  put(writer, push_from, sizeof push_from);
  uint32_t jump_bytes = ENTRY_JUMP_BYTES;
  put(writer, &jump_bytes, sizeof jump_bytes); /* the word behind the jump */
  put_jump(writer, target);
  put(writer, &back, sizeof back);
}

/* Puts the instruction so that it has the same effect at its new place as at its old one. last: no instruction of the
   patch follows. */
static const char *put_instruction(struct writer *writer, const struct decoded *decoded, bool last) {
  const ZydisDecodedInstruction *instruction = &decoded->instruction;
  uint64_t target;
  if (instruction->meta.category == ZYDIS_CATEGORY_CALL) {
    if (!last || !leads_to(decoded, &target))
      return "begins with a call by a pointer";
    if (writer->marked)
      return "begins with a call, which a shadow stack would have to know of";
    put_call(writer, decoded, target);
  } else if (!is_relative(decoded)) {
    put(writer, decoded->code, instruction->length);
  } else if (!leads_to(decoded, &target)) {
    return put_relative_memory(writer, decoded);
  } else if (instruction->mnemonic == ZYDIS_MNEMONIC_JMP) {
    put_jump(writer, target);
  } else if (instruction->meta.category == ZYDIS_CATEGORY_COND_BR &&
             (instruction->opcode & 0xf0) == (instruction->opcode_map == ZYDIS_OPCODE_MAP_0F ? 0x80 : 0x70)) {
    put_byte(writer, 0x0f);
    put_byte(writer, 0x80 | (instruction->opcode & 0x0f));
    put_distance(writer, target, 0);
  } else {
    return "begins with a jump that has no form for longer distances";
  }
  return NULL;
}

/* Is code behind that instruction executed only after a jump to it? */
static bool ends_flow(const struct decoded *decoded) {
  ZydisInstructionCategory category = decoded->instruction.meta.category;
  return category == ZYDIS_CATEGORY_UNCOND_BR || category == ZYDIS_CATEGORY_RET;
}

/* Compilers fill the bytes up to the next function with these. */
static bool is_padding(const struct decoded *decoded) {
  ZydisMnemonic mnemonic = decoded->instruction.mnemonic;
  return mnemonic == ZYDIS_MNEMONIC_NOP || mnemonic == ZYDIS_MNEMONIC_INT3;
}

/* A jump by a table, whose targets can't be determined. The forms that gcc and clang make for a switch: to an address
   in a table, and by a distance in it that is added to a register. */
struct tables {
  bool distance_loaded;
};

static bool jumps_by_table(struct tables *tables, const struct decoded *decoded) {
  const ZydisDecodedInstruction *instruction = &decoded->instruction;
  const ZydisDecodedOperand *operands = decoded->operand;
  if (instruction->mnemonic == ZYDIS_MNEMONIC_MOVSXD && operands[1].type == ZYDIS_OPERAND_TYPE_MEMORY &&
      operands[1].mem.index != ZYDIS_REGISTER_NONE)
    tables->distance_loaded = true;
  if (instruction->mnemonic != ZYDIS_MNEMONIC_JMP)
    return false;
  if (instruction->attributes & ZYDIS_ATTRIB_HAS_NOTRACK)
    return true;
  if (operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY)
    return operands[0].mem.index != ZYDIS_REGISTER_NONE;
  return operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER && tables->distance_loaded;
}

static const char *jump_problem(const struct entry_function *function, const struct entry_patch *patch) {
  struct tables tables = {false};
  struct decoded decoded;
  for (size_t at = 0; at < function->bytes; at += decoded.instruction.length) {
    uint64_t target;
    if (!decode(function, at, function->bytes, &decoded))
      return "has bytes that are not an instruction";
    if (leads_to(&decoded, &target) && target > patch->at && target < patch->at + patch->bytes)
      return "jumps into its first instructions";
    if (jumps_by_table(&tables, &decoded))
      return "jumps by a table, perhaps into its first instructions";
  }
  return NULL;
}

/* The instructions that the jump overwrites go into the trampoline. The last one need not belong to the function:
   padding up to the next function may be overwritten, too. */
static const char *move_instructions(const struct entry_function *function, struct writer *writer,
                                     struct entry_patch *patch) {
  size_t begin = patch->at - function->address, at = begin;
  struct decoded decoded;
  bool ended = false;
  while (at - begin < ENTRY_JUMP_BYTES) {
    bool behind = at >= function->bytes;
    if (behind && !ended)
      return "ends in the middle of an instruction, or continues in another function";
    if (!decode(function, at, behind ? function->known : function->bytes, &decoded))
      return behind ? "is too short" : "has bytes that are not an instruction";
    size_t next = at + decoded.instruction.length;
    if (behind && (!is_padding(&decoded) || (function->address + at) % PADDING_ALIGN == 0))
      return "is too short";
    if (!behind && at - begin < ENTRY_PATCH_MOST)
      patch->moved[at - begin] = (uint8_t)writer->used;
    const char *why = behind ? NULL : put_instruction(writer, &decoded, next - begin >= ENTRY_JUMP_BYTES);
    if (why)
      return why;
    ended = ended || ends_flow(&decoded);
    at = next;
  }
  if (!ended || !ends_flow(&decoded))
    put_jump(writer, function->address + at);
  patch->bytes = (uint32_t)(at - begin);
  return NULL;
}

static bool put_code(struct entry_patch *patch, uint64_t room) {
  struct writer jump = {.address = patch->at, .bytes = patch->code, .most = ENTRY_JUMP_BYTES};
  memset(patch->code, INT3, sizeof patch->code);
  put_jump(&jump, room);
  return !jump.too_far;
}

const char *entry_patch_make(const struct entry_function *function, const struct entry_target *target,
                             struct entry_patch *patch) {
  static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
  bool marked = function->bytes >= sizeof endbr64 && memcmp(function->code, endbr64, sizeof endbr64) == 0;
  *patch = (struct entry_patch){.at = function->address + (marked ? sizeof endbr64 : 0)};
  if (!put_code(patch, target->room))
    return "is too far from the memory for its trampoline";
  struct writer writer = {.address = target->room, .bytes = patch->room, .most = ENTRY_ROOM_BYTES, .marked = marked};
  put_stub(&writer, target);
  patch->trampoline = target->room + writer.used;
  if (marked)
    put(&writer, endbr64, sizeof endbr64);
  const char *why = move_instructions(function, &writer, patch);
  if (!why && writer.too_far)
    why = "refers to an address too far from the memory for its trampoline";
  if (!why)
    why = jump_problem(function, patch);
  if (why)
    return why;
  patch->room_bytes = writer.used;
  memcpy(patch->original, function->code + (patch->at - function->address), patch->bytes);
  return NULL;
}

/* Does decoding that begins at byte `from` reach an instruction at byte `at`? */
static bool decodes_to(const struct entry_function *text, size_t from, size_t at) {
  struct decoded decoded;
  while (from < at) {
    if (!decode(text, from, text->bytes, &decoded))
      from++; /* a constant between functions, or the middle of an instruction */
    else
      from += decoded.instruction.length;
  }
  return from == at;
}

/* May an instruction begin at that byte? Decoding that begins anywhere synchronizes with the instructions within a few
   of them. True where different beginnings disagree. */
static bool may_be_instruction(const struct entry_function *text, size_t at) {
  enum { NEAREST = 96, BEGINS = 16 };
  if (at < NEAREST + BEGINS)
    return decodes_to(text, 0, at);
  for (size_t begin = 0; begin < BEGINS; begin++)
    if (decodes_to(text, at - NEAREST - begin, at))
      return true;
  return false;
}

/* A walk through code along direct jumps, and calls where these are to be followed. */
struct walk {
  const struct entry_function *text;
  bool follows_calls;
  uint32_t count, instructions;
  uint64_t to[1024];      /* where code to be read begins */
  bool returns, pointers; /* to the first instruction; a call by a pointer is found */
};

static bool is_call_by_pointer(const struct decoded *decoded) {
  return decoded->instruction.meta.category == ZYDIS_CATEGORY_CALL ||
         (decoded->instruction.mnemonic == ZYDIS_MNEMONIC_JMP && relative_memory(decoded));
}

static bool is_target(const struct walk *walk, uint64_t address) {
  for (uint32_t i = 0; i < walk->count; i++)
    if (walk->to[i] == address)
      return true;
  return false;
}

/* False: there are too many. */
static bool add_target(struct walk *walk, uint64_t target) {
  if (target - walk->text->address >= walk->text->bytes || is_target(walk, target))
    return true;
  if (walk->count == sizeof walk->to / sizeof *walk->to)
    return false;
  walk->to[walk->count++] = target;
  return true;
}

/* Reads code up to where its flow ends, or is read from another place. False: it is not code, or more than is read. */
static bool walk_from(struct walk *walk, uint64_t address) {
  enum { MOST = 8192 };
  struct decoded decoded;
  uint64_t begin = address - walk->text->address, target;
  for (uint64_t at = begin; !walk->pointers; at += decoded.instruction.length) {
    if (at != begin && is_target(walk, walk->text->address + at))
      return true;
    if (walk->instructions++ == MOST || at >= walk->text->bytes || !decode(walk->text, at, walk->text->bytes, &decoded))
      return false;
    bool direct = leads_to(&decoded, &target), calls = decoded.instruction.meta.category == ZYDIS_CATEGORY_CALL;
    walk->pointers = walk->follows_calls && !direct && is_call_by_pointer(&decoded);
    walk->returns |= direct && !calls && target - walk->to[0] <= ENDBR_BYTES;
    if (direct && (walk->follows_calls || !calls) && !add_target(walk, target))
      return false;
    if (ends_flow(&decoded))
      return true;
  }
  return true;
}

bool entry_patch_is_conventional(const struct entry_function *text, uint64_t address) {
  for (int calls = 0; calls < 2; calls++) {
    struct walk walk = {.text = text, .follows_calls = calls, .count = 1, .to = {address}};
    for (uint32_t i = 0; i < walk.count && !walk.pointers; i++)
      if (!walk_from(&walk, walk.to[i]))
        return false;
    if (calls ? !walk.pointers : walk.returns)
      return false;
  }
  return true;
}

/* Is there a patch over that address? marks: NULL, or what is set for each that is. */
static bool is_overwritten(const struct entry_patch *patches, size_t count, uint64_t address, bool *marks) {
  bool any = false;
  for (size_t i = 0; i < count; i++)
    if (address > patches[i].at && address < patches[i].at + patches[i].bytes) {
      any = true;
      if (marks)
        marks[i] = true;
    }
  return any;
}

/* Bytes of the opcode before a 32-bit distance at that byte; 0: it is not that of a jump or call. */
static size_t opcode_bytes(const uint8_t *code, size_t at) {
  if (at > 1 && code[at - 2] == 0x0f && (code[at - 1] & 0xf0) == 0x80)
    return 2;
  return code[at - 1] == JMP_REL32 || code[at - 1] == CALL_REL32 ? 1 : 0;
}

void entry_patch_find_jumps(const struct entry_function *text, const struct entry_patch *patches, size_t count,
                            bool *jumped_into) {
  uint64_t lowest = UINT64_MAX, highest = 0;
  memset(jumped_into, 0, count * sizeof *jumped_into);
  for (size_t i = 0; i < count; i++) {
    lowest = patches[i].at < lowest ? patches[i].at : lowest;
    highest = patches[i].at + patches[i].bytes > highest ? patches[i].at + patches[i].bytes : highest;
  }
  for (size_t at = 1; count && at + 4 <= text->bytes; at++) {
    size_t opcode = opcode_bytes(text->code, at);
    if (!opcode)
      continue;
    int32_t distance;
    memcpy(&distance, text->code + at, sizeof distance);
    uint64_t target = text->address + at + 4 + (uint64_t)(int64_t)distance;
    if (target > lowest && target < highest && is_overwritten(patches, count, target, NULL) &&
        may_be_instruction(text, at - opcode))
      is_overwritten(patches, count, target, jumped_into);
  }
}

#else

bool entry_patch_is_conventional(const struct entry_function *text, uint64_t address) {
  (void)text, (void)address;
  return false;
}

const char *entry_patch_make(const struct entry_function *function, const struct entry_target *target,
                             struct entry_patch *patch) {
  (void)function, (void)target, (void)patch;
  return "is of a processor for which functions can't be redirected yet";
}

void entry_patch_find_jumps(const struct entry_function *text, const struct entry_patch *patches, size_t count,
                            bool *jumped_into) {
  (void)text, (void)patches;
  memset(jumped_into, 0, count * sizeof *jumped_into);
}

#endif

/* SPDX-License-Identifier: MIT */
#include "core/unwind/unwind_rules.h"

#include "core/elf/elf.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#ifdef DLFO_STRUCT_HAS_EH_DBASE

/* Registers as DWARF numbers them. */
enum { REG_BP = 6, REG_SP = 7, REG_RA = 16 };

/* Bytes being read; reading past the end gives zeros, which end everything. */
struct bytes {
  const uint8_t *at, *end;
};

static uint64_t fixed(struct bytes *from, size_t count) {
  uint64_t value = 0;
  if ((size_t)(from->end - from->at) < count) {
    from->at = from->end;
    return 0;
  }
  memcpy(&value, from->at, count);
  from->at += count;
  return value;
}

static uint64_t uleb(struct bytes *from) {
  uint64_t value = 0;
  for (int shift = 0; from->at < from->end; shift += 7) {
    uint8_t byte = *from->at++;
    if (shift < 64)
      value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80)
      break;
  }
  return value;
}

static int64_t sleb(struct bytes *from) {
  uint64_t value = 0;
  int shift = 0;
  uint8_t byte = 0;
  while (from->at < from->end) {
    byte = *from->at++;
    if (shift < 64)
      value |= (uint64_t)(byte & 0x7f) << shift;
    shift += 7;
    if (byte < 0x80)
      break;
  }
  if (shift < 64 && (byte & 0x40))
    value |= ~(uint64_t)0 << shift;
  return (int64_t)value;
}

/* Pointer encodings: the form in the low half, what it is relative to in the high one. */
enum { ENC_ABSOLUTE = 0, ENC_UDATA4 = 3, ENC_SDATA4 = 0x0b, ENC_PCREL = 0x10, ENC_DATAREL = 0x30, ENC_OMIT = 0xff };

static uintptr_t pointer(struct bytes *from, uint8_t encoding) {
  uintptr_t base = (encoding & 0x70) == ENC_PCREL ? (uintptr_t)from->at : 0;
  switch (encoding & 0x0f) {
  case 0x01:
    return base + (uintptr_t)uleb(from);
  case 0x02:
    return base + (uintptr_t)fixed(from, 2);
  case ENC_UDATA4:
    return base + (uintptr_t)fixed(from, 4);
  case 0x09:
    return base + (uintptr_t)sleb(from);
  case 0x0a:
    return base + (uintptr_t)(int16_t)fixed(from, 2);
  case ENC_SDATA4:
    return base + (uintptr_t)(int32_t)fixed(from, 4);
  default:
    return base + (uintptr_t)fixed(from, 8);
  }
}

/* The FDE for pc in the header's table; NULL if there is none. */
static const uint8_t *find_fde(const uint8_t *header, uintptr_t pc) {
  struct bytes from = {header + 4, header + 32};
  if (header[0] != 1 || header[2] == ENC_OMIT || header[3] != (ENC_DATAREL | ENC_SDATA4))
    return NULL;
  pointer(&from, header[1]);
  uint64_t count = pointer(&from, header[2]);
  const uint8_t *table = from.at;
  uint64_t low = 0, high = count;
  int64_t target = (int64_t)(pc - (uintptr_t)header);
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    int32_t begin;
    memcpy(&begin, table + 8 * middle, 4);
    if (begin <= target)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0)
    return NULL;
  int32_t offset;
  memcpy(&offset, table + 8 * (low - 1) + 4, 4);
  return header + offset;
}

/* Opens an entry of .eh_frame: its bytes after the length. */
static bool open_entry(const uint8_t *entry, struct bytes *body) {
  uint32_t length;
  memcpy(&length, entry, 4);
  if (length == 0 || length >= 0xfffffff0)
    return false;
  *body = (struct bytes){entry + 4, entry + 4 + length};
  return true;
}

struct cie {
  struct bytes program;
  uint64_t code_align;
  int64_t data_align;
  uint8_t encoding;
  bool signal, augmented;
};

static bool read_cie(const uint8_t *entry, struct cie *cie) {
  struct bytes body;
  if (!open_entry(entry, &body) || fixed(&body, 4) != 0)
    return false;
  uint8_t version = (uint8_t)fixed(&body, 1);
  const char *augmentation = (const char *)body.at;
  const uint8_t *nul = memchr(body.at, 0, (size_t)(body.end - body.at));
  if (!nul)
    return false;
  body.at = nul + 1;
  *cie = (struct cie){.encoding = ENC_ABSOLUTE};
  cie->code_align = uleb(&body);
  cie->data_align = sleb(&body);
  uint64_t ra = version == 1 ? fixed(&body, 1) : uleb(&body);
  if (ra != REG_RA || (augmentation[0] && augmentation[0] != 'z'))
    return false;
  if (augmentation[0] == 'z') {
    uint64_t length = uleb(&body);
    const uint8_t *after = body.at + length;
    cie->augmented = true;
    for (const char *letter = augmentation + 1; *letter; letter++) {
      if (*letter == 'R')
        cie->encoding = (uint8_t)fixed(&body, 1);
      else if (*letter == 'L')
        fixed(&body, 1);
      else if (*letter == 'P')
        pointer(&body, (uint8_t)fixed(&body, 1));
      else if (*letter == 'S')
        cie->signal = true;
      else
        break;
    }
    body.at = after;
  }
  cie->program = body;
  return body.at <= body.end;
}

/* The needed registers, as the call frame program has described them so far. */
struct row {
  uint64_t cfa_register;
  int64_t cfa_offset;
  bool cfa_deref, cfa_unknown;
  enum rule_bp bp;
  int64_t bp_offset;
  bool bp_unknown, ra_undefined, ra_moved;
};

enum { ROWS_REMEMBERED = 8 };

struct machine {
  const struct cie *cie;
  struct row row, initial, remembered[ROWS_REMEMBERED];
  unsigned depth;
  uintptr_t location;
};

static void set_offset(struct machine *machine, uint64_t reg, int64_t offset) {
  struct row *row = &machine->row;
  if (reg == REG_BP) {
    row->bp = BP_AT_CFA;
    row->bp_offset = offset;
    row->bp_unknown = false;
  } else if (reg == REG_RA) {
    row->ra_moved = offset != -8;
    row->ra_undefined = false;
  }
}

static void set_unknown(struct machine *machine, uint64_t reg) {
  if (reg == REG_BP)
    machine->row.bp_unknown = true;
  else if (reg == REG_RA)
    machine->row.ra_moved = true;
}

static void restore(struct machine *machine, uint64_t reg) {
  if (reg == REG_BP) {
    machine->row.bp = machine->initial.bp;
    machine->row.bp_offset = machine->initial.bp_offset;
    machine->row.bp_unknown = machine->initial.bp_unknown;
  } else if (reg == REG_RA) {
    machine->row.ra_undefined = machine->initial.ra_undefined;
    machine->row.ra_moved = machine->initial.ra_moved;
  }
}

/* The two expressions that compilers make where a function aligns its stack: the frame pointer plus an offset, and what
   is stored there. */
static bool bp_expression(struct bytes *from, int64_t *offset, bool *deref) {
  enum { OP_DEREF = 0x06, OP_BREG0 = 0x70 };
  uint64_t length = uleb(from);
  struct bytes body = {from->at, from->at + length};
  if (length > (uint64_t)(from->end - from->at))
    body.end = from->end;
  from->at = body.end;
  if (fixed(&body, 1) != OP_BREG0 + REG_BP)
    return false;
  *offset = sleb(&body);
  *deref = body.at < body.end && fixed(&body, 1) == OP_DEREF;
  return body.at == body.end;
}

static void take_expression(struct machine *machine, struct bytes *from, uint8_t op) {
  enum { DEF_CFA_EXPRESSION = 0x0f, EXPRESSION = 0x10 };
  uint64_t reg = op == DEF_CFA_EXPRESSION ? 0 : uleb(from);
  int64_t offset = 0;
  bool deref = false, known = bp_expression(from, &offset, &deref);
  if (op == DEF_CFA_EXPRESSION) {
    machine->row.cfa_unknown = !known;
    machine->row.cfa_register = REG_BP;
    machine->row.cfa_offset = offset;
    machine->row.cfa_deref = deref;
  } else if (op == EXPRESSION && reg == REG_BP && known && !deref) {
    machine->row.bp = BP_AT_BP;
    machine->row.bp_offset = offset;
    machine->row.bp_unknown = false;
  } else {
    set_unknown(machine, reg);
  }
}

static void set_cfa(struct machine *machine, uint64_t reg, int64_t offset) {
  machine->row.cfa_register = reg;
  machine->row.cfa_offset = offset;
  machine->row.cfa_unknown = machine->row.cfa_deref = false;
}

/* Runs one instruction; false: it is not known. */
static bool run_one(struct machine *machine, struct bytes *from) {
  uint8_t op = *from->at++, low = op & 0x3f;
  struct row *row = &machine->row;
  int64_t align = machine->cie->data_align;
  uint64_t reg;
  switch (op & 0xc0) {
  case 0x40:
    machine->location += low * machine->cie->code_align;
    return true;
  case 0x80:
    set_offset(machine, low, (int64_t)uleb(from) * align);
    return true;
  case 0xc0:
    restore(machine, low);
    return true;
  default:
    break;
  }
  switch (op) {
  case 0x00: /* nop */
    return true;
  case 0x01: /* set_loc */
    machine->location = pointer(from, machine->cie->encoding);
    return true;
  case 0x02: /* advance_loc1, 2, 4 */
  case 0x03:
  case 0x04:
    machine->location += fixed(from, (size_t)1 << (op - 2)) * machine->cie->code_align;
    return true;
  case 0x05: /* offset_extended */
    reg = uleb(from);
    set_offset(machine, reg, (int64_t)uleb(from) * align);
    return true;
  case 0x11: /* offset_extended_sf */
    reg = uleb(from);
    set_offset(machine, reg, sleb(from) * align);
    return true;
  case 0x06: /* restore_extended */
    restore(machine, uleb(from));
    return true;
  case 0x07: /* undefined */
    reg = uleb(from);
    row->ra_undefined |= reg == REG_RA;
    row->bp_unknown |= reg == REG_BP;
    return true;
  case 0x08: /* same_value */
    if (uleb(from) == REG_BP) {
      row->bp = BP_SAME;
      row->bp_unknown = false;
    }
    return true;
  case 0x09: /* register */
    reg = uleb(from);
    uleb(from);
    set_unknown(machine, reg);
    return true;
  case 0x0a: /* remember_state */
    if (machine->depth == ROWS_REMEMBERED)
      return false;
    machine->remembered[machine->depth++] = *row;
    return true;
  case 0x0b: /* restore_state */
    if (machine->depth == 0)
      return false;
    *row = machine->remembered[--machine->depth];
    return true;
  case 0x0c: /* def_cfa */
    reg = uleb(from);
    set_cfa(machine, reg, (int64_t)uleb(from));
    return true;
  case 0x12: /* def_cfa_sf */
    reg = uleb(from);
    set_cfa(machine, reg, sleb(from) * align);
    return true;
  case 0x0d: /* def_cfa_register */
    set_cfa(machine, uleb(from), row->cfa_offset);
    return true;
  case 0x0e: /* def_cfa_offset */
    row->cfa_offset = (int64_t)uleb(from);
    return true;
  case 0x13: /* def_cfa_offset_sf */
    row->cfa_offset = sleb(from) * align;
    return true;
  case 0x0f: /* def_cfa_expression, expression, val_expression */
  case 0x10:
  case 0x16:
    take_expression(machine, from, op);
    return true;
  case 0x14: /* val_offset, val_offset_sf */
  case 0x15:
    set_unknown(machine, uleb(from));
    uleb(from);
    return true;
  case 0x2e: /* GNU_args_size */
    uleb(from);
    return true;
  default:
    return false;
  }
}

static bool run(struct machine *machine, struct bytes program, uintptr_t pc) {
  while (program.at < program.end && machine->location <= pc) {
    struct row before = machine->row;
    if (!run_one(machine, &program))
      return false;
    if (machine->location > pc)
      machine->row = before;
  }
  return true;
}

static struct unwind_rule rule_of(const struct row *row) {
  struct unwind_rule rule = {.bp = row->bp, .cfa_offset = row->cfa_offset, .bp_offset = row->bp_offset};
  if (row->ra_undefined)
    return (struct unwind_rule){.kind = RULE_END};
  if (row->cfa_unknown || row->ra_moved || row->bp_unknown)
    return (struct unwind_rule){.kind = RULE_NONE};
  if (row->cfa_register == REG_BP)
    rule.kind = row->cfa_deref ? RULE_BP_DEREF : RULE_BP;
  else
    rule.kind = row->cfa_register == REG_SP ? RULE_SP : RULE_NONE;
  return rule;
}

/* musl has neither this function nor another one that takes no lock. */
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

/* The objects that were loaded when the process attached: musl never unloads one. */
enum { TABLES_MAX = 128 };
static struct unwind_table {
  uintptr_t from, to;
  void *eh_frame_header;
} tables[TABLES_MAX];
static uint32_t table_count;

static int note_table(struct dl_phdr_info *info, size_t bytes, void *context) {
  (void)bytes;
  (void)context;
  const struct elf_segments segments = {info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr};
  const Elf64_Phdr *frames = elf_segment(&segments, PT_GNU_EH_FRAME);
  struct elf_extent extent = elf_extent(&segments);
  if (frames)
    tables[table_count++] = (struct unwind_table){extent.from, extent.to, (void *)(info->dlpi_addr + frames->p_vaddr)};
  return table_count == TABLES_MAX;
}

void unwind_rules_begin(void) {
  if (!_dl_find_object && table_count == 0) /* a fork child has its parent's tables */
    dl_iterate_phdr(note_table, NULL);
}

static void *eh_frame_header_of(uintptr_t pc) {
  struct dl_find_object object;
  if (_dl_find_object)
    return _dl_find_object((void *)pc, &object) == 0 ? object.dlfo_eh_frame : NULL;
  for (uint32_t i = 0; i < table_count; i++)
    if (pc - tables[i].from < tables[i].to - tables[i].from)
      return tables[i].eh_frame_header;
  return NULL;
}

struct unwind_rule unwind_rule_find(uintptr_t pc) {
  struct unwind_rule none = {.kind = RULE_NONE};
  void *header = eh_frame_header_of(pc);
  const uint8_t *fde = header ? find_fde(header, pc) : NULL;
  struct bytes body;
  struct cie cie;
  if (!fde || !open_entry(fde, &body))
    return none;
  const uint8_t *field = body.at;
  uint32_t back = (uint32_t)fixed(&body, 4);
  if (back == 0 || !read_cie(field - back, &cie))
    return none;
  uintptr_t begin = pointer(&body, cie.encoding), bytes = pointer(&body, cie.encoding & 0x0f);
  if (pc - begin >= bytes)
    return none;
  if (cie.signal)
    return (struct unwind_rule){.kind = RULE_SIGNAL};
  if (cie.augmented) {
    uint64_t length = uleb(&body);
    body.at += length;
  }
  struct machine machine = {.cie = &cie, .location = 0};
  machine.row.ra_moved = true; /* until the program describes where it is */
  if (!run(&machine, cie.program, UINTPTR_MAX))
    return none;
  machine.initial = machine.row;
  machine.location = begin;
  if (!run(&machine, body, pc))
    return none;
  return rule_of(&machine.row);
}

#else

void unwind_rules_begin(void) {}

struct unwind_rule unwind_rule_find(uintptr_t pc) {
  (void)pc;
  return (struct unwind_rule){.kind = RULE_NONE};
}

#endif

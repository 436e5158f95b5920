/* SPDX-License-Identifier: MIT */
#include "convert/inspect/lines.h"

#include "core/trace/control_names.h"

#include <string.h>

void put_text(struct lines *lines, const char *text) {
  size_t length = strlen(text);
  memcpy(lines->bytes + lines->used, text, length);
  lines->used += length;
}

void put_decimal(struct lines *lines, uint64_t value) {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = (char)('0' + value % 10);
    value /= 10;
  } while (value);
  while (count > 0)
    lines->bytes[lines->used++] = digits[--count];
}

void put_hex(struct lines *lines, uint64_t value) {
  int shift = 60;
  put_text(lines, "0x");
  while (shift > 0 && !(value >> shift))
    shift -= 4;
  for (; shift >= 0; shift -= 4)
    lines->bytes[lines->used++] = "0123456789abcdef"[value >> shift & 15];
}

void put_address(struct lines *lines, uint64_t address) {
  if (address)
    put_hex(lines, address);
  else
    put_text(lines, "NULL");
}

void put_option(struct lines *lines, const char *words, uint64_t value) {
  put_text(lines, words);
  put_decimal(lines, value);
}

void put_argument(struct lines *lines, const char *words, uint8_t call, uint64_t value) {
  bool negative = control_takes_ints(call & CALL_ID_MASK) && value > INT32_MAX && value <= UINT32_MAX;
  put_text(lines, words);
  put_option(lines, negative ? "-" : "", negative ? (uint32_t)-value : value);
}

bool field_begin(struct lines *lines, const char *name, bool there) {
  bool json = lines->format == DUMP_JSONL;
  if (json && !there)
    return false;
  put_text(lines, !lines->begun ? json ? "{" : "" : json ? ", " : ",");
  lines->begun = true;
  if (json) {
    put_text(lines, "\"");
    put_text(lines, name);
    put_text(lines, "\": ");
  }
  return there;
}

void field_number(struct lines *lines, const char *name, bool there, uint64_t value) {
  if (field_begin(lines, name, there))
    put_decimal(lines, value);
}

void field_signed(struct lines *lines, const char *name, bool there, int64_t value) {
  if (!field_begin(lines, name, there))
    return;
  put_text(lines, value < 0 ? "-" : "");
  put_decimal(lines, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void field_text(struct lines *lines, const char *name, const char *value) {
  const char *quote = lines->format == DUMP_JSONL || strchr(value, ',') ? "\"" : "";
  field_begin(lines, name, true);
  put_text(lines, quote);
  put_text(lines, value);
  put_text(lines, quote);
}

void field_address(struct lines *lines, const char *name, bool there, uint64_t address) {
  bool json = lines->format == DUMP_JSONL;
  if (!field_begin(lines, name, there))
    return;
  if (json && !address) {
    put_text(lines, "null");
    return;
  }
  put_text(lines, json ? "\"" : "");
  put_address(lines, address);
  put_text(lines, json ? "\"" : "");
}

void field_flag(struct lines *lines, const char *name, bool set) {
  if (field_begin(lines, name, set || lines->format == DUMP_CSV))
    put_text(lines, lines->format == DUMP_JSONL ? "true" : set ? "1" : "0");
}

void line_end(struct lines *lines) {
  put_text(lines, lines->format == DUMP_JSONL ? "}\n" : "\n");
  lines->begun = false;
}

int lines_flush(struct lines *lines) {
  size_t used = lines->used;
  lines->used = 0;
  return fwrite(lines->bytes, 1, used, lines->out.file) == used ? 0 : -1;
}

int lines_finish(struct lines *lines, struct error *error) {
  return lines_flush(lines) == 0 && fflush(lines->out.file) == 0 ? 0
                                                                 : error_errno(error, lines->out.name, "can't write");
}

const char *param_key(const struct call_info *info) {
  return info->param == COUNT ? "count" : info->param == OPTION ? "option" : "align_bytes";
}

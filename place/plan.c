/* SPDX-License-Identifier: MIT */
/* The part of TOML that plans need: pairs of one line, tables, arrays of tables; strings, whole numbers, arrays of
   strings, comments. */
#include "place/plan.h"

#include <stdbool.h>
#include <string.h>

enum table { OF_PLAN, OF_PREDICTION, OF_SITE };

struct reader {
  const char *at, *end;
  uint32_t line;
  const char *error; /* NULL: none so far */
  struct plan *plan;
  enum table table;
};

struct text {
  const char *at;
  size_t bytes;
};

static bool fail(struct reader *reader, const char *what) {
  if (!reader->error)
    reader->error = what;
  return false;
}

static int peek(const struct reader *reader) {
  return reader->at < reader->end ? (unsigned char)*reader->at : -1;
}

/* Spaces and a comment; with lines, also the ends of lines. */
static void skip_space(struct reader *reader, bool lines) {
  for (; reader->at < reader->end; reader->at++) {
    if (*reader->at == '#')
      while (reader->at + 1 < reader->end && reader->at[1] != '\n')
        reader->at++;
    else if (*reader->at == '\n' && !lines)
      return;
    else if (*reader->at == '\n')
      reader->line++;
    else if (*reader->at != ' ' && *reader->at != '\t' && *reader->at != '\r')
      return;
  }
}

static bool take(struct reader *reader, char wanted) {
  if (peek(reader) != wanted)
    return false;
  reader->at++;
  return true;
}

/* Letters, digits, _ and -; in values also . and +. */
static struct text word(struct reader *reader, bool value) {
  struct text found = {reader->at, 0};
  for (int next; (next = peek(reader)) >= 0; reader->at++) {
    bool letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') || (next >= '0' && next <= '9');
    if (!letter && next != '_' && next != '-' && !(value && (next == '.' || next == '+')))
      break;
  }
  found.bytes = (size_t)(reader->at - found.at);
  return found;
}

static bool is(struct text text, const char *name) {
  return text.bytes == strlen(name) && memcmp(text.at, name, text.bytes) == 0;
}

/* A string of one line, as it is written: an escape stays two characters. */
static bool string(struct reader *reader, struct text *found) {
  if (!take(reader, '"'))
    return fail(reader, "a string is missing");
  found->at = reader->at;
  for (int next; (next = peek(reader)) >= 0 && next != '\n'; reader->at++) {
    if (next == '"') {
      found->bytes = (size_t)(reader->at++ - found->at);
      return true;
    }
    if (next == '\\' && reader->at + 1 < reader->end)
      reader->at++;
  }
  return fail(reader, "a string does not end");
}

static bool whole_number(struct reader *reader, uint32_t limit, uint32_t *found) {
  struct text digits = word(reader, true);
  uint64_t value = 0;
  bool good = digits.bytes > 0 && digits.bytes < 10;
  for (size_t i = 0; good && i < digits.bytes; i++) {
    good = digits.at[i] >= '0' && digits.at[i] <= '9';
    value = value * 10 + (uint64_t)(digits.at[i] - '0');
  }
  if (!good || value == 0 || value > limit)
    return fail(reader, "a number is missing, or out of range");
  *found = (uint32_t)value;
  return true;
}

static int hexadecimal(char digit) {
  return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static bool module(struct reader *reader, struct text id, uint32_t *number) {
  struct plan *plan = reader->plan;
  struct plan_module found = {.id_bytes = (uint32_t)(id.bytes / 2)};
  if (id.bytes == 0 || id.bytes % 2 || found.id_bytes > PLAN_ID_BYTES)
    return fail(reader, "a build id is not of 2 to 128 digits");
  for (size_t i = 0; i < id.bytes; i++) {
    int digit = hexadecimal(id.at[i]);
    if (digit < 0)
      return fail(reader, "a build id has a character that is no hexadecimal digit");
    found.build_id[i / 2] = (uint8_t)(found.build_id[i / 2] << 4 | digit);
  }
  for (*number = 0; *number < plan->module_count; ++*number)
    if (memcmp(&plan->modules[*number], &found, sizeof found) == 0)
      return true;
  if (plan->module_count == PLAN_MODULES)
    return fail(reader, "more than 64 modules");
  plan->modules[plan->module_count++] = found;
  return true;
}

/* BUILDID+0xOFFSET */
static bool frame(struct reader *reader, struct text text) {
  struct plan *plan = reader->plan;
  struct plan_site *site = &plan->sites[plan->site_count - 1];
  const char *plus = memchr(text.at, '+', text.bytes);
  const char *end = text.at + text.bytes;
  if (!plus || end - plus < 4 || end - plus > 19 || plus[1] != '0' || plus[2] != 'x')
    return fail(reader, "a frame is not BUILDID+0xOFFSET");
  if (plan->frame_count == PLAN_FRAMES || site->frames == PLAN_DEPTH)
    return fail(reader, "more than 64 frames of a site, or 4,096 of all");
  struct plan_frame *found = &plan->frames[plan->frame_count];
  for (const char *digit = plus + 3; digit < end; digit++) {
    if (hexadecimal(*digit) < 0)
      return fail(reader, "an offset has a character that is no hexadecimal digit");
    found->offset = found->offset << 4 | (uint64_t)hexadecimal(*digit);
  }
  if (!module(reader, (struct text){text.at, (size_t)(plus - text.at)}, &found->module))
    return false;
  plan->frame_count++;
  site->frames++;
  return true;
}

static bool frames(struct reader *reader) {
  struct text text;
  if (!take(reader, '['))
    return fail(reader, "an array is missing");
  for (;;) {
    skip_space(reader, true);
    if (take(reader, ']'))
      return true;
    if (!string(reader, &text) || !frame(reader, text))
      return false;
    skip_space(reader, true);
    if (!take(reader, ',') && peek(reader) != ']')
      return fail(reader, "an array does not end");
  }
}

/* A value that is only for people. */
static bool any_value(struct reader *reader) {
  struct text ignored;
  if (peek(reader) == '"')
    return string(reader, &ignored);
  return word(reader, true).bytes > 0 || fail(reader, "a value is missing");
}

static bool program_name(struct reader *reader) {
  struct text name;
  if (!string(reader, &name))
    return false;
  if (name.bytes >= PLAN_NAME_BYTES)
    return fail(reader, "the program's name is too long");
  memcpy(reader->plan->program, name.at, name.bytes);
  return true;
}

static bool value(struct reader *reader, struct text name) {
  struct plan *plan = reader->plan;
  struct plan_site *site = plan->site_count ? &plan->sites[plan->site_count - 1] : NULL;
  uint32_t version;
  if (reader->table == OF_PREDICTION)
    return any_value(reader);
  if (reader->table == OF_PLAN && is(name, "program"))
    return program_name(reader);
  if (reader->table == OF_PLAN && is(name, "version"))
    return whole_number(reader, PLAN_VERSION, &version) || (reader->error = "of a version that is not known", false);
  if (reader->table == OF_SITE && is(name, "region"))
    return whole_number(reader, PLAN_REGIONS, &site->region);
  if (reader->table == OF_SITE && is(name, "frames"))
    return site->frames == 0 ? frames(reader) : fail(reader, "frames are given twice");
  if (reader->table == OF_SITE && is(name, "function"))
    return any_value(reader);
  return fail(reader, "a key that is not known");
}

/* Is the site that was read last whole? */
static bool check_site(struct reader *reader) {
  const struct plan *plan = reader->plan;
  const struct plan_site *site = plan->site_count ? &plan->sites[plan->site_count - 1] : NULL;
  return !site || (site->region && site->frames) || fail(reader, "the site before has no region or no frames");
}

static bool header(struct reader *reader) {
  struct plan *plan = reader->plan;
  bool array = take(reader, '[');
  struct text name = word(reader, false);
  if (!take(reader, ']') || (array && !take(reader, ']')))
    return fail(reader, "a table's name does not end");
  if (!check_site(reader))
    return false;
  if (!array && is(name, "predicted")) {
    reader->table = OF_PREDICTION;
    return true;
  }
  if (!array || !is(name, "site"))
    return fail(reader, "a table that is not known");
  if (plan->site_count == PLAN_SITES)
    return fail(reader, "more than 512 sites");
  reader->table = OF_SITE;
  plan->sites[plan->site_count++].first_frame = plan->frame_count;
  return true;
}

static bool pair(struct reader *reader) {
  struct text name = word(reader, false);
  skip_space(reader, false);
  if (name.bytes == 0 || !take(reader, '='))
    return fail(reader, "neither a table nor NAME = VALUE");
  skip_space(reader, false);
  return value(reader, name);
}

int plan_parse(struct plan *plan, const char *text, size_t bytes, struct plan_error *error) {
  struct reader reader = {.at = text, .end = text + bytes, .line = 1, .plan = plan};
  bool good = true;
  for (skip_space(&reader, true); good && reader.at < reader.end; skip_space(&reader, true)) {
    good = take(&reader, '[') ? header(&reader) : pair(&reader);
    skip_space(&reader, false);
    if (good && reader.at < reader.end && *reader.at != '\n')
      good = fail(&reader, "more on a line than belongs there");
    if (!good)
      break;
  }
  if (good && check_site(&reader) && plan->site_count == 0)
    fail(&reader, "no site");
  *error = (struct plan_error){reader.error, reader.line};
  return reader.error ? -1 : 0;
}

/* SPDX-License-Identifier: MIT */
/* A table of calls whose columns the user names: CSV, or JSON objects, one per line. With
   `--columns op=event,size=bytes,ptr=address,old=from,time:us=when,thread=tid`

     event,bytes,address,from,when,tid
     malloc,24,0x1000,,5,7
     realloc,4096,0x2000,0x1000,9,7
     free,,0x2000,,12,8

   or {"event": "malloc", "bytes": 24, "address": "0x1000", "when": 5, "tid": 7} and so on, becomes malloc(24) = 0x1000
   of thread 7 at 0, realloc(0x1000, 4096) = 0x2000 at 4 us, free(0x2000) of thread 8 at 7 us.

   op and ptr are needed. op is a call by its identifier in core/trace/calls.def, or one of the words below, in any
   case; ptr the address handed out, or passed in by a free; old the one passed to a realloc; count (calloc's elements)
   and align the second number of a call; time a number since any beginning, in ns or in the unit after the colon (s,
   ms, us), perhaps with a fraction. A column is named by the table's first line, or by its number from 1; if all are
   named by number, the first line is a call. Columns are separated by tabs, else semicolons, else commas; "..." quotes.
   Rows are in the order of the calls. */
#include "convert/foreign/format.h"
#include "core/command/cli.h"

#include <inttypes.h>
#include <stdio.h>

enum field { OP, SIZE, PTR, OLD, COUNT_OF, ALIGNMENT, THREAD, TIME, FIELDS };
static const char *const field_names[FIELDS] = {"op", "size", "ptr", "old", "count", "align", "thread", "time"};

enum { MOST_COLUMNS = 256, NAME_BYTES = 64, VALUE_BYTES = 128 };

struct columns_import {
  struct import *import;
  char names[FIELDS][NAME_BYTES]; /* empty: not given */
  int at[FIELDS];                 /* of CSV: the column's index; -1: none */
  uint64_t unit_ns, first_ns;
  bool begun, json, cut; /* begun: the first line was looked at; cut: a quote is not closed */
  char separator;
  char values[FIELDS][VALUE_BYTES];
};

static int wrong_columns(struct columns_import *columns, const char *what, const char *where) {
  return error_set(columns->import->error, columns->import->path, "--columns: %s: '%.60s'", what, where);
}

/* "time:us" gives the unit. */
static bool take_unit(struct columns_import *columns, const char *unit, size_t length) {
  static const struct {
    const char *name;
    uint64_t ns;
  } units[] = {{":s", 1000000000}, {":ms", 1000000}, {":us", 1000}, {":ns", 1}};
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strlen(units[i].name) == length && memcmp(unit, units[i].name, length) == 0) {
      columns->unit_ns = units[i].ns;
      return true;
    }
  return false;
}

static int field_named(struct columns_import *columns, const char *name, size_t length) {
  for (int field = 0; field < FIELDS; field++) {
    size_t own = strlen(field_names[field]);
    if (length < own || memcmp(field_names[field], name, own) != 0)
      continue;
    if (length == own || (field == TIME && take_unit(columns, name + own, length - own)))
      return field;
  }
  return FIELDS;
}

/* FIELD=NAME,FIELD=NAME... */
static int parse_columns(struct columns_import *columns) {
  const char *at = columns->import->options->columns;
  if (!at)
    return error_set(columns->import->error, columns->import->path, "the format columns needs --columns");
  for (const char *end; *at; at = *end ? end + 1 : end) {
    end = at + strcspn(at, ",");
    const char *equals = memchr(at, '=', (size_t)(end - at));
    int field = equals ? field_named(columns, at, (size_t)(equals - at)) : FIELDS;
    if (field == FIELDS)
      return wrong_columns(columns, "op, size, ptr, old, count, align, thread or time[:s|ms|us|ns], then = and a name",
                           at);
    size_t length = (size_t)(end - equals) - 1;
    if (length == 0 || length >= NAME_BYTES || columns->names[field][0])
      return wrong_columns(columns, "a name that is empty, too long or given twice", at);
    memcpy(columns->names[field], equals + 1, length);
    columns->names[field][length] = '\0';
  }
  return columns->names[OP][0] && columns->names[PTR][0]
             ? 0
             : wrong_columns(columns, "op and ptr are needed", columns->import->options->columns);
}

/* Copies the value at *at, up to its separator, and moves past that. Returns false at the line's end, after the last
   value. A value that does not fit is cut off, and then is no number. */
static bool next_value(struct columns_import *columns, const char **at, char *value) {
  size_t length = 0;
  bool quoted = **at == '"', closed = !quoted;
  const char *c = *at + quoted;
  for (; *c && (quoted || *c != columns->separator); c++) {
    if (quoted && *c == '"' && *++c != '"') {
      closed = true;
      break;
    }
    if (length < VALUE_BYTES - 1)
      value[length++] = *c;
  }
  columns->cut |= !closed;
  while (*c && *c != columns->separator)
    c++;
  while (length && value[length - 1] == ' ')
    length--;
  value[length] = '\0';
  *at = c + (*c != '\0');
  return *c != '\0';
}

/* Finds the named columns in the first line. Returns whether it is a header; -1 with error. */
static int take_header(struct columns_import *columns, const char *line) {
  bool header = false;
  columns->separator = strchr(line, '\t') ? '\t' : strchr(line, ';') ? ';' : ',';
  for (int field = 0; field < FIELDS; field++) {
    uint64_t number;
    const char *name = columns->names[field], *at = name;
    columns->at[field] = -1;
    if (scan_decimal(&at, &number) && *at == '\0' && number >= 1 && number <= MOST_COLUMNS) {
      columns->at[field] = (int)number - 1;
      continue;
    }
    header |= name[0] != '\0';
    char value[VALUE_BYTES];
    bool more = name[0] != '\0';
    at = line;
    for (int i = 0; more && columns->at[field] < 0; i++) {
      more = next_value(columns, &at, value);
      if (strcmp(value, name) == 0)
        columns->at[field] = i;
    }
    if (name[0] && columns->at[field] < 0)
      return line_reader_error(columns->import->lines, "has no column '%s'", name);
  }
  return header;
}

static void split(struct columns_import *columns, const char *line) {
  bool more = true;
  char value[VALUE_BYTES];
  for (int i = 0; more; i++) {
    more = next_value(columns, &line, value);
    for (int field = 0; field < FIELDS; field++)
      if (columns->at[field] == i)
        memcpy(columns->values[field], value, sizeof value);
  }
}

static int take_object(struct columns_import *columns, const char *line) {
  json_error_t wrong;
  json_t *object = json_loads(line, JSON_DECODE_ANY, &wrong);
  if (!json_is_object(object)) {
    json_decref(object);
    return line_reader_error(columns->import->lines, "not a JSON object: %s", wrong.text);
  }
  for (int field = 0; field < FIELDS; field++) {
    const json_t *value = columns->names[field][0] ? json_object_get(object, columns->names[field]) : NULL;
    if (json_is_string(value))
      snprintf(columns->values[field], VALUE_BYTES, "%s", json_string_value(value));
    else if (json_is_integer(value))
      snprintf(columns->values[field], VALUE_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
      snprintf(columns->values[field], VALUE_BYTES, "%.9f", json_real_value(value));
  }
  json_decref(object);
  return 0;
}

/* The call's id; -1: the word is none. */
static int call_of(const char *word) {
  static const struct {
    const char *word;
    int call;
  } others[] = {{"alloc", CALL_malloc}, {"allocate", CALL_malloc}, {"allocation", CALL_malloc},
                {"a", CALL_malloc},     {"m", CALL_malloc},        {"+", CALL_malloc},
                {"dealloc", CALL_free}, {"deallocate", CALL_free}, {"deallocation", CALL_free},
                {"release", CALL_free}, {"f", CALL_free},          {"-", CALL_free},
                {"r", CALL_realloc},    {"c", CALL_calloc}};
  char lower[32];
  size_t length = strlen(word);
  if (length >= sizeof lower)
    return -1;
  for (size_t i = 0; i <= length; i++)
    lower[i] = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] | 32) : word[i];
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strcmp(lower, others[i].word) == 0)
      return others[i].call;
  return call_by_name(lower);
}

static bool scan_whole(const char *text, uint64_t *number) {
  *number = 0;
  return (scan_hex(&text, number) || scan_decimal(&text, number)) && *text == '\0';
}

static bool scan_pointer(const char *text, uint64_t *address) {
  *address = 0;
  return !*text || strcasecmp(text, "null") == 0 || strcasecmp(text, "none") == 0 || strcmp(text, "nil") == 0 ||
         strcmp(text, "(nil)") == 0 || scan_whole(text, address);
}

/* A number with a fraction, in units. */
static bool scan_time(const char *text, uint64_t unit_ns, uint64_t *ns) {
  uint64_t whole, part = 0, of = 1;
  if (!scan_decimal(&text, &whole) || whole >= (UINT64_C(1) << 62) / unit_ns)
    return false;
  if (*text == '.')
    for (text++; *text >= '0' && *text <= '9'; text++)
      if (of < 1000000000) {
        part = part * 10 + (uint64_t)(*text - '0');
        of *= 10;
      }
  *ns = whole * unit_ns + part * unit_ns / of;
  return *text == '\0';
}

static int wrong_value(struct columns_import *columns, enum field field) {
  return line_reader_error(columns->import->lines, "%s is '%.60s'", field_names[field], columns->values[field]);
}

/* Fills in the event. Returns 0, or -1 with error. */
static int event_of_row(struct columns_import *columns, struct trace_event *event) {
  const char(*values)[VALUE_BYTES] = columns->values;
  int id = call_of(values[OP]);
  if (id < 0)
    return wrong_value(columns, OP);
  const struct call_info *info = &call_table[id];
  enum field passed = info->acquires || !values[PTR][0] ? OLD : PTR,
             number = info->param == ALIGN ? ALIGNMENT : COUNT_OF;
  *event = (struct trace_event){.call = (uint8_t)id};
  if (info->released != NOTHING && info->acquires && !columns->names[OLD][0])
    return line_reader_error(columns->import->lines, "%s needs the column old", values[OP]);
  if (info->released != NOTHING && !scan_pointer(values[passed], &event->released))
    return wrong_value(columns, passed);
  if (info->acquires && !scan_pointer(values[PTR], &event->acquired))
    return wrong_value(columns, PTR);
  /* A free's size, and a product in place of calloc's two numbers, may be left out. */
  if (info->has_size && !scan_whole(values[SIZE], &event->size_bytes) && (info->acquires || values[SIZE][0]))
    return wrong_value(columns, SIZE);
  if (info->param == COUNT && !values[COUNT_OF][0])
    event->param = 1;
  else if (info->param != NONE && !scan_whole(values[number], &event->param))
    return wrong_value(columns, number);
  event->call |= (uint8_t)((info->released != NOTHING && !event->released ? CALL_NULL_IN : 0) |
                           (info->acquires && !event->acquired ? CALL_NULL_OUT : 0));
  return 0;
}

static int begin(struct columns_import *columns) {
  bool timed = columns->names[TIME][0], threads = columns->names[THREAD][0];
  const struct import_facts facts = {.clock = timed ? "nanoseconds" : "ordinal",
                                     .order = "file",
                                     .source = "a table of calls",
                                     .origin_stamp = timed,
                                     .lacks = timed && threads ? "usable_size"
                                              : timed          ? "threads usable_size"
                                              : threads        ? "times usable_size"
                                                               : "times threads usable_size",
                                     .note = "The columns were named by --columns."};
  return import_begin(columns->import, &facts);
}

static int take_row(struct columns_import *columns) {
  struct trace_event event;
  uint64_t thread = 0, ns = 0, now = line_reader_number(columns->import->lines);
  if (event_of_row(columns, &event) != 0)
    return -1;
  if (columns->names[THREAD][0] && (!scan_whole(columns->values[THREAD], &thread) || thread == UINT64_MAX))
    return wrong_value(columns, THREAD);
  if (columns->names[TIME][0] && !scan_time(columns->values[TIME], columns->unit_ns, &ns))
    return wrong_value(columns, TIME);
  if (!columns->import->writer) {
    columns->first_ns = ns;
    if (begin(columns) != 0)
      return -1;
  }
  if (columns->names[TIME][0])
    now = (ns > columns->first_ns ? ns - columns->first_ns : 0) + 1;
  return import_event_in_order(columns->import, thread, now, &event);
}

static int take_line(void *context, const char *line) {
  struct columns_import *columns = context;
  if (!*line)
    return 0;
  if (!columns->begun) {
    columns->begun = true;
    columns->json = *line == '{';
    int header = columns->json ? 0 : take_header(columns, line);
    if (header)
      return header < 0 ? -1 : 0;
  }
  memset(columns->values, 0, sizeof columns->values);
  if (!columns->json)
    split(columns, line);
  else if (take_object(columns, line) != 0)
    return -1;
  if (columns->cut)
    return line_reader_error(columns->import->lines, "a quote is not closed");
  return take_row(columns);
}

static int run(struct import *import) {
  struct columns_import columns = {.import = import, .unit_ns = 1};
  return parse_columns(&columns) != 0 ? -1 : import_lines(import, take_line, &columns);
}

static const struct import_format import_format = {.run = run, .without_calls = "has no row"};

REGISTER_FORMAT(.name = "columns",
                .description = "CSV or JSON lines whose columns --columns names (convert/formats/columns.c)",
                .import = &import_format);

/* The format is also named by saying what its columns are. */
static const char *take_columns(void *field, const char *value) {
  struct import_options *options = field;
  options->columns = value;
  options->implied = &registered_this_file;
  return NULL;
}

static const struct cli_option rows[] = {
    {"columns", 0, "SPEC", take_columns,
     .help = "read CSV or JSON lines as calls: op=NAME,ptr=NAME and, as far as there are, size=, old= (passed to "
             "realloc), count=, align=, thread=, time= or time:s=, time:ms=, time:us=. NAME: a column's name, or its "
             "number from 1",
     .group = "input"},
    {.name = NULL},
};
CLI_ADD(input, rows);

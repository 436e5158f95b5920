/* SPDX-License-Identifier: MIT */
#include "convert/inspect/info.h"

#include "core/base/text.h"
#include "core/trace/summary.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LABEL_COLUMNS = 14, LABEL_COLUMNS_ALL = 26, CALLS_LIMIT = 64 };

/* Where rows go, and how wide they are. indent 0: a row is a line, "LABEL: TEXT". */
struct sheet {
  FILE *out;
  size_t width, indent;
};

__attribute__((format(printf, 3, 4))) static void row(const struct sheet *sheet, const char *label, const char *format,
                                                      ...) {
  struct text_line words = {.used = 0};
  va_list arguments;
  va_start(arguments, format);
  text_add_list(&words, format, arguments);
  va_end(arguments);
  if (sheet->indent)
    fprintf(sheet->out, "%-*s", (int)sheet->indent, label);
  else
    fprintf(sheet->out, "%s: ", label);
  text_print(sheet->out, words.text, sheet->width, sheet->indent, sheet->indent);
}

static void sentence(const struct sheet *sheet, const char *text) {
  if (*text)
    text_print(sheet->out, text, sheet->width, 0, 0);
}

static uint64_t count_of(const json_t *object, const char *key) {
  return (uint64_t)json_integer_value(json_object_get(object, key));
}

static const char *string_of(const json_t *object, const char *key, const char *otherwise) {
  const char *value = json_string_value(json_object_get(object, key));
  return value ? value : otherwise;
}

static void count_row(const struct sheet *sheet, const char *label, const json_t *object, const char *key) {
  char text[TEXT_NUMBER_BYTES];
  if (json_is_integer(json_object_get(object, key)))
    row(sheet, label, "%s", text_count(text, count_of(object, key)));
}

static void bytes_row(const struct sheet *sheet, const char *label, const json_t *object, const char *key) {
  char size[TEXT_NUMBER_BYTES], count[TEXT_NUMBER_BYTES];
  uint64_t bytes = count_of(object, key);
  if (json_is_integer(json_object_get(object, key)) && bytes < 1024)
    row(sheet, label, "%s", text_size(size, (double)bytes));
  else if (json_is_integer(json_object_get(object, key)))
    row(sheet, label, "%s (%s)", text_size(size, (double)bytes), text_counted(count, bytes, "byte"));
}

static const char *seconds_text(char *to, double ns) {
  snprintf(to, TEXT_NUMBER_BYTES, ns < 1e9 ? "%.3f" TEXT_JOIN "s" : "%.1f" TEXT_JOIN "s", ns / 1e9);
  return to;
}

/* The text for people, with control characters escaped; the caller frees it. */
static char *escaped_text(const char *text) {
  size_t room = 4 * strlen(text) + 1;
  char *shown = malloc(room);
  if (shown)
    escape_controls(shown, room, text);
  return shown;
}

/* A copy in which all names and texts, which may come from the file, can be printed. */
static json_t *escaped(const json_t *value) {
  const char *key;
  json_t *item, *copy;
  size_t i;
  if (json_is_string(value)) {
    char *text = escaped_text(json_string_value(value));
    copy = json_string(text);
    free(text);
    return copy;
  }
  if (json_is_array(value)) {
    copy = json_array();
    json_array_foreach((json_t *)value, i, item)
      json_array_append_new(copy, escaped(item));
    return copy;
  }
  if (!json_is_object(value))
    return json_deep_copy(value);
  copy = json_object();
  json_object_foreach((json_t *)value, key, item) {
    char *text = escaped_text(key);
    json_object_set_new(copy, text, escaped(item));
    free(text);
  }
  return copy;
}

/* The parts of info's JSON, escaped. */
struct shown {
  const json_t *info, *about, *recorded, *witness, *footer;
};

/* The allocator by the name that other commands use, from that of its library: "jemalloc" of "libjemalloc.so.2". */
static void add_allocator(struct text_line *words, const char *library) {
  const char *end = strstr(library, ".so");
  if (strcmp(library, "libc.so.6") == 0)
    text_add(words, " on glibc");
  else if (strncmp(library, "lib", 3) == 0 && end > library + 3 && !strchr(library, ' ')) /* not "libc.so.6 and NAME" */
    text_add(words, " on %.*s", (int)(end - library - 3), library + 3);
  else
    text_add(words, " on %s", library);
}

static void add_settings(struct text_line *words, const json_t *settings) {
  const char *name, *before = " with";
  json_t *value;
  json_object_foreach((json_t *)settings, name, value) {
    text_add(words, "%s %s=%s", before, name, json_is_string(value) ? json_string_value(value) : "?");
    before = "";
  }
}

static void add_origin(struct text_line *words, const struct shown *shown) {
  char number[TEXT_NUMBER_BYTES];
  const json_t *threads = json_object_get(shown->info, "threads"), *ns = json_object_get(shown->info, "duration_ns");
  const char *source = string_of(shown->about, "source", "an unnamed source");
  bool workload = strcmp(string_of(shown->info, "kind", ""), "workload") == 0;
  text_add(words, "%s: %s", string_of(shown->about, "program", "an unnamed program"),
           text_counted(number, count_of(shown->info, "events"), "call"));
  if (json_is_integer(threads))
    text_add(words, ", %s", text_counted(number, count_of(shown->info, "threads"), "thread"));
  if (json_is_integer(ns))
    text_add(words, ", %s", seconds_text(number, json_number_value(ns)));
  text_add(words, workload ? ". A workload, recorded" : ". Recorded");
  if (json_object_get(shown->about, "allocator"))
    add_allocator(words, string_of(shown->about, "linked", string_of(shown->about, "allocator", "?")));
  if (json_object_get(shown->about, "allocator_version"))
    text_add(words, " %s", string_of(shown->about, "allocator_version", "?"));
  if (json_object_get(shown->about, "linked"))
    text_add(words, ", linked");
  add_settings(words, json_object_get(shown->about, "settings"));
  double quota = json_number_value(json_object_get(shown->about, "quota_processors"));
  if (quota > 0)
    text_add(words, ", under a quota of %.3g processors", quota);
  if (strcmp(source, "heaptape-record 0.1") != 0)
    text_add(words, "; source: %s", source);
  time_t start = (time_t)(count_of(shown->about, "start_unix_ns") / 1000000000);
  char text[64];
  struct tm utc;
  if (start && gmtime_r(&start, &utc) && strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc))
    text_add(words, ", %s", text);
  text_add(words, ".");
}

struct call_count {
  const char *name;
  uint64_t calls;
};

static int by_calls(const void *a, const void *b) {
  const struct call_count *left = a, *right = b;
  return left->calls != right->calls ? (left->calls < right->calls ? 1 : -1) : strcmp(left->name, right->name);
}

/* Calls by name, the most frequent first; names with less than 1 % of all are one. */
static void calls_row(const struct sheet *sheet, const json_t *calls) {
  struct call_count counts[CALLS_LIMIT];
  struct text_line words = {.used = 0};
  char number[TEXT_NUMBER_BYTES];
  uint64_t total = 0, other = 0;
  size_t used = 0, others = 0;
  const char *name;
  json_t *count;
  json_object_foreach((json_t *)calls, name, count) {
    total += (uint64_t)json_integer_value(count);
    if (used < CALLS_LIMIT)
      counts[used++] = (struct call_count){name, (uint64_t)json_integer_value(count)};
  }
  qsort(counts, used, sizeof *counts, by_calls);
  for (size_t i = 0; i < used; i++) {
    if (100 * counts[i].calls < total) {
      other += counts[i].calls;
      others++;
      continue;
    }
    text_add(&words, "%s%s" TEXT_JOIN "%s", i ? ", " : "", counts[i].name, text_count(number, counts[i].calls));
  }
  if (others)
    text_add(&words, "%s%s" TEXT_JOIN "%s", words.used ? ", " : "", others == 1 ? counts[used - 1].name : "other",
             text_count(number, other));
  row(sheet, "calls", "%s", words.text);
}

static void controls_row(const struct sheet *sheet, const json_t *controls) {
  if (controls)
    row(sheet, "control", "%s: replayed on %s alone", string_of(controls, "text", "?"), string_of(controls, "of", "?"));
}

static void peak_row(const struct sheet *sheet, const struct shown *shown) {
  char size[TEXT_NUMBER_BYTES], objects[TEXT_NUMBER_BYTES], left[TEXT_NUMBER_BYTES];
  row(sheet, "peak live", "%s; %s at most, %s at the end",
      text_size(size, (double)count_of(shown->info, "peak_live_bytes")),
      text_counted(objects, count_of(shown->info, "peak_live_objects"), "object"),
      text_count(left, count_of(shown->info, "live_at_end")));
  if (json_is_integer(json_object_get(shown->recorded, "rss_anon_peak_bytes")))
    row(sheet, "whole program", "peak memory %s (anonymous RSS)",
        text_size(size, (double)count_of(shown->recorded, "rss_anon_peak_bytes")));
}

static void add_doubts(struct text_line *words, const struct shown *shown) {
  static const char *const counts[][2] = {
      {"unseen_frees", "free of an object never seen"},        {"double_frees", "double free"},
      {"overlapping_acquires", "object at an address in use"}, {"inversions_repaired", "step in wrong order"},
      {"arguments_changed", "call with changed arguments"},    {"failed_calls", "failed call"},
  };
  static const char *const several[] = {"frees of objects never seen",  "double frees",
                                        "objects at addresses in use",  "steps in wrong order",
                                        "calls with changed arguments", "failed calls"};
  char number[TEXT_NUMBER_BYTES];
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    uint64_t count = count_of(shown->witness, counts[i][0]);
    if (count)
      text_add(words, ", %s %s", text_count(number, count), count == 1 ? counts[i][1] : several[i]);
  }
}

static void history_row(const struct sheet *sheet, const struct shown *shown) {
  struct text_line words = {.used = 0};
  char number[TEXT_NUMBER_BYTES];
  bool ok = json_is_true(json_object_get(shown->witness, "ok"));
  if (shown->witness)
    text_add(&words, ok ? "legal" : "NOT legal: see heaptape check");
  add_doubts(&words, shown);
  if (count_of(shown->info, "dropped"))
    text_add(&words, ", %s not recorded", text_counted(number, count_of(shown->info, "dropped"), "call"));
  if (json_is_true(json_object_get(shown->info, "truncated")))
    text_add(&words, ", the end is missing (truncated)");
  if (json_is_true(json_object_get(shown->witness, "lacks_start")))
    text_add(&words, ", began after the program did");
  if (json_is_true(json_object_get(shown->witness, "lacks_calls")))
    text_add(&words, ", lacks calls throughout");
  if (words.used)
    row(sheet, "history", "%s", words.text + (words.text[0] == ',' ? 2 : 0));
}

static void parts_row(const struct sheet *sheet, const struct shown *shown) {
  struct text_line words = {.used = 0};
  char number[TEXT_NUMBER_BYTES];
  const json_t *columns = json_object_get(shown->info, "columns"), *marks = json_object_get(shown->info, "marks");
  const json_t *accesses =
      json_object_get(json_object_get(shown->info, "accesses") ? shown->info : shown->about, "accesses");
  for (size_t i = 0; i < json_array_size(columns); i++)
    text_add(&words, ", %s", json_string_value(json_array_get(columns, i)));
  bool no_burst = json_object_get(accesses, "bursts") && !count_of(accesses, "bursts");
  if (no_burst) /* its rows are calls */
    text_add(&words, ", no burst of data accesses");
  else if (count_of(accesses, "rows"))
    text_add(&words, ", %s data accesses", text_count(number, count_of(accesses, "rows")));
  if (count_of(accesses, "bursts"))
    text_add(&words, " in %s", text_counted(number, count_of(accesses, "bursts"), "burst"));
  if (json_array_size(marks))
    text_add(&words, ", %s", text_counted(number, json_array_size(marks), "mark"));
  if (words.used)
    row(sheet, "also", "%s", words.text + 2);
}

static void rotation_row(const struct sheet *sheet, const json_t *rotation) {
  struct text_line words = {.used = 0};
  if (!rotation)
    return;
  uint64_t first = count_of(rotation, "first"), oldest = count_of(rotation, "oldest_kept");
  text_add(&words, "file %" PRIu64 " of recording %s, which began with file %" PRIu64, count_of(rotation, "file"),
           string_of(rotation, "set", "?"), first);
  if (oldest > first)
    text_add(&words, "; files before %" PRIu64 " were deleted", oldest);
  row(sheet, "rotated", "%s", words.text);
}

/* A recording within a budget: how much of its time was recorded. Events missing for this reason are in `dropped`. */
static void budget_row(const struct sheet *sheet, const json_t *budget) {
  char bursts[TEXT_NUMBER_BYTES], recorded[TEXT_NUMBER_BYTES], whole[TEXT_NUMBER_BYTES];
  if (budget)
    row(sheet, "budget",
        "%.3g" TEXT_JOIN "%% of the program's CPU time; recording cost %.3g" TEXT_JOIN "%%; %s, %s of %s",
        json_number_value(json_object_get(budget, "percent")),
        json_number_value(json_object_get(budget, "used_percent")),
        text_counted(bursts, count_of(budget, "bursts"), "burst"),
        seconds_text(recorded, json_number_value(json_object_get(budget, "recorded_ns"))),
        seconds_text(whole, json_number_value(json_object_get(budget, "ns"))));
}

static void notes(const struct sheet *sheet, const struct shown *shown) {
  if (json_object_get(shown->about, "note"))
    row(sheet, "note", "%s", string_of(shown->about, "note", "?"));
  if (json_object_get(shown->footer, "note"))
    row(sheet, "import", "%s", string_of(shown->footer, "note", "?"));
  if (strcmp(string_of(shown->footer, "end", ""), "exec") == 0)
    row(sheet, "end", "the process then executed another program, which has a recording of its own, if any");
}

/* Did the recorder not see all calls of the program's allocator? */
static bool lacks_calls(const struct shown *shown) {
  const json_t *word;
  size_t i;
  json_array_foreach(json_object_get(shown->about, "lacks"), i, word) {
    if (json_is_string(word) && strcmp(json_string_value(word), "calls") == 0)
      return true;
  }
  return false;
}

static void cautions(const struct sheet *sheet, const struct shown *shown) {
  char unexplained[MEMORY_UNEXPLAINED_BYTES];
  if (count_of(shown->info, "events") < FEW_CALLS)
    sentence(sheet, "So few calls that start-up decides their instructions and time.");
  uint64_t untold_bytes = count_of(shown->witness, "untold_bytes_at_end");
  if (untold_bytes) {
    struct text_line words = {.used = 0};
    char size[TEXT_NUMBER_BYTES];
    text_add(&words,
             "It was killed: of %s in large objects that lived then it is not known what was touched: a "
             "replay guesses.",
             text_size(size, (double)untold_bytes));
    sentence(sheet, words.text);
  } else if (json_object_get(shown->recorded, "rss_anon_peak_bytes") && !lacks_calls(shown))
    sentence(sheet, memory_unexplained_text(unexplained, (double)count_of(shown->info, "peak_live_bytes"),
                                            (double)count_of(shown->recorded, "rss_anon_peak_bytes"),
                                            string_of(shown->about, "program", "")));
}

static void print_short(const struct sheet *sheet, const struct shown *shown) {
  struct text_line words = {.used = 0};
  char size[TEXT_NUMBER_BYTES];
  add_origin(&words, shown);
  sentence(sheet, words.text);
  calls_row(sheet, json_object_get(shown->info, "calls"));
  controls_row(sheet, json_object_get(shown->witness, "controls"));
  peak_row(sheet, shown);
  row(sheet, "file", "%s, %.2f" TEXT_JOIN "bytes per call",
      text_size(size, (double)count_of(shown->info, "file_bytes")),
      json_real_value(json_object_get(shown->info, "bytes_per_event")));
  history_row(sheet, shown);
  parts_row(sheet, shown);
  rotation_row(sheet, json_object_get(shown->about, "rotation"));
  budget_row(sheet, json_object_get(shown->footer, "budget"));
  notes(sheet, shown);
}

/* --- everything --- */

/* A recording in bursts: counts inside bursts and, if known, their share of the program. */
static void print_bursts(const struct sheet *sheet, const json_t *accesses) {
  double inside = json_number_value(json_object_get(accesses, "program_instructions"));
  double outside = json_number_value(json_object_get(accesses, "outside_program_instructions"));
  count_row(sheet, "bursts", accesses, "bursts");
  count_row(sheet, "  program's instructions", accesses, "program_instructions");
  if (inside + outside > 0)
    row(sheet, "", "%.2f" TEXT_JOIN "%% of all that the program executed", 100 * inside / (inside + outside));
  count_row(sheet, "  accesses, unfiltered", accesses, "program_accesses");
  count_row(sheet, "  system calls", accesses, "program_syscalls");
  count_row(sheet, "  allocator's instructions", accesses, "allocator_instructions");
  count_row(sheet, "outside of bursts", accesses, "outside_program_instructions");
  count_row(sheet, "  allocator's instructions", accesses, "outside_allocator_instructions");
}

static void print_accesses(const struct sheet *sheet, const json_t *accesses) {
  if (!accesses)
    return;
  count_row(sheet, "rows of data accesses", accesses, "rows");
  bytes_row(sheet, "  size in the file", accesses, "file_bytes");
  bytes_row(sheet, "  size of the filter", accesses, "filter_bytes");
  count_row(sheet, "  to objects", accesses, "objects");
  count_row(sheet, "  to other memory", accesses, "other");
  count_row(sheet, "  lost", accesses, "lost");
  if (json_object_get(accesses, "bursts")) {
    print_bursts(sheet, accesses);
    return;
  }
  count_row(sheet, "program's instructions", accesses, "program_instructions");
  count_row(sheet, "  accesses, unfiltered", accesses, "program_accesses");
  count_row(sheet, "  system calls", accesses, "program_syscalls");
  count_row(sheet, "allocator's instructions", accesses, "allocator_instructions");
}

/* A program may set one per request: the first few are enough. */
static void print_marks(const struct sheet *sheet, const json_t *marks) {
  enum { SHOWN = 20 };
  for (size_t i = 0; i < json_array_size(marks) && i < SHOWN; i++) {
    const json_t *mark = json_array_get(marks, i);
    row(sheet, i ? "" : "marks", "%.6f" TEXT_JOIN "s, thread %" PRIu64 ": %s", (double)count_of(mark, "time_ns") / 1e9,
        count_of(mark, "thread"), string_of(mark, "text", ""));
  }
  if (json_array_size(marks) > SHOWN)
    row(sheet, "", "... and %zu more", json_array_size(marks) - SHOWN);
}

/* A pool may have a thousand threads: the first few names are enough. */
static void print_names(const struct sheet *sheet, json_t *names) {
  enum { SHOWN = 16 };
  const char *thread;
  json_t *name;
  size_t shown = 0;
  json_object_foreach(names, thread, name) {
    if (shown++ == SHOWN) {
      row(sheet, "", "... and %zu more", json_object_size(names) - SHOWN);
      return;
    }
    row(sheet, shown == 1 ? "thread names" : "", "%s: %s", thread, json_string_value(name));
  }
}

static void print_lacks(const struct sheet *sheet, const json_t *lacks) {
  struct text_line words = {.used = 0};
  const json_t *word;
  size_t i;
  json_array_foreach((json_t *)lacks, i, word)
    text_add(&words, "%s%s", i ? ", " : "", json_is_string(word) ? json_string_value(word) : "?");
  if (words.used)
    row(sheet, "not known", "%s", words.text);
}

static void print_all(const struct sheet *sheet, const struct shown *shown) {
  struct text_line words = {.used = 0};
  const char *call;
  json_t *count;
  char text[TEXT_NUMBER_BYTES];
  bool first = true;
  add_origin(&words, shown);
  sentence(sheet, words.text);
  json_object_foreach(json_object_get(shown->info, "calls"), call, count) {
    row(sheet, first ? "calls" : "", "%s" TEXT_JOIN "%s", call, text_count(text, (uint64_t)json_integer_value(count)));
    first = false;
  }
  print_names(sheet, json_object_get(shown->info, "thread_names"));
  bytes_row(sheet, "file", shown->info, "file_bytes");
  if (json_object_get(shown->info, "bytes_per_event"))
    row(sheet, "bytes per call", "%.2f", json_real_value(json_object_get(shown->info, "bytes_per_event")));
  bytes_row(sheet, "peak live", shown->info, "peak_live_bytes");
  count_row(sheet, "most live objects", shown->info, "peak_live_objects");
  count_row(sheet, "live objects at the end", shown->info, "live_at_end");
  bytes_row(sheet, "program's peak RssAnon", shown->recorded, "rss_anon_peak_bytes");
  bytes_row(sheet, "program's peak VmSize", shown->recorded, "vm_size_peak_bytes");
  count_row(sheet, "nodes of call stacks", shown->info, "stack_nodes");
  history_row(sheet, shown);
  parts_row(sheet, shown);
  print_accesses(sheet,
                 json_object_get(json_object_get(shown->info, "accesses") ? shown->info : shown->about, "accesses"));
  rotation_row(sheet, json_object_get(shown->about, "rotation"));
  budget_row(sheet, json_object_get(shown->footer, "budget"));
  print_marks(sheet, json_object_get(shown->info, "marks"));
  print_lacks(sheet, json_object_get(shown->about, "lacks"));
  notes(sheet, shown);
}

static void print_empty(const struct sheet *sheet, const struct shown *shown) {
  struct text_line words = {.used = 0};
  char number[TEXT_NUMBER_BYTES];
  uint64_t dropped = count_of(shown->info, "dropped");
  text_add(&words, "%s: no call was recorded", string_of(shown->about, "program", "an unnamed program"));
  if (dropped)
    text_add(&words, ": %s %s made in pauses, or dropped", text_counted(number, dropped, "call"),
             dropped == 1 ? "was" : "were");
  else if (lacks_calls(shown))
    text_add(&words, ": those of the program's allocator bypassed the recorder");
  text_add(&words, ".");
  sentence(sheet, words.text);
  rotation_row(sheet, json_object_get(shown->about, "rotation"));
  budget_row(sheet, json_object_get(shown->footer, "budget"));
  notes(sheet, shown);
}

static struct shown parts_of(const json_t *info) {
  const json_t *about = json_object_get(info, "info"), *witness = json_object_get(info, "witness");
  return (struct shown){info, about, json_object_get(info, "recorded"),
                        witness ? witness : json_object_get(about, "witness"), json_object_get(info, "footer")};
}

void info_print(const json_t *figures, bool all, FILE *out) {
  json_t *info = escaped(figures);
  const struct shown shown = parts_of(info);
  const struct sheet sheet = {out, text_width(fileno(out)), all ? LABEL_COLUMNS_ALL : LABEL_COLUMNS};
  if (count_of(info, "events")) {
    (all ? print_all : print_short)(&sheet, &shown);
    cautions(&sheet, &shown);
    const char *more = json_string_value(json_array_get(json_object_get(info, "next"), 0));
    if (!all && more)
      fprintf(out, "More: %s\n", more); /* in one line, to be typed */
  } else {
    print_empty(&sheet, &shown);
  }
  json_decref(info);
}

/* What the function prints, a line each; empty if memory is short. */
static json_t *lines_of(void (*print)(const struct sheet *, const struct shown *), const struct shown *shown) {
  json_t *lines = json_array();
  char *text = NULL, *rest;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  if (out) {
    print(&(struct sheet){out, SIZE_MAX, 0}, shown);
    fclose(out);
  }
  for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
    json_array_append_new(lines, json_string(line));
  free(text);
  return lines;
}

/* A word of a command for a shell. */
static void add_word(struct text_line *words, const char *word) {
  bool plain = *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-:@%,=")];
  text_add(words, plain ? "" : "'");
  for (; *word; word++)
    text_add(words, "%.*s", *word == '\'' ? 5 : 1, *word == '\'' ? "'\"'\"'" : word);
  text_add(words, plain ? "" : "'");
}

void info_add_said(json_t *info, const char *path) {
  const struct shown shown = parts_of(info);
  bool empty = count_of(info, "events") == 0;
  json_t *said = lines_of(empty ? print_empty : print_short, &shown), *about = json_array_get(said, 0);
  json_t *next = json_array();
  struct text_line words = {.used = 0};
  json_object_set_new(info, "about", about ? json_incref(about) : json_string(""));
  json_array_remove(said, 0);
  json_object_set_new(info, "sentences", said);
  json_object_set_new(info, "caveats", empty ? json_array() : lines_of(cautions, &shown));
  text_add(&words, "heaptape info --table all ");
  add_word(&words, path);
  json_array_append_new(next, json_string(words.text));
  json_object_set_new(info, "next", next);
}

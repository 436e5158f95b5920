/* SPDX-License-Identifier: MIT */
/* Importers: convert foreign recordings to traces. Each is one file whose header comment shows a sample of the input
   and what it becomes; importing.h has what they share.

   They are strict: the first violation of the format is an error "FILE:LINE: what" or "FILE: offset N: what". Nothing
   is invented: what the format can't record is listed in INFO's `lacks`, with a `note` for people. Memory is O(live
   objects + threads), plus the nodes of the call stacks if the format has them. Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct import; /* importing.h */

struct import_options {
  bool allow_gaps; /* accept a recording that reports missing events: each loss becomes a GAP of the trace */
  bool has_process;
  uint64_t process;         /* of a recording of several processes: the pid of the one to import */
  const char *columns;      /* of the format `columns`: what its columns are; NULL: not given */
  struct text_line *report; /* gets what was left out or corrected, in words; empty: nothing. NULL: not wanted */
};

/* A file's beginning and size, to recognise a format by. */
struct import_sample {
  const unsigned char *bytes;
  size_t count; /* at least 4,096, unless the file is shorter */
  uint64_t file_bytes;
};

struct import_format {
  bool (*recognises_line)(const char *line);                   /* NULL: not recognised by lines */
  bool (*recognises_bytes)(const struct import_sample *start); /* NULL: not recognised by bytes */
  int (*run)(struct import *import);
  const char *without_calls; /* the error where import_lines met no event; NULL: run judges that itself */
};

/* Reads path ("-": standard input) and writes the trace to out. Returns 0, or -1 with error; then out is incomplete. */
int import_file(const struct import_format *format, const char *path, const struct import_options *options,
                const char *out, struct error *error);

/* LTTng's traces are directories: recognises one, for formats.c. */

/* Is there a file named metadata in the directory, or a few levels below it? */
bool import_lttng_is_trace(const char *path);

/* What a file is that begins so and is no recording, and what to do instead; NULL: not known. */
const char *unreadable_file(const struct import_sample *start);

/* Exporters: write a trace's calls in the format of another replayer. Each is one file whose header comment lists what
   the format can't express; struct export is what they share.

   They write the history that `check` proves: steps in their legal order, releases of objects never seen left out, a
   free inserted where one was not seen. Losses are counted and reported. Memory is O(live objects + threads), of
   minimalloc O(objects). Not
   thread-safe. */

struct export; /* below */

struct export_format {
  int (*run)(struct export *export);
};

struct export_job {
  const struct export_format *format;
  struct trace_reader *reader;
  struct output_stream out;
  const struct history_options *history;
};

/* report gets what the format can't express; empty: nothing. Returns 0, or -1 with error. */
int export_trace(const struct export_job *job, struct text_line *report, struct error *error);

/* The formats that convert supports, and recognition of a file by its content. Not thread-safe. */

struct format {
  const char *name;
  const char *description;
  const char *suffix;                 /* of output files; NULL: the format can't be written */
  const struct import_format *import; /* NULL: no importer */
  const struct export_format
      *export; /* NULL: none, or written by other code of convert: tape, work, text, csv, jsonl */
};

/* A format is registered by being in the folder: at its file's end, REGISTER_FORMAT(.name = ...) puts a pointer to it
   into a section of the linker, whose bounds the linker names. Their order means nothing. */
#define REGISTER_FORMAT(...) REGISTER_FORMAT_AS(this_file, __VA_ARGS__)
#define REGISTER_FORMAT_AS(name_in_file, ...)                                                                          \
  static const struct format registered_##name_in_file = {__VA_ARGS__};                                                \
  __attribute__((used, section("convert_formats"))) static const struct format *const entry_##name_in_file =           \
      &registered_##name_in_file

__attribute__((visibility("hidden"))) extern const struct format *const __start_convert_formats[],
    *const __stop_convert_formats[];

#define FOR_EACH_FORMAT(entry)                                                                                         \
  for (const struct format *const *entry = __start_convert_formats; entry < __stop_convert_formats; entry++)

const struct format *format_by_name(const char *name);

/* The format with the suffix of path; NULL if none has it. */
const struct format *format_by_suffix(const char *path);

/* The format of the file at path. "-" is standard input, which is spooled to a temporary file first if it is a pipe,
   and stays readable from its beginning. Returns NULL with error if the format is unknown. */
const struct format *format_detect(const char *path, struct error *error);

/* What the exporters share: the history's ops as calls on numbered objects, reduced to the few calls that other formats
   have.

   Not thread-safe. */

/* Every call of the program is reduced to one of these. */
enum export_kind { EXPORT_MALLOC, EXPORT_CALLOC, EXPORT_ALIGNED, EXPORT_REALLOC, EXPORT_FREE };

struct export_call {
  enum export_kind kind;
  uint8_t call; /* as recorded */
  uint32_t thread;
  uint64_t released, acquired;           /* addresses; 0: NULL or none */
  uint64_t released_number, number;      /* of the objects, from 1, in order of their acquires; 0: none */
  uint32_t last_thread;                  /* the one that used the released object last */
  uint64_t bytes;                        /* the product if the call has a count; UINT64_MAX: it overflows */
  uint64_t size_bytes, count, alignment; /* of CALLOC: the two factors of bytes; alignment: of ALIGNED */
  uint64_t release_ns, acquire_ns;       /* since the recording's start; in the order of the steps */
};

struct export {
  struct trace_reader *reader;
  FILE *out;
  const char *out_name;
  const struct history_options *history;
  struct error *error;
  /* Set by the exporter: returns 0, or -1 with error. thread_end may be NULL. */
  int (*take)(struct export * export, const struct export_call *call);
  void (*thread_end)(struct export * export, uint32_t thread);
  void *context;
  bool one_line_reallocs; /* a realloc's two steps are one line: a realloc that is overtaken becomes free and malloc
                           */
  bool keeps_failures;    /* failed calls that take no object are passed to take, with acquired = 0 */
  struct export_lost {
    uint64_t usable_sizes, failures, split_reallocs, null_frees;
  } lost;
};

/* Runs through the history and hands each call to export->take. Returns 0, or -1 with error. */
int export_calls(struct export *export, struct witness *witness);

/* Sets the error of a failed write. Returns -1. */
int export_write_failed(const struct export *export);

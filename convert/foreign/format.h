/* SPDX-License-Identifier: MIT */
/* The formats that convert reads and writes, and recognition of a file by its content. Not thread-safe. */
#pragma once

#include "convert/foreign/importing.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/registry.h"

struct export; /* convert/formats/exporting.h */
struct history_options;
struct trace_reader;

struct export_job {
  const struct export_format *format;
  struct trace_reader *reader;
  struct output_stream out;
  const struct history_options *history;
};

struct export_format {
  /* export_trace. report gets what the format can't express; empty: nothing. Returns 0, or -1 with error. */
  int (*trace)(const struct export_job *job, struct text_line *report, struct error *error);
  int (*run)(struct export *export);
};

struct format {
  const char *name;
  const char *description;
  const char *suffix;                 /* of output files; NULL: the format can't be written */
  const struct import_format *import; /* NULL: no importer */
  const struct export_format
      *export; /* NULL: none, or written by other code of convert: tape, work, text, csv, jsonl */
};

/* A format is registered by being linked: at its file's end, REGISTER_FORMAT(.name = ...). */
#define REGISTER_FORMAT(...) REGISTER_FORMAT_AS(this_file, __VA_ARGS__)
#define REGISTER_FORMAT_AS(name_in_file, ...)                                                                          \
  static const struct format registered_##name_in_file = {__VA_ARGS__};                                                \
  REGISTRY_ADD(convert_formats, format, entry_##name_in_file, &registered_##name_in_file)
REGISTRY(convert_formats, format);

#define FOR_EACH_FORMAT(entry) REGISTRY_FOR_EACH(convert_formats, format, entry)

const struct format *format_by_name(const char *name);

/* The format with the suffix of path; NULL if none has it. */
const struct format *format_by_suffix(const char *path);

/* The format of the file at path. "-" is standard input, which is spooled to a temporary file first if it is a pipe,
   and stays readable from its beginning. Returns NULL with error if the format is unknown. */
const struct format *format_detect(const char *path, struct error *error);

/* SPDX-License-Identifier: MIT */
/* The formats that convert supports, and recognition of a file by its content. Not thread-safe. */
#pragma once

#include "convert/formats/exporters/export.h"
#include "convert/formats/reading/import.h"

struct format {
  const char *name;
  const char *description;
  const char *suffix;                 /* of output files; NULL: the format can't be written */
  const struct import_format *import; /* NULL: no importer */
  const struct export_format
      *export; /* NULL: none, or written by other code of convert: tape, work, text, csv, jsonl */
};

/* Ends with a NULL name. */
extern const struct format formats[];

const struct format *format_by_name(const char *name);

/* The format with the suffix of path; NULL if none has it. */
const struct format *format_by_suffix(const char *path);

/* The format of the file at path. "-" is standard input, which is spooled to a temporary file first if it is a pipe,
   and stays readable from its beginning. Returns NULL with error if the format is unknown. */
const struct format *format_detect(const char *path, struct error *error);

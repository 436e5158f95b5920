/* SPDX-License-Identifier: MIT */
/* The formats that convert knows, and what a file holds, by its content. Not thread-safe. */
#pragma once

#include "convert/formats/exporters/export.h"
#include "convert/formats/reading/import.h"

struct format {
  const char *name;
  const char *description;
  const char *suffix;                 /* of output files; NULL: it can't be written */
  const struct import_format *import; /* NULL: no importer */
  const struct export_format
      *export; /* NULL: none, or written by what convert has for it: tape, work, text, csv, jsonl */
};

/* Ends with a NULL name. */
extern const struct format formats[];

const struct format *format_by_name(const char *name);

/* The format with that suffix; NULL if none has it. */
const struct format *format_by_suffix(const char *path);

/* What the file at path ("-": standard input, which is spooled to a temporary file first if it is a pipe, and stays
   readable from its beginning) holds. Returns NULL with error if it is none of ours. */
const struct format *format_detect(const char *path, struct error *error);

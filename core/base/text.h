/* SPDX-License-Identifier: MIT */
/* Numbers and lines for people: thousands separated, sizes in MiB, lines that fit a terminal.

   A text made here joins a figure and its unit by a no-break space; text_print prints that as a space, and breaks no
   line there. Not its job: colour (diagnostics.h), escaping names (error.h). */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT_JOIN "\xc2\xa0"

enum { TEXT_NUMBER_BYTES = 40 };

/* "1,234,567". Returns to, which has TEXT_NUMBER_BYTES, as below. */
const char *text_count(char *to, uint64_t value);

/* "1,234 calls", "1 call". noun: at most a dozen bytes, made plural by an s. */
const char *text_counted(char *to, uint64_t value, const char *noun);

/* Three significant digits, as size() of analysis/heaptape/common/phrases.py: "23.5 MiB", "4.80 GiB"; below a KiB
   bytes. */
const char *text_size(char *to, double bytes);

/* COLUMNS, or else the width of the terminal at fd, or else 80. */
size_t text_width(int fd);

/* A text of bounded length, put together from parts; a longer one is cut. */
struct text_line {
  char text[8192];
  size_t used;
};
__attribute__((format(printf, 2, 3))) void text_add(struct text_line *line, const char *format, ...);
void text_add_list(struct text_line *line, const char *format, va_list arguments);

/* Prints the text's words as lines of at most width columns, each after the first indented; a longer word stays whole.
   The first line begins at column. */
void text_print(FILE *out, const char *text, size_t width, size_t column, size_t indent);

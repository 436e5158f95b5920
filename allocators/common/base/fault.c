/* SPDX-License-Identifier: MIT */
#include "allocators/common/base/fault.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 256 };

struct line {
  char text[LINE_BYTES];
  size_t used;
};

/* Not stdio: it allocates. */
static void add(struct line *line, const char *text, size_t bytes) {
  if (bytes > LINE_BYTES - 1 - line->used)
    bytes = LINE_BYTES - 1 - line->used;
  memcpy(line->text + line->used, text, bytes);
  line->used += bytes;
}

static void add_string(struct line *line, const char *text) {
  add(line, text, strlen(text));
}

static void add_address(struct line *line, const void *address) {
  static const char digits[] = "0123456789abcdef";
  uintptr_t value = (uintptr_t)address;
  int shift = 60;
  while (shift > 0 && (value >> shift & 15) == 0)
    shift -= 4;
  add_string(line, "0x");
  for (; shift >= 0; shift -= 4)
    add(line, &digits[value >> shift & 15], 1);
}

static void print(struct line *line) {
  int error = errno;
  line->text[line->used++] = '\n';
  ssize_t written = write(STDERR_FILENO, line->text, line->used);
  (void)written; /* nowhere to report it */
  errno = error;
}

void fault(const char *where, const char *what, const void *address) {
  struct line line = {.used = 0};
  add_string(&line, ALLOCATOR_NAME ": ");
  add_string(&line, where);
  add_string(&line, ": ");
  add_string(&line, what);
  add_string(&line, " (");
  add_address(&line, address);
  add_string(&line, ")");
  print(&line);
  abort();
}

void complain(const char *text, const char *word) {
  struct line line = {.used = 0};
  add_string(&line, ALLOCATOR_NAME ": ");
  add_string(&line, text);
  add_string(&line, ": ");
  add(&line, word, strcspn(word, ":"));
  print(&line);
}

/* SPDX-License-Identifier: MIT */
/* formats_that_recognise FILE: the names of all formats that recognise the file's beginning or the first line that any
   recognises, one per line. Detection takes the first in no particular order, so there must be one. */
#include "convert/foreign/format.h"
#include "convert/foreign/reading.h"

#include <stdio.h>

static int print_by_bytes(const char *path) {
  unsigned char bytes[4096];
  FILE *file = fopen(path, "rb");
  if (!file)
    return 0;
  size_t count = fread(bytes, 1, sizeof bytes, file);
  fseek(file, 0, SEEK_END);
  const struct import_sample start = {bytes, count, (uint64_t)ftell(file)};
  fclose(file);
  int found = 0;
  FOR_EACH_FORMAT(entry) {
    const struct import_format *import = (*entry)->import;
    if (import && import->recognises_bytes && import->recognises_bytes(&start)) {
      puts((*entry)->name);
      found++;
    }
  }
  return found;
}

static int print_by_line(const char *line) {
  int found = 0;
  FOR_EACH_FORMAT(entry) {
    const struct import_format *import = (*entry)->import;
    if (import && import->recognises_line && import->recognises_line(line)) {
      puts((*entry)->name);
      found++;
    }
  }
  return found;
}

int main(int argc, char **argv) {
  struct error error = {0};
  struct line_reader *lines;
  const char *line;
  int found = argc == 2 ? print_by_bytes(argv[1]) : 0;
  if (argc != 2 || found)
    return argc != 2;
  if (line_reader_open(&lines, argv[1], &error) != 0)
    return 1;
  while (!found && line_reader_next(lines, &line) > 0)
    found = print_by_line(line);
  line_reader_close(lines);
  return 0;
}

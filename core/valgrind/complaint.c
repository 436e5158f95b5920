/* SPDX-License-Identifier: MIT */
#include "core/valgrind/complaint.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Valgrind's own lines begin with "valgrind: " or "Valgrind: ", after "==PID== " where they are about a running
 * program. */
bool valgrind_complaint(const char *path, char *line, size_t bytes) {
  FILE *file = fopen(path, "r");
  bool found = false;
  while (file && !found && fgets(line, (int)bytes, file)) {
    char *text = line;
    if (strncmp(text, "==", 2) == 0) {
      for (text += 2; isdigit((unsigned char)*text); text++)
        ;
      text += strspn(text, "= ");
    }
    found = strncasecmp(text, "valgrind: ", 10) == 0;
    if (found)
      memmove(line, text + 10, strlen(text + 10) + 1);
  }
  if (file)
    fclose(file);
  line[found ? strcspn(line, "\n") : 0] = '\0';
  return found;
}

/* SPDX-License-Identifier: MIT */
#include "core/valgrind/launch.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char TOOL[] = "heaptape-amd64-linux";
#if defined(__x86_64__)
enum { HAS_TOOL = true };
#else
enum { HAS_TOOL = false };
#endif

/* Fills in path with FOLDER/name; false: too long, or it can't be executed. */
static bool is_program(char *path, size_t bytes, const char *folder, const char *name) {
  int length = snprintf(path, bytes, "%s/%s", folder, name);
  return length > 0 && (size_t)length < bytes && access(path, X_OK) == 0;
}

int valgrind_find(struct valgrind *valgrind, char *why, size_t why_bytes) {
  char tool[sizeof valgrind->program];
  if (!HAS_TOOL) {
    snprintf(why, why_bytes, "heaptape's Valgrind tool is for x86-64 only");
    return -1;
  }
  ssize_t bytes = readlink("/proc/self/exe", valgrind->library, sizeof valgrind->library - 16);
  valgrind->library[bytes > 0 ? bytes : 0] = '\0';
  char *slash = strrchr(valgrind->library, '/');
  if (slash)
    strcpy(slash, "/valgrind");
  if (slash && is_program(valgrind->program, sizeof valgrind->program, valgrind->library, "valgrind") &&
      is_program(tool, sizeof tool, valgrind->library, TOOL))
    return 0;
  snprintf(why, why_bytes,
           "heaptape's Valgrind tool was not built: install valgrind with its headers and run make again");
  return -1;
}

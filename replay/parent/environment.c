/* SPDX-License-Identifier: MIT */
#include "replay/parent/environment.h"

#include "core/system/allocator_settings.h"
#include "core/system/preloadable.h"
#include "replay/parent/loader.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the engine may have of this environment: where libraries and temporary files are; where there are any,
   Valgrind's library, how its sanitizers report, where its recorder listens, where an emulator that runs it finds its
   loader, and how much of its addresses it keeps free. The first two are always set: an allocator
   that reads its settings searches the whole environment, which costs instructions. */
static const char *const always[] = {"LD_LIBRARY_PATH", "TMPDIR"};
static const char *const where_set[] = {"VALGRIND_LIB",    "ASAN_OPTIONS",   "TSAN_OPTIONS",    "UBSAN_OPTIONS",
                                        "HEAPTAPE_SOCKET", "QEMU_LD_PREFIX", "QEMU_RESERVED_VA"};

static bool is_recorder(const char *path, size_t length) {
  static const char *const names[] = {"libheaptape.so", "libheaptape-unwind.so"};
  for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
    size_t bytes = strlen(names[index]);
    if (length >= bytes && memcmp(path + length - bytes, names[index], bytes) == 0 &&
        (length == bytes || path[length - bytes - 1] == '/'))
      return true;
  }
  return false;
}

/* Adds the libraries of LD_PRELOAD that are of a recorder, or the others, with colons between. Returns how many. */
static unsigned list_preloads(struct text_line *list, bool of_recorder) {
  const char *at = getenv("LD_PRELOAD");
  unsigned count = 0;
  for (; at && *at; at += strspn(at, ": ")) {
    size_t length = strcspn(at, ": ");
    if (length > 0 && is_recorder(at, length) == of_recorder) {
      text_add(list, "%s%.*s", list->used > 0 ? ":" : "", (int)length, at);
      count++;
    }
    at += length;
  }
  return count;
}

unsigned environment_recorders(void) {
  struct text_line list = {.used = 0};
  return list_preloads(&list, true);
}

void environment_left_out(struct text_line *names) {
  struct text_line others = {.used = 0};
  char setting[4096];
  if (list_preloads(&others, false) > 0)
    text_add(names, "LD_PRELOAD");
  for (char **variable = environ; *variable; variable++)
    if (allocator_setting(*variable, setting, sizeof setting) > 0)
      text_add(names, "%s%.*s", names->used > 0 ? ", " : "", (int)strcspn(*variable, "="), *variable);
}

/* The new environment, which ends with NULL. */
enum { ENVIRONMENT_STEP_BYTES = 16384, MOST_VARIABLES = SPEC_WORDS + 16 };
static char *built[MOST_VARIABLES + 1];

/* Adds NAME=VALUE, which stays the caller's, or replaces the one of that name. */
static void put(char *variable) {
  size_t name = strcspn(variable, "=") + 1, index = 0;
  while (built[index] && strncmp(built[index], variable, name) != 0)
    index++;
  if (index < MOST_VARIABLES)
    built[index] = variable;
}

static int put_value(const char *name, const char *value) {
  char *variable;
  if (asprintf(&variable, "%s=%s", name, value) < 0)
    return -1;
  put(variable);
  return 0;
}

static int put_preloads(struct text_line *list, const char *const *preloads) {
  for (; *preloads; preloads++) {
    char path[PATH_MAX];
    struct error error = {0};
    snprintf(path, sizeof path, "%s", *preloads);
    preloadable_path(path, &error); /* a path that LD_PRELOAD splits is found missing by the engine */
    text_add(list, "%s%s", list->used > 0 ? ":" : "", path);
  }
  if (list->used + 1 >= sizeof list->text)
    return -1;
  return list->used > 0 ? put_value("LD_PRELOAD", list->text) : 0;
}

/* Environment and arguments are above the stack and shift it; a variant's longer settings must not do that. So the
   environment is padded to whole steps. */
static void pad(void) {
  static char padding[ENVIRONMENT_STEP_BYTES + 32] = "HEAPTAPE_PADDING=";
  size_t name = strlen(padding), bytes = name + 1 + sizeof(char *);
  for (char **variable = built; *variable; variable++)
    bytes += strlen(*variable) + 1 + sizeof(char *);
  memset(padding + name, '.', (ENVIRONMENT_STEP_BYTES - bytes % ENVIRONMENT_STEP_BYTES) % ENVIRONMENT_STEP_BYTES);
  put(padding);
}

static int put_library_path(const struct run_spec *spec) {
  const char *before = getenv("LD_LIBRARY_PATH");
  char *path = loader_library_path(spec, before ? before : "");
  int status = path ? put_value("LD_LIBRARY_PATH", path) : -1;
  free(path);
  return status;
}

int environment_build(const struct run_spec *spec) {
  struct text_line preloads = {.used = 0};
  int status = 0;
  for (size_t index = 0; index < sizeof always / sizeof *always; index++) {
    const char *value = getenv(always[index]);
    status |= put_value(always[index], value ? value : "");
  }
  for (size_t index = 0; index < sizeof where_set / sizeof *where_set; index++) {
    const char *value = getenv(where_set[index]);
    status |= value ? put_value(where_set[index], value) : 0;
  }
  if (spec->loader)
    status |= put_library_path(spec);
  for (const char *const *setting = spec->settings.texts; *setting; setting++)
    put((char *)(uintptr_t)*setting);
  list_preloads(&preloads, true);
  if (status || put_preloads(&preloads, spec->preloads.texts) != 0)
    return -1;
  pad();
  environ = built;
  return 0;
}

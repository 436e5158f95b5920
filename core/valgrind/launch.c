/* SPDX-License-Identifier: MIT */
#include "core/valgrind/launch.h"

#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char TOOL[] = "heaptape-amd64-linux";
#if defined(__x86_64__)
enum { HAS_TOOL = true };
#else
enum { HAS_TOOL = false };
#endif

static bool is_program(char *path, size_t bytes, const char *folder, int folder_bytes, const char *name) {
  int length = snprintf(path, bytes, "%.*s/%s", folder_bytes, folder, name);
  return length > 0 && (size_t)length < bytes && access(path, X_OK) == 0;
}

/* Debian's valgrind is a shell script around valgrind.bin; a shell must not run with the allocator under test
   preloaded. */
int valgrind_find(struct valgrind *valgrind, char *why, size_t why_bytes) {
  valgrind->library[0] = '\0';
  for (const char *path = getenv("PATH"); path && *path;) {
    int length = (int)strcspn(path, ":");
    if (is_program(valgrind->program, sizeof valgrind->program, path, length, "valgrind.bin") ||
        is_program(valgrind->program, sizeof valgrind->program, path, length, "valgrind"))
      return 0;
    path += length + (path[length] != '\0');
  }
  snprintf(why, why_bytes, "valgrind is not installed here");
  return -1;
}

/* Valgrind's launcher reads its own folder from the environment. */
static char **environment_without_library(char **copy, size_t limit) {
  size_t count = 0;
  for (char **setting = environ; *setting && count + 1 < limit; setting++)
    if (strncmp(*setting, "VALGRIND_LIB=", 13) != 0)
      copy[count++] = *setting;
  copy[count] = NULL;
  return copy;
}

/* "3.19.0" of "valgrind-3.19.0"; empty if it prints nothing. */
static void read_version(const struct valgrind *valgrind, char *version, size_t bytes) {
  int ends[2];
  version[0] = '\0';
  if (pipe(ends) != 0)
    return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  char *copy[4096], *arguments[] = {"valgrind", "--version", NULL};
  pid_t child;
  int failed = posix_spawn(&child, valgrind->program, &actions, NULL, arguments,
                           environment_without_library(copy, sizeof copy / sizeof *copy));
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  FILE *output = fdopen(ends[0], "r");
  char line[128];
  if (!failed && output && fgets(line, sizeof line, output) && strncmp(line, "valgrind-", 9) == 0)
    snprintf(version, bytes, "%.*s", (int)strcspn(line + 9, "\n"), line + 9);
  if (output)
    fclose(output);
  else
    close(ends[0]);
  while (!failed && waitpid(child, NULL, 0) < 0 && errno == EINTR)
    ;
}

static bool read_line(const char *folder, const char *name, char *line, size_t bytes) {
  char path[4096 + 32];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  bool read = file && fgets(line, (int)bytes, file);
  if (file)
    fclose(file);
  if (read)
    line[strcspn(line, "\n")] = '\0';
  return read;
}

int valgrind_find_tool(struct valgrind *valgrind, char *why, size_t why_bytes) {
  char folder[4000], tool[4096], built_for[64], version[64];
  if (!HAS_TOOL) {
    snprintf(why, why_bytes, "heaptape's Valgrind tool is for x86-64 only");
    return -1;
  }
  ssize_t bytes = readlink("/proc/self/exe", folder, sizeof folder - 16);
  char *slash = bytes > 0 ? memrchr(folder, '/', (size_t)bytes) : NULL;
  if (slash)
    strcpy(slash, "/valgrind");
  valgrind->library[0] = '\0';
  /* A package for any machine contains the launcher that fits its tool. */
  if (!slash || !is_program(valgrind->program, sizeof valgrind->program, folder, (int)strlen(folder), "valgrind.bin"))
    if (valgrind_find(valgrind, why, why_bytes) != 0)
      return -1;
  if (!slash || !is_program(tool, sizeof tool, folder, (int)strlen(folder), TOOL) ||
      !read_line(folder, "built-for", built_for, sizeof built_for)) {
    snprintf(why, why_bytes, "the Valgrind tool was not built: install valgrind with its headers and run make again");
    return -1;
  }
  read_version(valgrind, version, sizeof version);
  if (strcmp(version, built_for) != 0) {
    snprintf(why, why_bytes,
             "the Valgrind tool was built for version %s, and %s is version %s: build heaptape with this one",
             built_for, valgrind->program, version[0] ? version : "unknown");
    return -1;
  }
  snprintf(valgrind->library, sizeof valgrind->library, "%s", folder);
  return 0;
}

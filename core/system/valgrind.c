/* SPDX-License-Identifier: MIT */
#include "core/system/valgrind.h"

#include "core/system/preloadable.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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

/* Valgrind puts a library of its folder into LD_PRELOAD. */
int valgrind_find(struct valgrind *valgrind, char *why, size_t why_bytes) {
  struct error error = {0};
  if (!HAS_TOOL) {
    snprintf(why, why_bytes, "heaptape's Valgrind tool is for x86-64 only");
    return -1;
  }
  ssize_t bytes = readlink("/proc/self/exe", valgrind->library, sizeof valgrind->library - 16);
  valgrind->library[bytes > 0 ? bytes : 0] = '\0';
  char *slash = strrchr(valgrind->library, '/');
  if (slash)
    strcpy(slash, "/valgrind");
  if (slash && access(valgrind->library, X_OK) == 0 && preloadable_path(valgrind->library, &error) != 0) {
    snprintf(why, why_bytes, "%s", error.text);
    return -1;
  }
  if (slash && is_program(valgrind->launcher, sizeof valgrind->launcher, valgrind->library, "valgrind") &&
      is_program(valgrind->program, sizeof valgrind->program, valgrind->library, TOOL))
    return 0;
  snprintf(why, why_bytes,
           "heaptape's Valgrind tool was not built: install valgrind with its headers and run make again");
  return -1;
}

int valgrind_command_open(struct valgrind_command *command, struct error *error) {
  const char *folder = getenv("TMPDIR");
  int length =
      snprintf(command->directory, sizeof command->directory, "%s/heaptape-valgrind.XXXXXX",
               folder && *folder && !strchr(folder, '%') ? folder : "/tmp"); /* a % in the log's name means something */
  if ((size_t)length >= sizeof command->directory)
    errno = ENAMETOOLONG;
  if ((size_t)length >= sizeof command->directory || !mkdtemp(command->directory)) {
    error_errno(error, command->directory, "can't make the directory");
    command->directory[0] = '\0';
    return -1;
  }
  snprintf(command->output, sizeof command->output, "%s/result", command->directory);
  valgrind_command_add(command, "valgrind");
  valgrind_command_add(command, "--log-file=%s/log.%%p", command->directory);
  return 0;
}

void valgrind_command_add(struct valgrind_command *command, const char *format, ...) {
  char *option = NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&option, format, arguments) < 0)
    option = NULL;
  va_end(arguments);
  char **place = option ? vector_add(&command->arguments) : NULL;
  if (place)
    *place = option;
  else
    free(option);
  command->failed |= !place;
}

void valgrind_command_add_tool(struct valgrind_command *command, const char *mode, uint32_t threads) {
  enum { VALGRINDS_OWN = 500, SPARE = 16 }; /* spare: Valgrind's slot 0, threads that are about to end */
  valgrind_command_add(command, "--tool=heaptape");
  valgrind_command_add(command, "--mode=%s", mode);
  if (threads > VALGRIND_MOST_THREADS - SPARE)
    threads = VALGRIND_MOST_THREADS - SPARE;
  if (threads + SPARE > VALGRINDS_OWN)
    valgrind_command_add(command, "--max-threads=%u", threads + SPARE);
}

/* Valgrind prints only what valgrind_complaint reads. */
void valgrind_command_add_live(struct valgrind_command *command, const char *mode, bool follow) {
  enum { LIVE_THREADS = 5000 };
  valgrind_command_add_tool(command, mode, LIVE_THREADS);
  valgrind_command_add(command, "--trace-children=%s", follow ? "yes" : "no");
  valgrind_command_add(command, "--vgdb=no");
  valgrind_command_add(command, "--quiet");
  valgrind_command_add(command, "--sigill-diagnostics=yes");
}

void valgrind_command_set_environment(const struct valgrind_command *command) {
  setenv("VALGRIND_LIB", command->valgrind.library, 1);
}

/* The caller owns the program's name and arguments: they are after the options, and are not counted. */
void valgrind_command_exec(struct valgrind_command *command, const char *program, char *const *arguments) {
  size_t count = 0, options = command->arguments.count;
  while (arguments[count])
    count++;
  if (command->failed || !vector_reserve(&command->arguments, options + count + 2)) {
    errno = ENOMEM;
    return;
  }
  command->arguments.at[options] = (char *)program;
  memcpy(command->arguments.at + options + 1, arguments, (count + 1) * sizeof *arguments);
  setenv("VALGRIND_LAUNCHER", command->valgrind.launcher, 1);
  execv(command->valgrind.program, command->arguments.at);
}

void valgrind_command_log(const struct valgrind_command *command, int pid, char *path, size_t bytes) {
  snprintf(path, bytes, "%s/log.%d", command->directory, pid);
}

static void remove_directory(const char *path) {
  DIR *directory = opendir(path);
  for (struct dirent *entry; directory && (entry = readdir(directory));)
    unlinkat(dirfd(directory), entry->d_name, 0);
  if (directory)
    closedir(directory);
  rmdir(path);
}

void valgrind_command_close(struct valgrind_command *command) {
  if (command->directory[0])
    remove_directory(command->directory);
  command->directory[0] = '\0';
  for (size_t option = 0; option < command->arguments.count; option++)
    free(command->arguments.at[option]);
  free(command->arguments.at);
  command->arguments.at = NULL;
  command->arguments.count = command->arguments.room = 0;
}

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

/* SPDX-License-Identifier: MIT */
#include "capture/recorder/command/preflight.h"

#include "core/base/os.h"
#include "core/elf/elf_file.h"
#include "core/system/preloadable.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static int refuse(struct error *error, const char *path, const char *why) {
  error_set(error, path, "%s", why);
  return 1;
}

/* As execvp: a name with a slash is a path; other names are searched in PATH. */
static int find_program(const char *command, char *path, size_t path_bytes, struct error *error) {
  struct stat status;
  int found = 127;
  if (strchr(command, '/')) {
    snprintf(path, path_bytes, "%s", command);
    found = stat(path, &status) != 0 ? 127 : S_ISREG(status.st_mode) && access(path, X_OK) == 0 ? 0 : 126;
  } else {
    const char *list = getenv("PATH");
    if (!list)
      list = "/usr/local/bin:/usr/bin:/bin";
    while (found != 0) {
      size_t length = strcspn(list, ":");
      snprintf(path, path_bytes, "%.*s%s%s", (int)length, list, length ? "/" : "", command);
      if (*command && stat(path, &status) == 0 && S_ISREG(status.st_mode))
        found = access(path, X_OK) == 0 ? 0 : 126;
      if (!list[length])
        break;
      list += length + 1;
    }
  }
  if (found == 127)
    error_set(error, command, "no such program");
  else if (found == 126)
    error_set(error, command, "not an executable file");
  return found;
}

/* The loader ignores LD_PRELOAD where the program has rights that its caller lacks. */
static bool gains_rights(const char *path, const struct stat *status) {
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
    return false;
  if ((status->st_mode & S_ISUID) && status->st_uid != getuid())
    return true;
  if ((status->st_mode & S_ISGID) && (status->st_mode & S_IXGRP) && status->st_gid != getgid())
    return true;
  return getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

static bool file_begins(const char *path, const char *start) {
  return strncmp(basename(path), start, strlen(start)) == 0;
}

static int check_elf(int fd, const char *path, const struct stat *status, char *static_program, struct error *error) {
  struct program_file file;
  program_file_read(fd, &file);
  if (file.kind == PROGRAM_OF_OTHER_MACHINE)
    return refuse(error, path,
                  "a program for another kind of processor (or 32 bits): libheaptape.so can't be loaded into it");
  if (file.kind == PROGRAM_DAMAGED)
    return refuse(error, path, "a damaged ELF file");
  if (gains_rights(path, status))
    return refuse(
        error, path,
        "setuid, setgid or with capabilities: the loader ignores LD_PRELOAD for it; run heaptape record as the "
        "user of those rights (sudo heaptape record -- CMD)");
  /* loaders run other programs */
  if (!file.loader[0] && !file_begins(path, "ld-linux") && !file_begins(path, "ld-musl-"))
    snprintf(static_program, PATH_MAX, "%s", path);
  return 0;
}

/* The interpreter named after "#!", or none. */
static bool read_interpreter(char *line) {
  char *start = line + 2 + strspn(line + 2, " \t");
  start[strcspn(start, " \t\n")] = '\0';
  memmove(line, start, strlen(start) + 1);
  return *line;
}

static int check_file(const char *path, int depth, char *static_program, struct error *error) {
  enum { SCRIPTS_MAX = 4 };
  struct stat status;
  char start[PATH_MAX];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &status) != 0) {
    os_close(fd);
    return errno == EACCES ? 0
                           : refuse(error, path, "cannot be read"); /* EACCES: executable but not readable: unchecked */
  }
  ssize_t got = pread(fd, start, sizeof start - 1, 0);
  start[got > 0 ? got : 0] = '\0';
  int result = 0;
  if (got >= SELFMAG && memcmp(start, ELFMAG, SELFMAG) == 0)
    result = check_elf(fd, path, &status, static_program, error);
  else if (got > 2 && start[0] == '#' && start[1] == '!' && read_interpreter(start)) {
    if (access(start, X_OK) != 0) {
      error_set(error, path, "its interpreter %s cannot be run", start);
      result = 126;
    } else if (depth < SCRIPTS_MAX) {
      result = check_file(start, depth + 1, static_program, error);
    }
  }
  close(fd);
  return result;
}

int preflight_program(const char *command, char *path, char *static_program, struct error *error) {
  int found = find_program(command, path, PATH_MAX, error);
  static_program[0] = '\0';
  return found ? found : check_file(path, 0, static_program, error);
}

bool preflight_file_holds(const char *path, const char *text) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  void *file = MAP_FAILED;
  if (fd >= 0 && fstat(fd, &status) == 0)
    file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  os_close(fd);
  if (file == MAP_FAILED)
    return false;
  bool holds = memmem(file, (size_t)status.st_size, text, strlen(text)) != NULL;
  munmap(file, (size_t)status.st_size);
  return holds;
}

/* A file that is linked against glibc names the versions of the symbols that it needs. */
static bool names_glibc(const char *library) {
  return preflight_file_holds(library, "GLIBC_2.");
}

static int make_preloadable(char *path, struct error *error) {
  if (preloadable_path(path, error) != 0)
    return 1;
  if (access(path, R_OK) != 0)
    return refuse(error, path, "no such library");
  return 0;
}

/* Where the dynamic linker finds a name without a folder: it is asked to list what it would load into this program.
   (dlopen would run an allocator's constructors, and has no room for its static TLS.) False: nowhere. */
static bool find_by_linker(const char *name, char path[PATH_MAX]) {
  char line[PATH_MAX + 64], end[NAME_MAX + 4];
  int ends[2];
  bool found = false;
  if (pipe2(ends, O_CLOEXEC) != 0)
    return false;
  int child = fork();
  if (child == 0) {
    setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
    setenv("LD_PRELOAD", name, 1);
    dup2(ends[1], STDOUT_FILENO);
    close(STDERR_FILENO);
    execl("/proc/self/exe", name, (char *)NULL);
    _exit(1);
  }
  close(ends[1]);
  FILE *listed = fdopen(ends[0], "r");
  snprintf(end, sizeof end, "/%s (", name);
  while (listed && fgets(line, sizeof line, listed)) {
    char *at = strchr(line, '/'), *last = strstr(line, end);
    if (!found && at && last) {
      last[strlen(end) - 2] = '\0';
      found = realpath(at, path) != NULL;
    }
  }
  if (listed)
    fclose(listed);
  if (child > 0)
    waitpid(child, NULL, 0);
  return found;
}

int preflight_preload(const char *library, char *path, struct error *error) {
  if (!realpath(library, path) && (strchr(library, '/') || !find_by_linker(library, path)))
    return refuse(error, library, "no such library");
  return make_preloadable(path, error);
}

static bool is_of_musl(const char *program) {
  struct program_file file = {.loader = ""};
  int fd = open(program, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    program_file_read(fd, &file);
    close(fd);
  }
  return file_begins(file.loader[0] ? file.loader : program, "ld-musl-");
}

int preflight_same_libc(const char *program, const char *library, struct error *error) {
  if (!is_of_musl(program) || !names_glibc(library))
    return 0;
  error_set(error, library, "is linked against glibc, and %s against musl: it can't be loaded there", program);
  return 1;
}

int preflight_library(const char *name, char *path, struct error *error) {
  static const char *const places[] = {"/../lib/", "/../../lib/heaptape/"};
  char self[PATH_MAX], joined[PATH_MAX + 64];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0)
    return refuse(error, "/proc/self/exe", "cannot be read");
  self[length] = '\0';
  *strrchr(self, '/') = '\0';
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    snprintf(joined, sizeof joined, "%s%s%s", self, places[i], name);
    if (realpath(joined, path))
      return make_preloadable(path, error);
  }
  return refuse(error, name, "not found beside this program");
}

int preflight_libunwind(struct error *error) {
  void *library = dlopen("libunwind.so.8", RTLD_LAZY | RTLD_LOCAL);
  if (!library)
    return refuse(error, "--unwind libunwind", "libunwind.so.8 can't be loaded (Debian has it in libunwind8)");
  dlclose(library);
  return 0;
}

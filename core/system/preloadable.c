/* SPDX-License-Identifier: MIT */
#include "core/system/preloadable.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char SPLITS[] = ": ";

/* A folder that nobody else can write: what is in it is preloaded into programs. */
static bool own_folder(const char *path) {
  struct stat folder;
  return (mkdir(path, 0755) == 0 || errno == EEXIST) && lstat(path, &folder) == 0 && S_ISDIR(folder.st_mode) &&
         folder.st_uid == geteuid() && (folder.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static bool leads_to(const char *link, const char *path) {
  char target[PATH_MAX];
  ssize_t length = readlink(link, target, sizeof target - 1);
  if (length < 0)
    return false;
  target[length] = '\0';
  return strcmp(target, path) == 0;
}

int preloadable_path(char *path, struct error *error) {
  struct stat file;
  char folder[64], inner[128], link[PATH_MAX];
  if (!strpbrk(path, SPLITS))
    return 0;
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  if (strpbrk(base, SPLITS))
    return error_set(error, path, "LD_PRELOAD takes no file name with a space or a colon");
  if (stat(path, &file) != 0)
    return error_errno(error, path, "cannot be read");
  snprintf(folder, sizeof folder, "/tmp/heaptape.%u", (unsigned)geteuid());
  snprintf(inner, sizeof inner, "%s/%llx-%llx", folder, (unsigned long long)file.st_dev,
           (unsigned long long)file.st_ino);
  if (snprintf(link, sizeof link, "%s/%s", inner, base) >= (int)sizeof link)
    return error_set(error, path, "its name is too long");
  if (!own_folder(folder) || !own_folder(inner))
    return error_set(error, folder,
                     "LD_PRELOAD takes no path with a space or a colon, and this folder for a link to "
                     "the library is not this user's alone");
  if (!leads_to(link, path)) {
    unlink(link);
    if (symlink(path, link) != 0 && !leads_to(link, path))
      return error_errno(error, link, "the link to the library cannot be made");
  }
  snprintf(path, PATH_MAX, "%s", link);
  return 0;
}

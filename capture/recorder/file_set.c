/* SPDX-License-Identifier: MIT */
#include "capture/recorder/file_set.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* The number in "NAME.NUMBER.tape"; 0: another name. */
static uint32_t number_in(const char *file, const char *name) {
  size_t length = strlen(name);
  if (strncmp(file, name, length) != 0 || file[length] != '.')
    return 0;
  const char *digits = file + length + 1;
  size_t count = strspn(digits, "0123456789");
  if (count < 4 || count > 9 || strcmp(digits + count, ".tape") != 0)
    return 0;
  return (uint32_t)strtoul(digits, NULL, 10);
}

/* The highest number of an existing file; 0: none. */
static uint32_t highest(const char *base) {
  char folder[4096];
  const char *slash = strrchr(base, '/'), *name = slash ? slash + 1 : base;
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - base) : 1, slash ? base : ".");
  DIR *directory = opendir(folder);
  uint32_t found = 0;
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    uint32_t number = number_in(entry->d_name, name);
    found = number > found ? number : found;
  }
  if (directory)
    closedir(directory);
  return found;
}

void file_set_begin(struct file_set *set, const char *path) {
  snprintf(set->base, sizeof set->base, "%s", path);
  size_t length = strlen(set->base);
  if (length > 5 && strcmp(set->base + length - 5, ".tape") == 0)
    set->base[length - 5] = '\0';
  if (getrandom(&set->id, sizeof set->id, 0) != sizeof set->id)
    set->id = (uint64_t)getpid();
  set->first = set->oldest = set->number = highest(set->base) + 1;
}

void file_set_path(const struct file_set *set, uint32_t number, char *path, size_t bytes) {
  snprintf(path, bytes, "%s.%04u.tape", set->base, number);
}

int file_set_trim(struct file_set *set, uint32_t keep, struct error *error) {
  char path[4096 + 32];
  for (; set->number - set->oldest > keep; set->oldest++) {
    file_set_path(set, set->oldest, path, sizeof path);
    struct stat status = {0};
    stat(path, &status);
    if (unlink(path) == 0)
      set->deleted_bytes += (uint64_t)status.st_size;
    else if (errno != ENOENT)
      return error_errno(error, path, "can't be deleted");
  }
  return 0;
}

/* SPDX-License-Identifier: MIT */
#include "replay/parent/loader.h"

#include "core/elf/elf_file.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_file(int fd, struct elf_file *file) {
  struct elf_memory memory = elf_descriptor(&fd);
  return elf_file_read(&memory, file) && file->header.e_phentsize == sizeof *file->segment;
}

static int check_loader(const char *loader, const struct elf_file *own, struct error *error) {
  struct elf_file file;
  int fd = open(loader, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return error_errno(error, loader, "can't open");
  bool is_elf = read_file(fd, &file);
  close(fd);
  if (!is_elf || file.header.e_type != ET_DYN)
    return error_set(error, loader, "not a dynamic linker");
  if (file.header.e_machine != own->header.e_machine)
    return error_set(error, loader, "of another processor architecture");
  return 0;
}

/* Appends the linker's path to the copy, and makes the program header that names the linker refer to it. */
static bool set_loader(int copy, const struct elf_file *file, off_t end, const char *loader) {
  size_t bytes = strlen(loader) + 1;
  const Elf64_Phdr *part = elf_segment(&file->segments, PT_INTERP);
  if (!part || pwrite(copy, loader, bytes, end) != (ssize_t)bytes) /* NULL: linked statically */
    return false;
  off_t place = (off_t)(file->header.e_phoff + (uint64_t)((const char *)part - (const char *)file->segment));
  Elf64_Phdr changed = *part;
  changed.p_offset = (Elf64_Off)end;
  changed.p_filesz = changed.p_memsz = bytes;
  return pwrite(copy, &changed, sizeof changed, place) == sizeof changed;
}

static bool copy_file(int from, int into, off_t bytes) {
  off_t at = 0;
  while (at < bytes)
    if (sendfile(into, from, &at, (size_t)(bytes - at)) <= 0)
      return false;
  return true;
}

int loader_copy_program(const char *program, const char *loader, struct error *error) {
  struct elf_file file;
  struct stat about;
  int from = open(program, O_RDONLY | O_CLOEXEC), copy = -1, status = -1;
  if (from < 0 || fstat(from, &about) != 0 || !read_file(from, &file))
    error_errno(error, program, "can't read");
  else if (check_loader(loader, &file, error) == 0) {
    copy = memfd_create("heaptape-replay", 0);
    if (copy >= 0 && copy_file(from, copy, about.st_size) && set_loader(copy, &file, about.st_size, loader))
      status = 0;
    else
      error_errno(error, loader, "can't make a copy of the engine that it starts");
  }
  if (from >= 0)
    close(from);
  if (status != 0 && copy >= 0)
    close(copy);
  return status == 0 ? copy : -1;
}

struct folders {
  FILE *list;
  char last[PATH_MAX];
};

static int add_folder_of(struct dl_phdr_info *object, size_t bytes, void *context) {
  (void)bytes;
  struct folders *folders = context;
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s", object->dlpi_name) >= (int)sizeof path || path[0] != '/')
    return 0;
  const char *folder = dirname(path);
  if (strcmp(folder, folders->last) != 0)
    fprintf(folders->list, ":%s", folder);
  snprintf(folders->last, sizeof folders->last, "%s", folder);
  return 0;
}

char *loader_library_path(const struct run_spec *spec, const char *before) {
  char *path = NULL;
  size_t bytes;
  struct folders folders = {.list = open_memstream(&path, &bytes)};
  if (!folders.list)
    return NULL;
  for (const char *const *folder = spec->libraries.texts; *folder; folder++)
    fprintf(folders.list, "%s%s", folder == spec->libraries.texts ? "" : ":", *folder);
  if (before[0])
    fprintf(folders.list, ":%s", before);
  dl_iterate_phdr(add_folder_of, &folders);
  return fclose(folders.list) == 0 ? path : NULL;
}

bool loader_has_library(const struct run_spec *spec, const char *library) {
  char path[PATH_MAX];
  struct stat one, other;
  if (snprintf(path, sizeof path, "%s", library) >= (int)sizeof path)
    return false;
  const char *folder = dirname(path);
  for (const char *const *listed = spec->libraries.texts; *listed; listed++)
    if (stat(folder, &one) == 0 && stat(*listed, &other) == 0 && one.st_dev == other.st_dev &&
        one.st_ino == other.st_ino)
      return true;
  return false;
}

/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/elf_file.h"

#include "core/base/os.h"
#include "core/trace/summary.h"

#include <fcntl.h>
#include <gelf.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
  NOTES_MOST = 1 << 16,    /* bytes */
  LIBRARY_MOST = 64 << 20, /* of a C library that is searched for its version */
  CHUNK_BYTES = 1 << 16,
  BANNER_MOST = 256,
};

/* Is that the mapped file? Where layers or volumes are one file system, the kernel's list of mappings has the numbers
   of the file below, and those of the path are others. */
static bool is_mapped(int place, const struct stat *status, const struct proc_mapping *mapping) {
  struct statfs system;
  uint64_t device = (uint64_t)major(status->st_dev) << 32 | minor(status->st_dev);
  if (device == mapping->device && status->st_ino == mapping->inode)
    return true;
  return fstatfs(place, &system) == 0 && (system.f_type == OVERLAYFS_SUPER_MAGIC ||
                                          (system.f_type == BTRFS_SUPER_MAGIC && status->st_ino == mapping->inode));
}

/* The process chooses the path, so a device or a pipe there is found without opening it. */
static int open_mapped(const char *path, const struct proc_mapping *mapping) {
  struct stat status;
  char opened[32];
  int place = open(path, O_PATH | O_CLOEXEC), fd = -1;
  snprintf(opened, sizeof opened, "/proc/self/fd/%d", place);
  if (place >= 0 && fstat(place, &status) == 0 && S_ISREG(status.st_mode) && is_mapped(place, &status, mapping))
    fd = open(opened, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  os_close(place);
  return fd;
}

int elf_file_open(int pid, const struct proc_mapping *mapping) {
  char inside[sizeof mapping->path + 64];
  snprintf(inside, sizeof inside, "/proc/%d/root%s", pid, mapping->path);
  int fd = open_mapped(inside, mapping);
  return fd >= 0 ? fd : open_mapped(mapping->path, mapping);
}

/* notes: NULL where they can't be read. */
static bool find_build_id(Elf_Data *notes, char *id) {
  GElf_Nhdr note;
  size_t name, bytes, next = 0;
  while (notes && (next = gelf_getnote(notes, next, &note, &name, &bytes)) > 0) {
    const char *at = notes->d_buf;
    if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || memcmp(at + name, "GNU", 4) != 0 ||
        note.n_descsz == 0 || note.n_descsz > TRACE_MAX_BUILD_ID_BYTES)
      continue;
    for (uint32_t i = 0; i < note.n_descsz; i++)
      snprintf(id + 2 * (size_t)i, 3, "%02x", (uint8_t)at[bytes + i]);
    return true;
  }
  return false;
}

bool elf_file_build_id(int fd, char *id, uint64_t *first_address) {
  bool found = false, loaded = false;
  size_t count = 0;
  GElf_Phdr header;
  id[0] = '\0';
  *first_address = 0;
  Elf *elf = elf_version(EV_CURRENT) == EV_NONE ? NULL : elf_begin(fd, ELF_C_READ, NULL);
  if (elf_getphdrnum(elf, &count) != 0)
    count = 0;
  for (size_t i = 0; i < count && gelf_getphdr(elf, (int)i, &header); i++) {
    if (header.p_type == PT_LOAD && !loaded) {
      *first_address = header.p_vaddr - header.p_offset;
      loaded = true;
    }
    if (header.p_type == PT_NOTE && !found && header.p_filesz <= NOTES_MOST)
      found = find_build_id(elf_getdata_rawchunk(elf, (int64_t)header.p_offset, header.p_filesz, ELF_T_NHDR), id);
  }
  elf_end(elf);
  return found;
}

/* glibc prints it if it is run: "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36." text: of the
   banner's line, from its begin. */
static bool find_version(const char *text, char *version, size_t bytes) {
  static const char WORDS[] = "release version ";
  const char *words = strstr(text, WORDS), *from = words ? words + sizeof WORDS - 1 : "";
  size_t length = strspn(from, "0123456789.");
  while (length > 0 && from[length - 1] == '.')
    length--;
  if (length == 0 || length >= bytes)
    return false;
  memcpy(version, from, length);
  version[length] = '\0';
  return true;
}

bool elf_file_glibc_version(int fd, char *version, size_t bytes) {
  static const char BANNER[] = "GNU C Library";
  char chunk[CHUNK_BYTES + BANNER_MOST], line[BANNER_MOST + 1];
  version[0] = '\0';
  ssize_t got;
  for (off_t at = 0; at < LIBRARY_MOST && (got = pread(fd, chunk, sizeof chunk, at)) > 0; at += CHUNK_BYTES) {
    const char *banner = memmem(chunk, (size_t)got, BANNER, sizeof BANNER - 1);
    if (!banner)
      continue;
    got = pread(fd, line, BANNER_MOST, at + (banner - chunk));
    line[got > 0 ? got : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return find_version(line, version, bytes);
  }
  return false;
}

/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/elf_file.h"

#include "core/base/os.h"
#include "core/trace/summary.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The process chooses the path, so a device or a pipe there is found without opening it. */
static int open_regular(const char *path) {
  struct stat status;
  char opened[32];
  int place = open(path, O_PATH | O_CLOEXEC), fd = -1;
  snprintf(opened, sizeof opened, "/proc/self/fd/%d", place);
  if (place >= 0 && fstat(place, &status) == 0 && S_ISREG(status.st_mode))
    fd = open(opened, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  os_close(place);
  return fd;
}

int elf_file_open(int pid, const char *path) {
  char inside[4096 + 64];
  snprintf(inside, sizeof inside, "/proc/%d/root%s", pid, path);
  int fd = open_regular(inside);
  return fd >= 0 ? fd : open_regular(path);
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
    if (header.p_type == PT_NOTE && !found)
      found = find_build_id(elf_getdata_rawchunk(elf, (int64_t)header.p_offset, header.p_filesz, ELF_T_NHDR), id);
  }
  elf_end(elf);
  return found;
}

/* glibc prints it if it is run: "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36." */
static bool find_version(const char *data, size_t size, char *version, size_t bytes) {
  static const char BANNER[] = "GNU C Library", WORDS[] = "release version ";
  const char *banner = memmem(data, size, BANNER, sizeof BANNER - 1), *end = data + size;
  const char *line_end = banner ? memchr(banner, '\n', (size_t)(end - banner)) : NULL;
  const char *words = line_end ? memmem(banner, (size_t)(line_end - banner), WORDS, sizeof WORDS - 1) : NULL;
  if (!words)
    return false;
  const char *from = words + sizeof WORDS - 1;
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
  struct stat file;
  version[0] = '\0';
  if (fstat(fd, &file) != 0 || file.st_size <= 0)
    return false;
  void *data = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED)
    return false;
  bool found = find_version(data, (size_t)file.st_size, version, bytes);
  munmap(data, (size_t)file.st_size);
  return found;
}

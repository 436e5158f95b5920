/* SPDX-License-Identifier: MIT */
#include "core/elf/elf_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_descriptor(const void *fd, uint64_t at, void *to, size_t bytes) {
  return at <= INT64_MAX && pread(*(const int *)fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

struct elf_memory elf_descriptor(const int *fd) {
  return (struct elf_memory){.read = read_descriptor, .context = fd};
}

bool elf_map(int fd, struct elf_memory *memory) {
  struct stat about;
  void *bytes = MAP_FAILED;
  if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0)
    bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  *memory = (struct elf_memory){.size = 0};
  if (bytes != MAP_FAILED)
    *memory = (struct elf_memory){.bytes = bytes, .size = (uint64_t)about.st_size};
  return memory->bytes;
}

void elf_unmap(const struct elf_memory *memory) {
  if (memory->bytes)
    munmap((void *)(uintptr_t)memory->bytes, memory->size);
}

void elf_build_id_text(const uint8_t *id, uint32_t bytes, char text[ELF_BUILD_ID_TEXT]) {
  text[0] = '\0';
  for (uint32_t i = 0; i < bytes && i < ELF_BUILD_ID_MOST; i++)
    snprintf(text + 2 * (size_t)i, 3, "%02x", id[i]);
}

bool elf_file_build_id(int fd, const struct elf_file *file, char text[ELF_BUILD_ID_TEXT]) {
  enum { NOTES_MOST = 1 << 16 };
  text[0] = '\0';
  for (size_t i = 0; i < file->segments.count && !text[0]; i++) {
    const Elf64_Phdr *segment = &file->segment[i];
    uint8_t notes[NOTES_MOST];
    uint32_t bytes;
    if (segment->p_type != PT_NOTE || segment->p_filesz > NOTES_MOST ||
        !read_descriptor(&fd, segment->p_offset, notes, segment->p_filesz))
      continue;
    const uint8_t *id = elf_build_id(notes, segment->p_filesz, &bytes);
    if (id)
      elf_build_id_text(id, bytes, text);
  }
  return text[0];
}

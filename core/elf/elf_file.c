/* SPDX-License-Identifier: MIT */
#include "core/elf/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
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

static struct mapped {
  _Atomic uintptr_t from;
  _Atomic size_t bytes; /* 0: free */
} mapped[16];
enum { MAPPED = sizeof mapped / sizeof *mapped };

/* A fault outside of mapped files is taken again, by default. */
static void read_zeroes(int number, siginfo_t *about, void *context) {
  (void)context;
  int saved_errno = errno;
  uintptr_t address = (uintptr_t)about->si_addr, page = (uintptr_t)sysconf(_SC_PAGESIZE);
  bool known = false;
  for (int i = 0; i < MAPPED; i++)
    known |= address - mapped[i].from < mapped[i].bytes;
  void *at = (void *)(address & ~(page - 1));
  if (!known || mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
    signal(number, SIG_DFL);
  errno = saved_errno;
}

void elf_guard(void) {
  struct sigaction action = {.sa_sigaction = read_zeroes, .sa_flags = SA_SIGINFO};
  sigaction(SIGBUS, &action, NULL);
}

static void note_mapped(const struct elf_memory *memory) {
  for (int i = 0; i < MAPPED; i++) {
    size_t free_place = 0;
    if (!atomic_compare_exchange_strong(&mapped[i].bytes, &free_place, 1))
      continue;
    mapped[i].from = (uintptr_t)memory->bytes;
    mapped[i].bytes = memory->size;
    return;
  }
}

static void forget_mapped(const struct elf_memory *memory) {
  for (int i = 0; i < MAPPED; i++)
    if (mapped[i].from == (uintptr_t)memory->bytes && mapped[i].bytes == memory->size)
      mapped[i].bytes = 0;
}

bool elf_map(int fd, struct elf_memory *memory) {
  struct stat about;
  void *bytes = MAP_FAILED;
  if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0)
    bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  *memory = (struct elf_memory){.size = 0};
  if (bytes != MAP_FAILED)
    *memory = (struct elf_memory){.bytes = bytes, .size = (uint64_t)about.st_size};
  if (memory->bytes)
    note_mapped(memory);
  return memory->bytes;
}

void elf_unmap(const struct elf_memory *memory) {
  if (!memory->bytes)
    return;
  forget_mapped(memory);
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

void program_file_read(int fd, struct program_file *file) {
  struct elf_memory memory = elf_descriptor(&fd);
  struct elf_file elf;
  *file = (struct program_file){PROGRAM_FOR_US, ""};
  if (!elf_file_read(&memory, &elf) || elf.header.e_machine != ELF_OWN_MACHINE) {
    file->kind = PROGRAM_OF_OTHER_MACHINE;
    return;
  }
  const Elf64_Phdr *loader = elf_segment(&elf.segments, PT_INTERP);
  if (loader && pread(fd, file->loader, sizeof file->loader - 1, (off_t)loader->p_offset) <= 0)
    file->kind = PROGRAM_DAMAGED;
  if (elf.segments.count < elf.header.e_phnum && elf.segments.count < ELF_SEGMENTS_MOST)
    file->kind = PROGRAM_DAMAGED;
}

/* SPDX-License-Identifier: MIT */
/* ELF files as memory that core/elf/elf.h reads: read by a descriptor, or mapped. Not for use inside the host. */
#pragma once

#include "core/elf/elf.h"

/* The file of a descriptor, which is read, so that it does no harm if the file becomes shorter meanwhile. *fd must
   stay. */
struct elf_memory elf_descriptor(const int *fd);

/* Once for a program whose mapped files may become shorter, as others write them: from then on zeroes are read there,
   which would else be SIGBUS. */
void elf_guard(void);

/* Maps a regular file. At most 16 at a time are guarded. False: it can't be. */
bool elf_map(int fd, struct elf_memory *memory);
void elf_unmap(const struct elf_memory *memory);

enum { ELF_BUILD_ID_TEXT = 2 * ELF_BUILD_ID_MOST + 1 };

/* Writes the id as hexadecimal digits. */
void elf_build_id_text(const uint8_t *id, uint32_t bytes, char text[ELF_BUILD_ID_TEXT]);

/* The file's build id as such digits. False: it has none; the text is empty. */
bool elf_file_build_id(int fd, const struct elf_file *file, char text[ELF_BUILD_ID_TEXT]);

/* What the file of a program says. */
struct program_file {
  enum { PROGRAM_FOR_US, PROGRAM_OF_OTHER_MACHINE, PROGRAM_DAMAGED } kind;
  char loader[256]; /* path of its dynamic loader, and what follows in the file; empty: it names none */
};
void program_file_read(int fd, struct program_file *file);

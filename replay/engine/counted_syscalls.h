/* SPDX-License-Identifier: MIT */
/* The system calls of an allocator under test that are counted: each of them waits for the parent, which counts it
   (replay/parent/syscalls.h). */
#pragma once

#include <sys/syscall.h>

#define COUNTED_SYSCALLS_EACH(CALL)                                                                                    \
  CALL(MMAP, mmap) CALL(MUNMAP, munmap) CALL(MREMAP, mremap) CALL(MADVISE, madvise) CALL(BRK, brk)

#define COUNTED_SYSCALL_IDENT(ident, name) SYSCALL_##ident,
#define COUNTED_SYSCALL_NUMBER(ident, name) SYS_##name,
enum counted_syscall { COUNTED_SYSCALLS_EACH(COUNTED_SYSCALL_IDENT) COUNTED_SYSCALLS };

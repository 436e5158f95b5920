/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/syscalls.h"

#include <pub_tool_libcbase.h>
#include <pub_tool_vki.h>
#include <pub_tool_vkiscnums.h>

enum kind { KIND_MMAP, KIND_MUNMAP, KIND_BRK, KIND_MADVISE, KIND_MPROTECT, KIND_MREMAP, KIND_FUTEX, KIND_OTHER, KINDS };

static const HChar *const kind_names[KINDS] = {"mmap",     "munmap", "brk",   "madvise",
                                               "mprotect", "mremap", "futex", "other"};

enum { SIDES = 4, ADVICE_DONTNEED = 4, ADVICE_REMOVE = 9, ADVICE_DONTNEED_LOCKED = 24 };

static ULong calls[SIDES][KINDS];

static enum kind kind_of(UInt number) {
  switch (number) {
  case __NR_mmap:
    return KIND_MMAP;
  case __NR_munmap:
    return KIND_MUNMAP;
  case __NR_brk:
    return KIND_BRK;
  case __NR_madvise:
    return KIND_MADVISE;
  case __NR_mprotect:
    return KIND_MPROTECT;
  case __NR_mremap:
    return KIND_MREMAP;
  case __NR_futex:
    return KIND_FUTEX;
  default:
    return KIND_OTHER;
  }
}

void syscalls_count(UInt number, UInt side) {
  calls[side][kind_of(number)]++;
}

void syscalls_reset(void) {
  VG_(memset)(calls, 0, sizeof calls);
}

void syscalls_write(VgFile *file, Int side) {
  ULong by_kind[KINDS], all = 0;
  for (UInt kind = 0; kind < KINDS; kind++) {
    by_kind[kind] = side < 0 ? calls[0][kind] + calls[1][kind] : calls[side][kind];
    all += by_kind[kind];
  }
  VG_(fprintf)(file, "\"syscalls\": %llu, \"syscalls_by_kind\": {", all);
  for (UInt kind = 0; kind < KINDS; kind++)
    VG_(fprintf)(file, "%s\"%s\": %llu", kind ? ", " : "", kind_names[kind], by_kind[kind]);
  VG_(fprintf)(file, "}");
}

Bool syscalls_gives_back(UInt number, const UWord *arguments) {
  UWord advice = arguments[2];
  return number == __NR_madvise &&
         (advice == ADVICE_DONTNEED || advice == ADVICE_REMOVE || advice == ADVICE_DONTNEED_LOCKED);
}

Bool syscalls_is_exec(UInt number) {
  return number == __NR_execve || number == __NR_execveat;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/common/syscalls.h"

#include <pub_tool_libcbase.h>
#include <pub_tool_vki.h>
#include <pub_tool_vkiscnums.h>

/* The last is all others. */
static const struct {
  UInt number;
  const HChar *name;
} kinds[] = {{__NR_mmap, "mmap"},         {__NR_munmap, "munmap"}, {__NR_brk, "brk"},     {__NR_madvise, "madvise"},
             {__NR_mprotect, "mprotect"}, {__NR_mremap, "mremap"}, {__NR_futex, "futex"}, {0, "other"}};

enum {
  KINDS = sizeof kinds / sizeof *kinds,
  SIDES = 4,
  ADVICE_DONTNEED = 4,
  ADVICE_REMOVE = 9,
  ADVICE_DONTNEED_LOCKED = 24
};

static ULong calls[SIDES][KINDS];

void syscalls_count(UInt number, UInt side) {
  UInt kind = 0;
  while (kind < KINDS - 1 && kinds[kind].number != number)
    kind++;
  calls[side][kind]++;
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
    VG_(fprintf)(file, "%s\"%s\": %llu", kind ? ", " : "", kinds[kind].name, by_kind[kind]);
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

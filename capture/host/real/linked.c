/* SPDX-License-Identifier: MIT */
#include "capture/host/real/linked.h"

#include "capture/host/real/real.h"

#include <link.h>
#include <stddef.h>
#include <sys/mman.h>

static struct linked_function functions[LINKED_MOST];

struct executable {
  uintptr_t bias, from, to;
};

/* The first object that the dynamic linker lists. */
static int find_executable(struct dl_phdr_info *info, size_t bytes, void *context) {
  struct executable *executable = context;
  (void)bytes;
  *executable = (struct executable){.bias = info->dlpi_addr, .from = UINTPTR_MAX};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + header->p_vaddr, end = start + header->p_memsz;
    if (header->p_type != PT_LOAD)
      continue;
    executable->from = start < executable->from ? start : executable->from;
    executable->to = end > executable->to ? end : executable->to;
  }
  return 1;
}

#if defined(__x86_64__)
/* Below the executable, as the heap grows above it. */
static void *map_below(uintptr_t address) {
  enum { STEP = 1 << 20, STEPS = 1024, LOWEST = 1 << 16 };
  uintptr_t step = address < 4 * STEP ? LINKED_ROOM_BYTES : STEP;
  for (int i = 1; i <= STEPS && address > i * step + LOWEST; i++) {
    void *wanted = (void *)((address - i * step) & ~(uintptr_t)(LINKED_ROOM_BYTES - 1));
    void *memory = mmap(wanted, LINKED_ROOM_BYTES, PROT_READ | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == wanted)
      return memory;
    if (memory != MAP_FAILED) /* a kernel that does not know the flag */
      munmap(memory, LINKED_ROOM_BYTES);
  }
  return NULL;
}
#endif

void linked_offer(struct linked_place *place) {
  *place = (struct linked_place){.table = (uintptr_t)functions};
#if defined(__x86_64__)
  struct executable executable = {0};
  place->hook = (uintptr_t)linked_hook;
  if (dl_iterate_phdr(find_executable, &executable) != 1 || executable.from >= executable.to)
    return;
  place->bias = executable.bias;
  place->room = (uintptr_t)map_below(executable.from);
#endif
}

void linked_take(const struct linked_place *place, const struct linked_done *done) {
  struct executable executable = {0};
  if (done->functions && dl_iterate_phdr(find_executable, &executable) == 1)
    real_add_allocator((struct real_range){executable.from, executable.to},
                       (struct real_range){done->code_from, done->code_to});
  else if (place->room)
    munmap((void *)place->room, LINKED_ROOM_BYTES);
}

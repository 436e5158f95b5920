/* SPDX-License-Identifier: MIT */
/* An executable with an allocator, as the host sees it: what it gives the collector, and which functions of it are
   redirected (real.h). */
#include "capture/host/real/real.h"
#include "capture/linked/hooks/linked_hooks.h"
#include "core/elf/elf.h"

#include <stdatomic.h>
#include <sys/mman.h>

static struct linked_function functions[LINKED_MOST];
/* The table of the redirected functions: ours, or where the recorder of a running program has put it. */
static const struct linked_function *redirected;
static uint32_t redirected_entries;

struct image {
  uintptr_t bias;
  struct elf_extent extent;
};

/* The first object that the dynamic linker lists. */
static int find_executable(struct dl_phdr_info *info, size_t bytes, void *context) {
  (void)bytes;
  const struct elf_segments segments = {info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr};
  *(struct image *)context = (struct image){info->dlpi_addr, elf_extent(&segments)};
  return 1;
}

#if defined(__x86_64__)
/* Below the executable, as the heap grows above it. */
static void *map_below(uintptr_t address) {
  enum { STEP = 1 << 20, STEPS = 1024, LOWEST = 1 << 16 };
  uintptr_t step = address < 4 * STEP ? LINKED_ROOM_BYTES : STEP;
  for (int i = 1; i <= STEPS && address > i * step + LOWEST; i++) {
    void *hint = (void *)((address - i * step) & ~(uintptr_t)(LINKED_ROOM_BYTES - 1));
    void *memory = mmap(hint, LINKED_ROOM_BYTES, PROT_READ | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == hint)
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
  struct image image = {0};
  linked_list_hooks(place->hook);
  if (dl_iterate_phdr(find_executable, &image) != 1 || image.extent.from >= image.extent.to)
    return;
  place->bias = image.bias;
  place->room = (uintptr_t)map_below(image.extent.from);
#endif
}

void linked_take(const struct linked_place *place, const struct linked_done *done) {
  struct image image = {0};
  if (!done->functions || dl_iterate_phdr(find_executable, &image) != 1) {
    if (place->room)
      munmap((void *)place->room, LINKED_ROOM_BYTES);
    return;
  }
  linked_use(functions, done->entries);
  real_add_executable(image.extent.from, image.extent.to);
}

void linked_use(const struct linked_function *table, uint32_t entries) {
  redirected = table;
  redirected_entries = entries;
}

/* Most calls come from the same few operators. */
bool linked_is_function(const void *address) {
  static _Atomic uint32_t last;
  uint32_t first = atomic_load_explicit(&last, memory_order_relaxed);
  first = first < redirected_entries ? first : 0;
  for (uint32_t i = 0, at = first; i < redirected_entries; i++, at = at + 1 < redirected_entries ? at + 1 : 0)
    if ((uintptr_t)address - redirected[at].code - 1 < redirected[at].code_bytes) {
      atomic_store_explicit(&last, at, memory_order_relaxed);
      return true;
    }
  return false;
}

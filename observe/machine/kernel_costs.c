/* SPDX-License-Identifier: MIT */
#include "observe/machine/kernel_costs.h"

#include "observe/machine/samples.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OS_PAGE_BYTES = 4096, TOUCHED_PAGES = 512, CALLS = 128, MAPPING_BYTES = 64 << 10, BREAK_BYTES = 128 << 10 };

static double ns_each(uint64_t begin_ns, uint64_t end_ns, unsigned count) {
  return (double)(end_ns - begin_ns) / count;
}

static void *map(size_t bytes) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void touch(char *memory) {
  for (size_t page = 0; page < TOUCHED_PAGES; page++)
    ((volatile char *)memory)[page * OS_PAGE_BYTES] = 1;
}

static int sample_faults(struct kernel_costs *costs) {
  size_t bytes = (size_t)TOUCHED_PAGES * OS_PAGE_BYTES;
  char *memory = map(bytes);
  if (memory == MAP_FAILED)
    return -1;
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  uint64_t begin = samples_cpu_ns();
  touch(memory);
  uint64_t touched = samples_cpu_ns();
  int failed = 0;
  for (size_t page = 0; page < CALLS; page++)
    failed |= madvise(memory + page * OS_PAGE_BYTES, OS_PAGE_BYTES, MADV_DONTNEED);
  uint64_t advised = samples_cpu_ns();
  failed |= munmap(memory, bytes);
  uint64_t unmapped = samples_cpu_ns();
  costs->first_touch_ns = ns_each(begin, touched, TOUCHED_PAGES);
  costs->madvise_ns = ns_each(touched, advised, CALLS);
  costs->unmapped_page_ns = ns_each(advised, unmapped, TOUCHED_PAGES - CALLS);
  return failed;
}

static int sample_mappings(struct kernel_costs *costs) {
  char *memory[CALLS];
  int failed = 0;
  uint64_t begin = samples_cpu_ns();
  for (size_t index = 0; index < CALLS; index++)
    failed |= (memory[index] = map(MAPPING_BYTES)) == MAP_FAILED;
  uint64_t mapped = samples_cpu_ns();
  if (failed)
    return -1;
  for (size_t index = 0; index < CALLS; index++) {
    char *moved = mremap(memory[index], MAPPING_BYTES, (size_t)2 * MAPPING_BYTES, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED)
      return -1;
    memory[index] = moved;
  }
  uint64_t remapped = samples_cpu_ns();
  for (size_t index = 0; index < CALLS; index++)
    failed |= munmap(memory[index], (size_t)2 * MAPPING_BYTES);
  uint64_t unmapped = samples_cpu_ns();
  costs->mmap_ns = ns_each(begin, mapped, CALLS);
  costs->mremap_ns = ns_each(mapped, remapped, CALLS);
  costs->munmap_ns = ns_each(remapped, unmapped, CALLS);
  return failed;
}

static int sample_calls(struct kernel_costs *costs) {
  uint64_t begin = samples_cpu_ns();
  for (unsigned call = 0; call < CALLS; call++)
    syscall(SYS_getppid);
  uint64_t asked = samples_cpu_ns();
  for (unsigned call = 0; call < CALLS; call++)
    if (sbrk(call < CALLS / 2 ? BREAK_BYTES : -BREAK_BYTES) == (void *)-1)
      return -1;
  uint64_t moved = samples_cpu_ns();
  costs->getppid_ns = ns_each(begin, asked, CALLS);
  costs->brk_ns = ns_each(asked, moved, CALLS);
  return 0;
}

int kernel_costs_sample(struct kernel_costs *costs) {
  return sample_faults(costs) || sample_mappings(costs) || sample_calls(costs) ? -1 : 0;
}

/* SPDX-License-Identifier: MIT */
#include "replay/engine/file_pages.h"

#include "core/base/os.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14; older headers lack the name */
#define MADV_POPULATE_READ 22
#endif

/* Before Linux 5.14: reads each page. The segment is readable and within the file, or the program could not run. */
static void read_each(const volatile uint8_t *first, size_t bytes, size_t page_bytes) {
  for (size_t offset = 0; offset < bytes; offset += page_bytes)
    (void)first[offset];
}

static int fault_in_object(struct dl_phdr_info *object, size_t bytes, void *unused) {
  (void)bytes;
  (void)unused;
  uintptr_t page_bytes = os_page_bytes();
  for (int index = 0; index < object->dlpi_phnum; index++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[index];
    if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_R) || segment->p_filesz == 0)
      continue;
    uintptr_t first = (object->dlpi_addr + segment->p_vaddr) & ~(page_bytes - 1);
    uintptr_t end = object->dlpi_addr + segment->p_vaddr + segment->p_filesz; /* memory behind it is anonymous */
    size_t whole = (end - first + page_bytes - 1) & ~(page_bytes - 1);
    if (madvise((void *)first, whole, MADV_POPULATE_READ) != 0)
      read_each((const uint8_t *)first, end - first, page_bytes);
  }
  return 0;
}

void file_pages_fault_in(void) {
  dl_iterate_phdr(fault_in_object, NULL);
}

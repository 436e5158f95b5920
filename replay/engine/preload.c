/* SPDX-License-Identifier: MIT */
#include "replay/engine/preload.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

static bool same_library(const char *loaded, const char *asked, size_t length) {
  if (strlen(loaded) == length && memcmp(loaded, asked, length) == 0)
    return true;
  const char *base = strrchr(loaded, '/'); /* a bare name is searched for */
  return base && !memchr(asked, '/', length) && strlen(base + 1) == length && memcmp(base + 1, asked, length) == 0;
}

/* LD_PRELOAD without valgrind's own entry, which it puts in front: entries are numbered as the parent passed them. */
static const char *asked_for(void) {
  const char *asked = getenv("LD_PRELOAD");
  while (asked && *asked) {
    size_t length = strcspn(asked, ": ");
    if (!memmem(asked, length, "/vgpreload_", strlen("/vgpreload_")))
      break;
    asked += length + (asked[length] != '\0');
  }
  return asked;
}

static int visit_object(struct dl_phdr_info *about, size_t size, void *context) {
  (void)size;
  struct replay_result *result = context;
  if (about->dlpi_addr && about->dlpi_addr == getauxval(AT_BASE)) {
    result->linker_first = about->dlpi_addr;
    for (int index = 0; index < about->dlpi_phnum; index++) {
      const ElfW(Phdr) *part = &about->dlpi_phdr[index];
      uint64_t last = about->dlpi_addr + part->p_vaddr + part->p_memsz;
      if (part->p_type == PT_LOAD && last > result->linker_last)
        result->linker_last = last;
    }
  }
  const char *asked = asked_for();
  for (unsigned index = 0; asked && *asked && index < PRELOAD_LIMIT; index++) {
    size_t length = strcspn(asked, ": ");
    if (same_library(about->dlpi_name, asked, length))
      result->preloads_missing &= ~((uint64_t)1 << index);
    asked += length + (asked[length] != '\0');
  }
  return 0;
}

void preload_report(struct replay_result *result) {
  const char *asked = asked_for();
  for (unsigned index = 0; asked && *asked && index < PRELOAD_LIMIT; index++) {
    size_t length = strcspn(asked, ": ");
    if (length > 0)
      result->preloads_missing |= (uint64_t)1 << index;
    asked += length + (asked[length] != '\0');
  }
  dl_iterate_phdr(visit_object, result);
}

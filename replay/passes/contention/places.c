/* SPDX-License-Identifier: MIT */
#include "replay/passes/contention/places.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <unistd.h>

/* glibc's struct malloc_state: its lock is first; its bins are heads of rings, each as if it were a chunk 16 bytes
   further down, and an empty one points to itself. This holds since 2.27, on 64 bits. */
enum { ARENA_FIRST_BIN = 112, ARENA_BINS = 127, ARENA_BYTES = ARENA_FIRST_BIN + 16 * ARENA_BINS, FEWEST_EMPTY = 16 };

static int add_object(struct dl_phdr_info *about, size_t size, void *context) {
  (void)size;
  struct contention *contention = context;
  if (contention->object_count == LOADED_OBJECTS)
    return 1;
  struct loaded_object *object = &contention->objects[contention->object_count++];
  *object = (struct loaded_object){.first = UINT64_MAX, .bias = about->dlpi_addr};
  for (int index = 0; index < about->dlpi_phnum; index++) {
    const ElfW(Phdr) *part = &about->dlpi_phdr[index];
    uint64_t first = about->dlpi_addr + part->p_vaddr, last = first + part->p_memsz;
    if (part->p_type != PT_LOAD)
      continue;
    object->first = first < object->first ? first : object->first;
    object->last = last > object->last ? last : object->last;
  }
  if (about->dlpi_name[0])
    snprintf(object->path, sizeof object->path, "%s", about->dlpi_name);
  else if (readlink("/proc/self/exe", object->path, sizeof object->path - 1) < 0)
    object->path[0] = '\0';
  return 0;
}

/* memory: a file, as a lock's memory may be gone. */
static bool is_arena(int memory, uint64_t address) {
  uint64_t words[ARENA_BYTES / sizeof(uint64_t)];
  if (address % sizeof *words != 0 || pread(memory, words, sizeof words, (off_t)address) != sizeof words)
    return false;
  unsigned empty = 0;
  for (unsigned bin = 0; bin < ARENA_BINS; bin++) {
    const uint64_t *ends = &words[ARENA_FIRST_BIN / sizeof *words + 2 * (uint64_t)bin];
    uint64_t itself = address + ARENA_FIRST_BIN + 16 * (uint64_t)bin - 16;
    if (ends[0] == 0 || ends[1] == 0 || (ends[0] == itself) != (ends[1] == itself))
      return false;
    empty += ends[0] == itself;
  }
  return empty >= FEWEST_EMPTY;
}

static bool known(const struct contention *contention, uint64_t address) {
  for (uint32_t index = 0; index < contention->arena_count; index++)
    if (contention->arenas[index] == address)
      return true;
  return false;
}

static void find_arenas(struct contention *contention, int memory) {
  for (unsigned index = 0; index < WAIT_ROWS; index++) {
    uint64_t key = contention->rows[index].key, address = wait_key_address(key);
    if (key == 0 || wait_key_kind(key) != WAIT_FUTEX || contention->arena_count == ARENAS_LIMIT ||
        known(contention, address))
      continue;
    if (is_arena(memory, address))
      contention->arenas[contention->arena_count++] = address;
  }
}

void places_find(struct contention *contention) {
  dl_iterate_phdr(add_object, contention);
  int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (memory < 0)
    return;
  find_arenas(contention, memory);
  close(memory);
}

/* SPDX-License-Identifier: MIT */
#include "replay/engine/loaded.h"

#include "core/base/os.h"
#include "core/system/allocator_settings.h"
#include "core/trace/event.h"
#include "replay/calls/call.h"
#include "replay/engine/state.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Replaces the C library's function for all loaded objects: the links that jemalloc reads settings from are not there,
   as no label of a run tells them. */
__attribute__((visibility("default"))) ssize_t readlink(const char *restrict path, char *restrict text, size_t bytes) {
  for (size_t i = 0; i < JEMALLOC_SETTINGS; i++)
    if (strcmp(path, jemalloc_settings[i].link) == 0) {
      errno = ENOENT;
      return -1;
    }
  return syscall(SYS_readlinkat, AT_FDCWD, path, text, bytes);
}

static bool same_library(const char *loaded, const char *requested, size_t length) {
  if (strlen(loaded) == length && memcmp(loaded, requested, length) == 0)
    return true;
  const char *base = strrchr(loaded, '/'); /* a bare name is searched for */
  return base && !memchr(requested, '/', length) && strlen(base + 1) == length &&
         memcmp(base + 1, requested, length) == 0;
}

/* LD_PRELOAD without valgrind's own entry, which it puts in front: entries are numbered as the parent passed them. */
static const char *requested_preloads(void) {
  const char *requested = getenv("LD_PRELOAD");
  while (requested && *requested) {
    size_t length = strcspn(requested, ": ");
    if (!memmem(requested, length, "/vgpreload_", strlen("/vgpreload_")))
      break;
    requested += length + (requested[length] != '\0');
  }
  return requested;
}

static int visit_object(struct dl_phdr_info *about, size_t size, void *context) {
  (void)size;
  struct replay_result *result = context;
  if (about->dlpi_addr && about->dlpi_addr == getauxval(AT_BASE)) {
    const struct elf_segments segments = {about->dlpi_phdr, about->dlpi_phnum, about->dlpi_addr};
    result->linker_first = about->dlpi_addr;
    result->linker_last = elf_extent(&segments).to;
  }
  const char *requested = requested_preloads();
  for (unsigned index = 0; requested && *requested && index < PRELOAD_LIMIT; index++) {
    size_t length = strcspn(requested, ": ");
    if (same_library(about->dlpi_name, requested, length))
      result->preloads_missing &= ~((uint64_t)1 << index);
    requested += length + (requested[length] != '\0');
  }
  return 0;
}

void preload_report(struct replay_result *result) {
  const char *requested = requested_preloads();
  for (unsigned index = 0; requested && *requested && index < PRELOAD_LIMIT; index++) {
    size_t length = strcspn(requested, ": ");
    if (length > 0)
      result->preloads_missing |= (uint64_t)1 << index;
    requested += length + (requested[length] != '\0');
  }
  dl_iterate_phdr(visit_object, result);
}

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

/* Fills in the build id, if the object is the one at that address. */
static int find_build_id(struct dl_phdr_info *object, size_t bytes, void *context) {
  (void)bytes;
  struct malloc_library *library = context;
  Dl_info about;
  if (!dladdr((void *)allocator.malloc, &about) || (uintptr_t)about.dli_fbase != object->dlpi_addr)
    return 0;
  const struct elf_segments segments = {object->dlpi_phdr, object->dlpi_phnum, object->dlpi_addr};
  uint32_t id_bytes;
  const uint8_t *id = elf_loaded_build_id(&segments, &id_bytes);
  if (id && 2 * id_bytes < sizeof library->build_id)
    elf_build_id_text(id, id_bytes, library->build_id);
  return 1;
}

void malloc_library_report(struct malloc_library *library) {
  Dl_info about;
  if (!dladdr((void *)allocator.malloc, &about) || !about.dli_fname)
    return;
  snprintf(library->path, sizeof library->path, "%s", about.dli_fname);
  dl_iterate_phdr(find_build_id, library);
}

static bool lacks_any(void) {
  bool any = false;
  for (unsigned byte = 0; byte < 256; byte++)
    any |= call_lacks((uint8_t)byte);
  return any;
}

/* What the allocator lacks, as a text: all of it, so that nobody adds one function at a time. */
struct lacking {
  char text[350];
  size_t length;
  bool listed[CALL_LIMIT];
};

__attribute__((format(printf, 2, 3))) static void lacking_add(struct lacking *lacking, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t room = sizeof lacking->text - lacking->length;
  int added = vsnprintf(lacking->text + lacking->length, room, format, arguments);
  va_end(arguments);
  lacking->length += (size_t)added < room ? (size_t)added : room - 1;
}

/* Lists the functions of which one is needed: the call's own and its substitutes. */
static void list_functions(struct lacking *lacking, uint8_t id, uint64_t op, uint32_t thread) {
  lacking_add(lacking, "%s%s", lacking->length ? "; " : "", call_table[id].name);
  uint8_t before = id, next = call_substitute(id);
  for (int step = 0; step < MOST_SUBSTITUTES && next != before && next != id; step++) {
    lacking_add(lacking, " or %s", call_table[next].name);
    before = next;
    next = call_substitute(next);
  }
  lacking_add(lacking, " (op %" PRIu64 " of thread %" PRIu32 ")", op, thread);
}

static void check_stream(struct lacking *lacking, uint32_t thread) {
  struct workload_stream stream;
  workload_stream_open(&stream, &engine.workload, thread);
  uint64_t op = 0, word;
  bool isolated = false; /* the next op is in the isolated heap */
  while (workload_stream_next(&stream, &word)) {
    uint8_t code = word_code(word);
    if (code == WORD_REGION)
      isolated = true;
    if (code >= WORD_REGION)
      continue;
    uint8_t id = code & CALL_ID_MASK;
    if (!isolated && call_lacks(code) && !lacking->listed[id]) {
      lacking->listed[id] = true;
      list_functions(lacking, id, op, thread);
    }
    isolated = false;
    op++;
  }
}

void entry_points_require(void) {
  struct lacking lacking = {.length = 0};
  if (!allocator.free) {
    lacking_add(&lacking, "free");
    lacking.listed[CALL_free] = true;
  }
  for (uint32_t thread = 0; lacks_any() && thread < engine.workload.header.threads; thread++)
    check_stream(&lacking, thread);
  if (lacking.length)
    engine_fail(NULL, "%s lacks functions that the workload calls: %s",
                engine.result->malloc.path[0] ? engine.result->malloc.path : "the allocator", lacking.text);
}

/* As in allocators/common/allocator.h; replay/ includes nothing of allocators/. */
struct allocator_stat {
  const char *name;
  uint64_t value;
};
/* Weak, not dlsym: a failing dlsym calls malloc for its message. */
extern size_t heaptape_allocator_stats(struct allocator_stat *stats, size_t limit)
    __attribute__((weak, visibility("default")));

void allocator_stats_read(struct allocator_stats *stats) {
  stats->count = 0;
  if (!heaptape_allocator_stats)
    return;
  struct allocator_stat read[ALLOCATOR_STATS];
  size_t count = heaptape_allocator_stats(read, ALLOCATOR_STATS);
  stats->count = (uint32_t)(count < ALLOCATOR_STATS ? count : ALLOCATOR_STATS);
  for (uint32_t index = 0; index < stats->count; index++) {
    strncpy(stats->stats[index].name, read[index].name, ALLOCATOR_STAT_NAME_BYTES - 1);
    stats->stats[index].value = read[index].value;
  }
}

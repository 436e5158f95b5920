/* SPDX-License-Identifier: MIT */
#include "capture/recorder/redirect/linked.h"

#include "capture/recorder/redirect/entry_patch.h"
#include "capture/recorder/redirect/linked_functions.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A redirection that is being made. */
struct work {
  const struct linked_place *place;
  struct linked_result *result;
  struct linked_functions functions;
  Elf *elf;
  int memory; /* /proc/PID/mem */
  size_t count;
  struct entry_patch *patch; /* one per function found, as the following */
  const char **why;          /* NULL: it can be redirected */
  bool given_up[LINKED_FAMILIES_MOST];
};

static void __attribute__((format(printf, 2, 3))) complain(struct linked_result *result, const char *format, ...) {
  size_t used = strlen(result->complaint);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(result->complaint + used, sizeof result->complaint - used, format, arguments);
  va_end(arguments);
}

static bool read_at(int fd, void *bytes, size_t count, uint64_t address) {
  return pread(fd, bytes, count, (off_t)address) == (ssize_t)count;
}

static bool write_at(int fd, const void *bytes, size_t count, uint64_t address) {
  return pwrite(fd, bytes, count, (off_t)address) == (ssize_t)count;
}

/* The bytes at an address of the file's; NULL: they are not all in it. */
static const char *in_file(Elf *elf, uint64_t address, uint64_t bytes) {
  size_t file_bytes, headers;
  const char *file = elf_rawfile(elf, &file_bytes);
  for (size_t i = 0; file && elf_getphdrnum(elf, &headers) == 0 && i < headers; i++) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_LOAD && address >= header.p_vaddr &&
        address - header.p_vaddr < header.p_filesz && bytes <= header.p_filesz - (address - header.p_vaddr) &&
        header.p_offset <= file_bytes && header.p_filesz <= file_bytes - header.p_offset)
      return file + header.p_offset + (address - header.p_vaddr);
  }
  return NULL;
}

/* Returns why it can't be redirected, or NULL. */
static const char *make_patch(const struct work *work, size_t number) {
  enum { MOST = 1 << 16, ALIGN = 16 };
  const struct linked_found *found = &work->functions.found.at[number];
  if (found->chosen_at_run_time)
    return "is chosen when the program runs";
  if (found->bytes == 0 || found->bytes > MOST)
    return "has no size that could be true";
  uint64_t address = work->place->bias + found->address;
  size_t known = (size_t)(((address + found->bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1)) - address);
  uint8_t *code = malloc(known);
  const char *why = "can't be read", *expected = in_file(work->elf, found->address, found->bytes);
  if (!code || !expected || !read_at(work->memory, code, known, address)) {
    /* nothing is known of it */
  } else if (memcmp(code, expected, found->bytes) !=
             0) { /* started by ld.so, which is /proc/PID/exe then; or patched */
    why = "is not in memory as it is in the file";
  } else {
    struct entry_function function = {address, code, found->bytes, known};
    struct entry_target target = {.room = work->place->room + number * ENTRY_ROOM_BYTES,
                                  .hook = work->place->hook[found->means.kind],
                                  .has_argument = true,
                                  .argument = work->place->table + number * sizeof(struct linked_function)};
    why = entry_patch_make(&function, &target, &work->patch[number]);
  }
  free(code);
  return why;
}

/* From anywhere in the executable, by the bytes of its file. */
static bool find_jumps(struct work *work) {
  size_t file_bytes, headers;
  const char *file = elf_rawfile(work->elf, &file_bytes);
  bool *jumped_into = calloc(work->count, sizeof *jumped_into);
  bool known = file && jumped_into && elf_getphdrnum(work->elf, &headers) == 0;
  for (size_t i = 0; known && i < headers; i++) {
    GElf_Phdr header;
    if (!gelf_getphdr(work->elf, (int)i, &header) || header.p_type != PT_LOAD || !(header.p_flags & PF_X))
      continue;
    if (header.p_offset > file_bytes || header.p_filesz > file_bytes - header.p_offset) {
      known = false;
      break;
    }
    struct entry_function text = {work->place->bias + header.p_vaddr, (const uint8_t *)file + header.p_offset,
                                  header.p_filesz, header.p_filesz};
    entry_patch_find_jumps(&text, work->patch, work->count, jumped_into);
    for (size_t n = 0; n < work->count; n++)
      if (jumped_into[n] && !work->why[n])
        work->why[n] = "is jumped into";
  }
  free(jumped_into);
  return known;
}

static void find_overlaps(struct work *work) {
  for (size_t i = 0; i < work->count; i++)
    for (size_t n = 0; n < work->count; n++) {
      uint64_t other = work->place->bias + work->functions.found.at[n].address;
      if (!work->why[i] && other > work->patch[i].at && other < work->patch[i].at + work->patch[i].bytes)
        work->why[i] = "is too short";
    }
}

/* Does a trace that lacks its calls tell something untrue? */
static bool is_needed(uint8_t kind) {
  return kind != LINKED_TOUCH && kind != LINKED_OTHER;
}

/* A family is redirected only if all of it is possible that is needed. */
static void judge(struct work *work) {
  bool any_given_up = false;
  for (size_t i = 0; i < work->count; i++) {
    const struct linked_found *found = &work->functions.found.at[i];
    if (!work->why[i])
      continue;
    work->given_up[found->family] |= is_needed(found->means.kind);
    any_given_up |= is_needed(found->means.kind);
    complain(work->result, "%s%s%s %s", work->result->complaint[0] ? ", " : "not recorded: ", found->prefix,
             found->name, work->why[i]);
  }
  if (any_given_up)
    complain(work->result, "%s", "; so no function of that allocator is");
}

static bool is_taken(const struct work *work, size_t number) {
  return !work->why[number] && !work->given_up[work->functions.found.at[number].family];
}

/* The trampoline of the same allocator's function for the usable size. */
static uint64_t usable_of(const struct work *work, unsigned family) {
  for (size_t i = 0; i < work->count; i++) {
    const struct linked_found *found = &work->functions.found.at[i];
    if (found->family == family && found->means.kind == LINKED_TOUCH && is_taken(work, i))
      return work->patch[i].trampoline;
  }
  return 0;
}

static bool write_table(const struct work *work) {
  for (size_t i = 0; i < work->count; i++) {
    struct linked_function entry = work->functions.found.at[i].means;
    if (!is_taken(work, i))
      continue;
    entry.real = work->patch[i].trampoline;
    entry.usable = usable_of(work, work->functions.found.at[i].family);
    if (!write_at(work->memory, work->patch[i].room, work->patch[i].room_bytes,
                  work->place->room + i * ENTRY_ROOM_BYTES) ||
        !write_at(work->memory, &entry, sizeof entry, work->place->table + i * sizeof entry))
      return false;
  }
  return true;
}

static void note_done(struct linked_done *done, uint64_t address, uint64_t bytes) {
  done->code_from = done->functions == 0 || address < done->code_from ? address : done->code_from;
  done->code_to = address + bytes > done->code_to ? address + bytes : done->code_to;
  done->functions++;
}

/* Written in one piece each, to functions in which the waiting thread cannot be. */
static void write_patches(struct work *work) {
  for (size_t i = 0; i < work->count; i++)
    if (is_taken(work, i)) {
      if (!write_at(work->memory, work->patch[i].code, work->patch[i].bytes, work->patch[i].at)) {
        complain(work->result, "%s%s%s can't be written", work->result->complaint[0] ? "; " : "",
                 work->functions.found.at[i].prefix, work->functions.found.at[i].name);
        continue;
      }
      note_done(&work->result->done, work->place->bias + work->functions.found.at[i].address,
                work->functions.found.at[i].bytes);
      work->result->has_malloc |= work->functions.found.at[i].family == 0;
    }
}

/* 0: not known. */
static unsigned threads_of(int pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = opendir(path);
  unsigned count = 0;
  for (struct dirent *entry; tasks && (entry = readdir(tasks));)
    count += entry->d_name[0] != '.';
  if (tasks)
    closedir(tasks);
  return count;
}

static bool still_waits(int connection) {
  struct pollfd hung_up = {connection, POLLRDHUP, 0};
  return poll(&hung_up, 1, 0) == 0;
}

static void redirect(struct work *work, int pid, int connection) {
  for (size_t i = 0; i < work->count; i++)
    work->why[i] = make_patch(work, i);
  if (!find_jumps(work)) {
    complain(work->result, "%s", "the executable's code can't be read: its allocator is not recorded");
    return;
  }
  find_overlaps(work);
  judge(work);
  unsigned threads = threads_of(pid);
  if (threads != 1)
    complain(work->result, "%sit has %u threads already: its allocator is not recorded",
             work->result->complaint[0] ? "; " : "", threads);
  else if (!write_table(work))
    complain(work->result, "%sits memory can't be written (%s): its allocator is not recorded",
             work->result->complaint[0] ? "; " : "", strerror(errno));
  else if (still_waits(connection))
    write_patches(work);
}

/* Where the executable has an allocator. */
static void begin(struct work *work, int pid, int connection) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", pid);
  work->count = work->functions.found.count < LINKED_MOST ? work->functions.found.count : LINKED_MOST;
  work->memory = open(path, O_RDWR | O_CLOEXEC);
  work->patch = calloc(work->count, sizeof *work->patch);
  work->why = calloc(work->count, sizeof *work->why);
  if (work->memory < 0)
    complain(work->result, "its memory can't be opened (%s): the allocator in it is not recorded", strerror(errno));
  else if (!work->place->room)
    complain(work->result, "%s", "no memory near its code: the allocator in it is not recorded");
  else if (work->patch && work->why)
    redirect(work, pid, connection);
  if (work->memory >= 0)
    close(work->memory);
  free(work->patch);
  free(work->why);
}

void linked_redirect(int pid, int connection, const struct linked_place *place, struct linked_result *result) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  *result = (struct linked_result){.has_malloc = false};
  struct work work = {.place = place, .result = result};
  int executable = open(path, O_RDONLY | O_CLOEXEC);
  if (executable < 0) {
    complain(result, "its executable can't be read (%s): if there is an allocator in it, it is not recorded",
             strerror(errno));
    return;
  }
  elf_version(EV_CURRENT);
  work.elf = elf_begin(executable, ELF_C_READ_MMAP, NULL);
  if (work.elf && elf_kind(work.elf) == ELF_K_ELF && linked_functions_find(&work.functions, work.elf) == 0 &&
      work.functions.found.count > 0)
    begin(&work, pid, connection);
  linked_functions_free(&work.functions);
  elf_end(work.elf);
  close(executable);
}

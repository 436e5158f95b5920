/* SPDX-License-Identifier: MIT */
#include "capture/attach/linked_running.h"

#include "capture/attach/tracee/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* --- looking --- */

static uint64_t bias_of(const struct tracee *tracee, const struct linked_patches *patches) {
  return objects_entry(tracee) - patches->file.header.e_entry;
}

static uint64_t room_at_entries(const struct linked_patches *patches, const struct tracee *tracee, uint64_t bias) {
  struct linked_saved saved;
  uint64_t room = 0;
  for (size_t i = 0; i < patches->count && !room; i++)
    room = linked_room_of(tracee->memory_fd, bias + patches->symbols.at[i].address, &saved);
  return room;
}

/* A free range below the executable, as its heap grows above it. 0: there is none. */
static uint64_t find_free(const struct tracee *tracee, uint64_t executable) {
  enum { STEP = 1 << 20, STEPS = 1024, LOWEST = 1 << 16 };
  uint64_t step = executable < 4 * STEP ? LINKED_ROOM_BYTES : STEP;
  for (uint64_t i = 1; i <= STEPS && executable > i * step + LOWEST; i++) {
    uint64_t at = (executable - i * step) & ~(uint64_t)(LINKED_ROOM_BYTES - 1);
    if (area_is_free(tracee, at, at + LINKED_ROOM_BYTES))
      return at;
  }
  return 0;
}

static bool is_room(const struct tracee *tracee, uint64_t room) {
  uint64_t magic;
  return room && tracee_read_word(tracee, room, &magic) && magic == LINKED_ROOM_MAGIC;
}

int linked_running_open(struct linked_running *linked, const struct tracee *tracee, uint64_t known_room,
                        struct error *error) {
  struct linked_patches *patches = &linked->patches;
  char why[400];
  *linked = (struct linked_running){.room = 0};
  if (linked_patches_open(patches, tracee->pid) != 0)
    return error_errno(error, "--attach", "the program can't be read");
  if (!patches->count)
    return 0;
  struct linked_place place = {.bias = bias_of(tracee, patches)};
  linked->room = known_room ? known_room : room_at_entries(patches, tracee, place.bias);
  if (!is_room(tracee, linked->room))
    linked->room = find_free(tracee, place.bias + patches->symbols.at[0].address);
  if (!linked->room)
    return error_set(error, "--attach", "no memory near the program's code, for the allocator in it");
  place.room = linked->room + LINKED_STUBS_AT;
  place.table = linked->room + offsetof(struct linked_room, table);
  if (!linked_patches_make(patches, tracee->memory_fd, &place))
    return error_set(error, "--attach", "the program's code can't be read, and it has an allocator in it");
  return linked_patches_complain(patches, why, sizeof why)
             ? error_set(error, "--attach", "the program has an allocator that can't be redirected: %s", why)
             : 0;
}

bool linked_running_has_malloc(const struct linked_running *linked) {
  for (size_t i = 0; i < linked->patches.count; i++)
    if (linked_patches_is_plain(&linked->patches, i))
      return true;
  return false;
}

struct linked_done linked_running_done(const struct linked_running *linked) {
  struct linked_done done = {.functions = 0};
  for (size_t i = 0; i < linked->patches.count; i++)
    if (linked_patches_takes(&linked->patches, i))
      linked_patches_note(i, &done);
  return done;
}

bool linked_running_calls_itself(const struct linked_running *linked, const struct tracee *tracee, uint64_t stack) {
  enum { NEAR_BYTES = 4096 }; /* further away, unused words may be as old as the process */
  struct code_range range[LINKED_MOST];
  for (size_t i = 0; i < linked->patches.count; i++) {
    const struct linked_symbol *symbol = &linked->patches.symbols.at[i];
    uint64_t from = linked->patches.place.bias + symbol->address;
    range[i] = (struct code_range){from, from + symbol->bytes, COUNTS_BEHIND_CALL};
  }
  return linked->patches.count &&
         stack_holds(tracee, (struct stack_part){stack, stack + NEAR_BYTES}, range, linked->patches.count);
}

/* --- the room --- */

static int map_room(const struct linked_running *linked, struct tracee *tracee, uint64_t instruction,
                    struct error *error) {
  struct tracee_syscall map = {instruction,
                               SYS_mmap,
                               {linked->room, LINKED_ROOM_BYTES, PROT_READ | PROT_EXEC,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0}};
  int64_t at;
  if (!instruction)
    return error_set(error, "--attach", "no system call instruction in the program's C library");
  if (tracee_make_syscall(tracee, &map, &at, error) != 0)
    return -1;
  if ((uint64_t)at == linked->room)
    return 0;
  return error_set(error, "--attach", "no memory near the program's code: %s",
                   at < 0 && at > -4096 ? strerror((int)-at) : "the kernel gives other memory");
}

/* Makes the wanted content of the whole room. orders->hook: where its stubs lead. */
static void make_room(const struct linked_running *linked, const struct linked_orders *orders, uint8_t *room) {
  const struct linked_patches *patches = &linked->patches;
  struct linked_room *head = (struct linked_room *)room;
  memset(room, 0, LINKED_ROOM_BYTES);
  head->magic = LINKED_ROOM_MAGIC;
  snprintf(head->setting, sizeof head->setting, "%s", orders->setting);
  for (size_t i = 0; i < patches->count; i++) {
    const struct entry_patch *patch = &patches->patch[i];
    if (!linked_patches_takes(patches, i))
      continue;
    head->saved[i] = (struct linked_saved){.at = patch->at, .bytes = patch->bytes};
    memcpy(head->saved[i].original, patch->original, sizeof patch->original);
    head->table[i] = linked_patches_entry(patches, i);
    uint8_t *stub = room + LINKED_STUBS_AT + i * ENTRY_ROOM_BYTES;
    memcpy(stub, patch->room, patch->room_bytes);
    memcpy(stub + ENTRY_HOOK_AT, &orders->hook[patches->symbols.at[i].hook], sizeof *orders->hook);
  }
}

/* Is the room's content the same, except for the setting and where the stubs lead? */
static bool is_alike(const uint8_t *present, const uint8_t *content, size_t stubs) {
  const struct linked_room *one = (const struct linked_room *)present, *other = (const struct linked_room *)content;
  if (memcmp(one->saved, other->saved, sizeof one->saved) != 0 ||
      memcmp(one->table, other->table, sizeof one->table) != 0)
    return false;
  for (size_t i = 0; i < stubs; i++) {
    const uint8_t *a = present + LINKED_STUBS_AT + i * ENTRY_ROOM_BYTES;
    const uint8_t *b = content + LINKED_STUBS_AT + i * ENTRY_ROOM_BYTES;
    size_t behind = ENTRY_HOOK_AT + sizeof(uint64_t);
    if (memcmp(a, b, ENTRY_HOOK_AT) != 0 || memcmp(a + behind, b + behind, ENTRY_ROOM_BYTES - behind) != 0)
      return false;
  }
  return true;
}

/* The part of the room in which threads may be does not change: it is written once. */
static int write_room(const struct linked_running *linked, const struct tracee *tracee,
                      const struct linked_orders *orders, struct error *error) {
  size_t stubs = linked->patches.count, bytes = LINKED_STUBS_AT + stubs * ENTRY_ROOM_BYTES;
  uint8_t *present = malloc(LINKED_ROOM_BYTES), *content = malloc(LINKED_ROOM_BYTES);
  int result = 0;
  if (!present || !content)
    result = error_set(error, "--attach", "out of memory");
  else
    make_room(linked, orders, content);
  if (result == 0 && !tracee_read(tracee, linked->room, present, LINKED_ROOM_BYTES))
    result = error_set(error, "--attach", "the process has ended");
  if (result == 0 && is_room(tracee, linked->room) && !is_alike(present, content, stubs))
    result = error_set(error, "--attach", "another version of heaptape has redirected the allocator in the program");
  if (result == 0 && !tracee_write(tracee, linked->room, content, bytes))
    result = error_set(error, "--attach", "the process's memory can't be written");
  free(present);
  free(content);
  return result;
}

/* --- redirecting --- */

static bool is_redirected(const struct linked_patches *patches, const struct tracee *tracee, size_t number) {
  const struct entry_patch *patch = &patches->patch[number];
  uint8_t code[ENTRY_PATCH_MOST];
  return tracee_read(tracee, patch->at, code, patch->bytes) && memcmp(code, patch->code, patch->bytes) == 0;
}

/* Finds the ranges to be overwritten, without the first byte of each function, where a thread can also execute the
   jump. Returns their number. */
static size_t find_insides(const struct linked_patches *patches, const struct tracee *tracee,
                           struct code_range inside[LINKED_MOST]) {
  size_t count = 0;
  for (size_t i = 0; i < patches->count; i++)
    if (linked_patches_takes(patches, i) && !is_redirected(patches, tracee, i))
      inside[count++] = (struct code_range){patches->patch[i].at + 1, patches->patch[i].at + patches->patch[i].bytes,
                                            COUNTS_WHERE_IT_LIES};
  return count;
}

/* Where a thread at that instruction must continue; 0: where it is. *unknown: this can't be determined. */
static uint64_t moved_to(const struct linked_patches *patches, uint64_t instruction, bool *unknown) {
  for (size_t i = 0; i < patches->count; i++) {
    const struct entry_patch *patch = &patches->patch[i];
    uint64_t byte = instruction - patch->at;
    if (!linked_patches_takes(patches, i) || byte == 0 || byte >= patch->bytes)
      continue;
    *unknown |= !patch->moved[byte];
    return patches->place.room + i * ENTRY_ROOM_BYTES + patch->moved[byte];
  }
  return 0;
}

/* Makes threads that are among the bytes to be overwritten continue in the trampolines. False: one can't, as it is in
   the kernel, or will return there from a signal handler. Precondition: the room is written. */
static bool move_threads(const struct linked_patches *patches, const struct tracee *tracee) {
  struct code_range inside[LINKED_MOST];
  size_t count = find_insides(patches, tracee, inside);
  bool unknown = false;
  for (size_t i = 0; count && i < tracee->threads.count && !unknown; i++) {
    const struct tracee_thread *thread = &tracee->threads.at[i];
    struct tracee_registers registers;
    unknown = !tracee_registers(thread, &registers) ||
              stack_holds(tracee, (struct stack_part){registers.stack, registers.thread_pointer}, inside, count);
    uint64_t to = unknown ? 0 : moved_to(patches, registers.instruction, &unknown);
    if (!unknown && to)
      unknown = !tracee_move(thread, to);
  }
  return !unknown;
}

static bool write_held_patches(const struct linked_patches *patches, const struct tracee *tracee) {
  for (size_t i = 0; i < patches->count; i++)
    if (linked_patches_takes(patches, i) && !is_redirected(patches, tracee, i) &&
        !tracee_write(tracee, patches->patch[i].at, patches->patch[i].code, patches->patch[i].bytes))
      return false;
  return true;
}

int linked_running_redirect(struct linked_running *linked, struct tracee *tracee, const struct linked_orders *orders,
                            bool *again, struct error *error) {
  *again = false;
  if (!linked->patches.count)
    return 0;
  if (!is_room(tracee, linked->room) && map_room(linked, tracee, orders->syscall_instruction, error) != 0)
    return -1;
  if (write_room(linked, tracee, orders, error) != 0)
    return -1;
  *again = !move_threads(&linked->patches, tracee);
  if (*again || write_held_patches(&linked->patches, tracee))
    return 0;
  linked_put_back(tracee, linked->room, orders->setting, error);
  return error_set(error, "--attach", "the program's code can't be written");
}

/* --- putting back --- */

static bool is_of(const struct tracee *tracee, uint64_t room, const char *setting) {
  char its[LINKED_SETTING_BYTES];
  return is_room(tracee, room) && tracee_read(tracee, room + offsetof(struct linked_room, setting), its, sizeof its) &&
         strncmp(its, setting, sizeof its) == 0;
}

int linked_put_back(const struct tracee *tracee, uint64_t room, const char *setting, struct error *error) {
  static const char none[LINKED_SETTING_BYTES];
  struct linked_saved saved[LINKED_MOST];
  bool all = true;
  if (!is_of(tracee, room, setting))
    return 0;
  if (!tracee_read(tracee, room + offsetof(struct linked_room, saved), saved, sizeof saved))
    return error_set(error, "--attach", "the process has ended");
  for (size_t i = 0; i < LINKED_MOST; i++)
    if (saved[i].bytes >= ENTRY_JUMP_BYTES && saved[i].bytes <= ENTRY_PATCH_MOST &&
        linked_jump_at(tracee->memory_fd, saved[i].at) == room + LINKED_STUBS_AT + i * ENTRY_ROOM_BYTES)
      all &= tracee_write(tracee, saved[i].at, saved[i].original, saved[i].bytes);
  all &= tracee_write(tracee, room + offsetof(struct linked_room, setting), none, sizeof none);
  return all ? 0 : error_set(error, "--attach", "the program's code can't be written");
}

/* Returns whether that process had something to be put back. */
static bool put_back_copy(int pid, uint64_t room, const char *setting, struct error *error) {
  struct tracee tracee;
  struct error its = {0};
  if (tracee_open(&tracee, pid, &its) != 0)
    return false; /* it has ended */
  bool had = is_of(&tracee, room, setting);
  if (had && tracee_hold(&tracee, &its) == 0) {
    linked_put_back(&tracee, room, setting, &its);
    tracee_release(&tracee);
  }
  if (its.text[0] && is_room(&tracee, room)) /* it has not ended meanwhile, nor executed another program */
    error_set(error, "--attach", "process %d: %s", pid, its.text);
  tracee_close(&tracee);
  return had;
}

/* Searches again if it found copies, as they may have forked meanwhile. */
int linked_put_back_copies(int except, uint64_t room, const char *setting, struct error *error) {
  enum { ROUNDS = 20 };
  bool more = room != 0;
  for (int round = 0; more && round < ROUNDS && !error->text[0]; round++) {
    DIR *all = opendir("/proc");
    more = false;
    for (int pid; (pid = proc_next(all));)
      more |= pid != except && put_back_copy(pid, room, setting, error);
    if (all)
      closedir(all);
  }
  return error->text[0] ? -1 : 0;
}

uint64_t linked_find_room(const struct tracee *tracee) {
  struct linked_patches patches;
  uint64_t room = linked_patches_open(&patches, tracee->pid) == 0 && patches.count
                      ? room_at_entries(&patches, tracee, bias_of(tracee, &patches))
                      : 0;
  linked_patches_close(&patches);
  return room;
}

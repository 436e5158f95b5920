/* SPDX-License-Identifier: MIT */
#include "capture/redirect/references.h"

#include <stdlib.h>
#include <string.h>

struct collecting {
  struct references *references;
  const struct names *names;
  bool failed;
};

static void collect(void *context, const char *name, uint64_t address) {
  struct collecting *collecting = context;
  for (uint32_t i = 0; i < collecting->names->count; i++) {
    if (strcmp(collecting->names->at[i], name) != 0)
      continue;
    struct reference *reference = vector_add(&collecting->references->all);
    if (reference)
      *reference = (struct reference){address, i};
    else
      collecting->failed = true;
    return;
  }
}

int references_read(struct references *references, const struct objects *objects, const struct tracee *tracee,
                    const struct names *names, const struct object *except) {
  *references = (struct references){.objects = 0};
  struct collecting collecting = {references, names, false};
  struct visitor visitor = {collect, &collecting};
  for (size_t i = 0; i < objects->all.count; i++) {
    const struct object *object = &objects->all.at[i];
    size_t before = references->all.count;
    if (object->is_loader || object == except)
      continue;
    object_references(object, tracee, &visitor);
    references->objects += references->all.count > before;
  }
  return collecting.failed ? -1 : 0;
}

void references_free(struct references *references) {
  free(references->all.at);
  *references = (struct references){.objects = 0};
}

const struct object *definer_of(const struct objects *objects, const struct tracee *tracee, const char *name,
                                struct symbol *symbol) {
  for (size_t i = 0; i < objects->all.count; i++)
    if (object_symbol(&objects->all.at[i], tracee, name, symbol))
      return &objects->all.at[i];
  return NULL;
}

/* Does a call instruction end there: direct, or by a register or memory, with all lengths that it may have? */
static bool is_behind_call(const struct tracee *tracee, uint64_t address) {
  enum { LONGEST = 7 };
  unsigned char before[LONGEST];
  if (!tracee_read(tracee, address - LONGEST, before, LONGEST))
    return true;
  if (before[LONGEST - 5] == 0xe8)
    return true;
  for (int length = 2; length <= LONGEST; length++)
    if (before[LONGEST - length] == 0xff && (before[LONGEST - length + 1] >> 3 & 7) == 2)
      return true;
  return false;
}

/* Does the kernel's frame of a signal begin there? The address alone is not enough: sigaction(3) leaves it behind, too,
   and a function that is still running may have room there that it has not written to. */
static bool is_signal_frame(const struct tracee *tracee, uint64_t address) {
  enum { LINK = 2, FLAGS = 23, SEGMENTS = 24, WORDS }; /* of 8 bytes, of x86-64's struct rt_sigframe */
  enum { ALWAYS_SET = 2, UNUSED_FROM = 22, USERS = 3 };
  uint64_t word[WORDS];
  return tracee_read(tracee, address, word, sizeof word) && !word[LINK] && (word[FLAGS] & ALWAYS_SET) &&
         word[FLAGS] >> UNUSED_FROM == 0 && (word[SEGMENTS] & USERS) == USERS;
}

static const struct code_range *range_of(uint64_t address, const struct code_range *ranges, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (address - ranges[i].from < ranges[i].to - ranges[i].from)
      return &ranges[i];
  return NULL;
}

/* One range around all ranges. */
static struct code_range span_of(const struct code_range *ranges, size_t count) {
  struct code_range span = {.from = UINT64_MAX};
  for (size_t i = 0; i < count; i++) {
    span.from = ranges[i].from < span.from ? ranges[i].from : span.from;
    span.to = ranges[i].to > span.to ? ranges[i].to : span.to;
  }
  return span;
}

static bool counts(const struct tracee *tracee, uint64_t at, uint64_t word, const struct code_range *range) {
  switch (range->counts) {
  case COUNTS_BEHIND_CALL:
    return is_behind_call(tracee, word);
  case COUNTS_AT_FRAME:
    return is_signal_frame(tracee, at);
  default:
    return true;
  }
}

bool stack_holds(const struct tracee *tracee, struct stack_part stack, const struct code_range *ranges, size_t count) {
  enum { WORDS = 4096 };
  static const uint64_t most = (uint64_t)64 << 20;
  struct area area;
  uint64_t word[WORDS], from = stack.from & ~(uint64_t)7;
  const struct code_range span = span_of(ranges, count);
  if (!area_of(tracee, from, &area))
    return true;
  uint64_t end = stack.end > from && stack.end < area.to ? stack.end : area.to;
  if (end - from > most)
    return true;
  for (uint64_t at = from; at < end; at += sizeof word) {
    uint64_t bytes = end - at < sizeof word ? end - at : sizeof word;
    if (!tracee_read(tracee, at, word, bytes))
      return true;
    for (size_t i = 0; i < bytes / sizeof *word; i++) {
      if (word[i] - span.from >= span.to - span.from)
        continue;
      const struct code_range *range = range_of(word[i], ranges, count);
      if (range && counts(tracee, at + i * sizeof *word, word[i], range))
        return true;
    }
  }
  return false;
}

bool thread_is_inside(const struct tracee *tracee, const struct tracee_thread *thread, const struct code_range *ranges,
                      size_t count) {
  struct tracee_registers registers;
  if (!tracee_registers(thread, &registers) || range_of(registers.instruction, ranges, count))
    return true;
  return stack_holds(tracee, (struct stack_part){registers.stack, registers.thread_pointer}, ranges, count);
}

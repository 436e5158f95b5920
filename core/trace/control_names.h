/* SPDX-License-Identifier: MIT */
/* The numbers of the names that control calls have for options (control_names.def).

   Job: name to option and back. Without the C library's functions but strcmp and strlen, as recorded processes use it.
   Not its job: making the calls. */
#pragma once

#include "core/trace/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum control_value { NOTHING_PASSED, BOOL, UINT, SIZE, TICK, RETURNED, OF_PROGRAM };
enum control_namespace { MALLCTL, PROPERTY };

struct control_name {
  uint16_t number;
  enum control_namespace function;
  const char *name; /* with <i> in the place of a number, or without */
  enum control_value value;
};

enum { CONTROL_INDEX_SHIFT = 16, CONTROL_NAME_BYTES = 64, MALLCTL_NAMES_MOST = 64, MIB_PARTS_MOST = 6 };
#define CONTROL_INDEX_LIMIT ((uint64_t)1 << 40)

/* A signed value as the event's size, which has 63 bits: the sign is in bit 62. */
static inline uint64_t control_value_kept(int64_t value) {
  return (uint64_t)value << 1 >> 1;
}

static inline int64_t control_value_read(uint64_t size_bytes) {
  return (int64_t)(size_bytes << 1) >> 1;
}

/* Are its arguments ints, which the event has modulo 2^32? */
static inline bool control_takes_ints(uint8_t call) {
  return call == CALL_mallopt || call == CALL_tc_mallopt;
}

/* A rate as the event's size, in millionths. */
static inline uint64_t control_rate_kept(double rate) {
  return rate > 0 && rate < 1e12 ? (uint64_t)(rate * 1e6 + 0.5) : 0;
}

static inline const struct control_name *control_names(size_t *count) {
  static const struct control_name names[] = {
#define CONTROL_NAME(number, function, name, value) {number, function, name, value},
#include "core/trace/control_names.def"
  };
  *count = sizeof names / sizeof *names;
  return names;
}

/* Which part of the name, between dots, is <i>; SIZE_MAX: none. */
static inline size_t control_index_part(const char *name) {
  size_t part = 0;
  for (; *name && *name != '<'; name++)
    part += *name == '.';
  return *name ? part : SIZE_MAX;
}

/* Is that the table's name? *index: the number in it, 0 if it has none. */
static inline bool control_name_is(const struct control_name *known, const char *name, uint64_t *index) {
  const char *at = known->name;
  *index = 0;
  while (*at && *at != '<' && *at == *name)
    at++, name++;
  if (*at != '<')
    return *at == *name;
  if (*name < '0' || *name > '9')
    return false;
  for (; *name >= '0' && *name <= '9'; name++)
    if ((*index = *index * 10 + (uint64_t)(*name - '0')) >= CONTROL_INDEX_LIMIT)
      return false;
  return strcmp(at + strlen("<i>"), name) == 0;
}

static inline uint64_t control_option(const struct control_name *name, uint64_t index) {
  return name->number | index << CONTROL_INDEX_SHIFT;
}

/* The option of that name; 0: another than the table's. */
static inline uint64_t control_option_named(enum control_namespace function, const char *name) {
  size_t count;
  uint64_t index;
  const struct control_name *names = control_names(&count);
  for (size_t i = 0; i < count; i++)
    if (names[i].function == function && control_name_is(&names[i], name, &index))
      return control_option(&names[i], index);
  return 0;
}

/* The row of an option; NULL: none, as the option is 0. */
static inline const struct control_name *control_name_of(uint64_t option) {
  size_t count;
  const struct control_name *names = control_names(&count);
  for (size_t i = 0; i < count; i++)
    if (names[i].number == (option & 0xffff))
      return &names[i];
  return NULL;
}

/* The name of an option, with its number in place of <i>; cut if it has more than CONTROL_NAME_BYTES - 1. Returns to.
 */
static inline const char *control_name_text(uint64_t option, char *to) {
  const struct control_name *name = control_name_of(option);
  size_t used = 0;
  for (const char *at = name ? name->name : ""; *at && used < CONTROL_NAME_BYTES - 1; at++)
    if (*at == '<') {
      char digits[24];
      size_t count = 0;
      uint64_t index = option >> CONTROL_INDEX_SHIFT;
      do
        digits[count++] = (char)('0' + index % 10);
      while ((index /= 10) > 0);
      while (count > 0 && used < CONTROL_NAME_BYTES - 1)
        to[used++] = digits[--count];
      at += strlen("<i>") - 1;
    } else
      to[used++] = *at;
  to[used] = '\0';
  return to;
}

/* What mallctl was given. */
struct mallctl_passed {
  const void *old, *value;
  size_t bytes; /* of the value */
};

/* What was passed, as the event's size. */
static inline uint64_t control_value_passed(const struct mallctl_passed *passed, enum control_value kind) {
  if (kind == BOOL && passed->bytes == sizeof(bool))
    return *(const unsigned char *)passed->value;
  if (kind == UINT && passed->bytes == sizeof(unsigned))
    return *(const unsigned *)passed->value;
  if (kind == SIZE && passed->bytes == sizeof(uint64_t))
    return control_value_kept(*(const int64_t *)passed->value);
  return 0;
}

/* Has that call of mallctl, which succeeded, changed something, or may it have? *size: then the event's. */
static inline bool control_mallctl(uint64_t option, const struct mallctl_passed *passed, uint64_t *size) {
  const struct control_name *name = control_name_of(option);
  enum control_value kind = name ? name->value : passed->old ? OF_PROGRAM : NOTHING_PASSED;
  bool has_value = passed->value && passed->bytes > 0;
  *size = 0;
  if (kind == RETURNED && passed->old)
    *size = *(const unsigned *)passed->old;
  else if (has_value)
    *size = control_value_passed(passed, kind);
  return kind == NOTHING_PASSED || kind == RETURNED || has_value;
}

/* Does a replay pass it on? */
static inline bool control_is_replayed(uint64_t option) {
  const struct control_name *name = control_name_of(option);
  return name && name->value != OF_PROGRAM;
}

/* Is it a call that sets the allocator up, by whatever option? */
static inline bool control_sets_up(uint8_t call) {
  return call == CALL_mallopt || call == CALL_tc_mallopt || call == CALL_tc_set_property ||
         (call >= CALL_mi_option_set && call <= CALL_mi_option_set_enabled_default) ||
         call == CALL_tbb_allocation_mode || call == CALL_mallctl || call == CALL_mallctlbymib;
}

/* Does the call set what stays set in the process, and in its fork children? Not what is a thread's. */
static inline bool control_stays(uint8_t call, uint64_t option) {
  const struct control_name *name = control_name_of(option);
  if (call != CALL_mallctl && call != CALL_mallctlbymib)
    return control_sets_up(call);
  return name && (name->value == BOOL || name->value == SIZE || name->value == RETURNED) &&
         strncmp(name->name, "thread.", strlen("thread.")) != 0;
}

/* Of such a call: does a second one add to the first, and not replace it? */
static inline bool control_repeats(uint8_t call, uint64_t option) {
  const struct control_name *name = control_name_of(option);
  return (call == CALL_mallctl || call == CALL_mallctlbymib) && name && name->value == RETURNED;
}

/* SPDX-License-Identifier: MIT */
#include "allocators/common/tunables.h"

#include "allocators/common/base.h"

#include <stdint.h>
#include <string.h>

struct tunables tunables = {
#define TUNABLE(name, standard, lowest, highest, meaning) .name = standard,
#define CHOICE(name, standard, words, meaning) .name = standard,
#include ALLOCATOR_TUNABLES
#undef TUNABLE
#undef CHOICE
};
struct tunables_set tunables_set;

static const struct known {
  const char *name;
  size_t offset, set_offset, lowest, highest;
  const char *words; /* NULL: a number */
} known[] = {
#define OFFSETS(name) offsetof(struct tunables, name), offsetof(struct tunables_set, name)
#define TUNABLE(name, standard, lowest, highest, meaning) {#name, OFFSETS(name), lowest, highest, NULL},
#define CHOICE(name, standard, words, meaning) {#name, OFFSETS(name), 0, SIZE_MAX, words},
#include ALLOCATOR_TUNABLES
#undef TUNABLE
#undef CHOICE
#undef OFFSETS
};

/* Parses digits up to a ':' or the end. False: anything else, or too large. */
static bool parse_number(const char *text, size_t *value) {
  *value = 0;
  if (*text == ':' || *text == '\0')
    return false;
  for (; *text != ':' && *text != '\0'; text++) {
    if (*text < '0' || *text > '9' || __builtin_mul_overflow(*value, 10, value) ||
        __builtin_add_overflow(*value, (size_t)(*text - '0'), value))
      return false;
  }
  return true;
}

/* Finds a word, up to a ':' or the end: its number among the words. False: none of them. */
static bool parse_word(const char *text, const char *words, size_t *value) {
  size_t length = strcspn(text, ":");
  for (*value = 0; *words; ++*value) {
    size_t word_length = strcspn(words, " ");
    if (word_length == length && strncmp(words, text, length) == 0)
      return true;
    words += word_length + (words[word_length] == ' ');
  }
  return false;
}

static void set(const char *setting) {
  size_t length = strcspn(setting, "=:");
  for (const struct known *one = known; one < known + sizeof known / sizeof *known; one++) {
    if (strlen(one->name) != length || strncmp(one->name, setting, length) != 0)
      continue;
    const char *text = setting + length + 1;
    size_t value;
    if (setting[length] != '=' || !(one->words ? parse_word(text, one->words, &value) : parse_number(text, &value)) ||
        value < one->lowest || value > one->highest) {
      complain("tunable without a valid value, ignored", setting);
      return;
    }
    *(size_t *)((char *)&tunables + one->offset) = value;
    *(bool *)((char *)&tunables_set + one->set_offset) = true;
    return;
  }
  complain("unknown tunable, ignored", setting);
}

void tunables_read(void) {
  const char *settings = environment_value(ALLOCATOR_VARIABLE);
  while (settings && *settings) {
    if (*settings != ':')
      set(settings);
    settings += strcspn(settings, ":");
    settings += *settings == ':';
  }
}

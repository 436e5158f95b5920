#include "allocators/reference/base/tunables.h"

#include "allocators/reference/base/chunk.h"
#include "allocators/reference/base/fault.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

struct tunables tunables = {
#define TUNABLE(name, standard, lowest, highest, meaning) .name = standard,
#include "allocators/reference/base/tunables.def"
#undef TUNABLE
    .fast_max_bytes = FAST_MAX_BYTES,
    .dynamic_thresholds = true,
};

static const struct {
  const char *name;
  size_t offset, lowest, highest;
} known[] = {
#define TUNABLE(name, standard, lowest, highest, meaning) {#name, offsetof(struct tunables, name), lowest, highest},
#include "allocators/reference/base/tunables.def"
#undef TUNABLE
};

static const char VARIABLE[] = "REFERENCE_TUNABLES=";
static char proc_environment[16384];

/* The first call may come from the dynamic linker, before libc knows the environment: then the kernel's copy. */
static const char *from_proc(void) {
  int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return NULL;
  size_t used = 0;
  ssize_t got;
  while (used < sizeof proc_environment - 1 &&
         (got = read(fd, proc_environment + used, sizeof proc_environment - 1 - used)) > 0)
    used += (size_t)got;
  close(fd);
  for (const char *entry = proc_environment; entry < proc_environment + used; entry += strlen(entry) + 1)
    if (strncmp(entry, VARIABLE, sizeof VARIABLE - 1) == 0)
      return entry + sizeof VARIABLE - 1;
  return NULL;
}

static const char *from_environment(void) {
  if (getauxval(AT_SECURE))
    return NULL;
  if (!environ)
    return from_proc();
  for (char **entry = environ; *entry; entry++)
    if (strncmp(*entry, VARIABLE, sizeof VARIABLE - 1) == 0)
      return *entry + sizeof VARIABLE - 1;
  return NULL;
}

/* Digits up to a ':' or the end. False: something else, or too large. */
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

static bool is_word(const char *text, const char *word) {
  size_t length = strlen(word);
  return strncmp(text, word, length) == 0 && (text[length] == ':' || text[length] == '\0');
}

static bool parse_value(const char *name, const char *text, size_t *value) {
  if (strcmp(name, "fastchunks") != 0)
    return parse_number(text, value);
  *value = is_word(text, "atomic");
  return *value || is_word(text, "relaxed");
}

static void set(const char *setting) {
  size_t length = strcspn(setting, "=:");
  for (size_t index = 0; index < sizeof known / sizeof *known; index++) {
    if (strlen(known[index].name) != length || strncmp(known[index].name, setting, length) != 0)
      continue;
    size_t value;
    if (setting[length] != '=' || !parse_value(known[index].name, setting + length + 1, &value) ||
        value < known[index].lowest || value > known[index].highest) {
      complain("tunable without a value that it takes, ignored", setting);
      return;
    }
    *(size_t *)((char *)&tunables + known[index].offset) = value;
    if (known[index].offset == offsetof(struct tunables, mmap_threshold) ||
        known[index].offset == offsetof(struct tunables, trim_threshold))
      tunables.dynamic_thresholds = false;
    return;
  }
  complain("unknown tunable, ignored", setting);
}

void tunables_read(void) {
  const char *settings = from_environment();
  while (settings && *settings) {
    if (*settings != ':')
      set(settings);
    settings += strcspn(settings, ":");
    settings += *settings == ':';
  }
  if (!tunables.fastbins)
    tunables.fast_max_bytes = 0;
  if (tunables.tcache_count == 0)
    tunables.tcache = 0;
}

/* SPDX-License-Identifier: MIT */
#include "capture/host/hooks/named_controls.h"

#include "capture/host/real/real.h"

enum { MOST_PREFIXES = 4 };

/* A jemalloc's mibs of the table's names, with 0 in place of <i>. parts 0: it does not have the name. */
struct mibs {
  const void *key; /* its code or, where this is looked up, its name */
  _Atomic bool known;
  struct {
    size_t parts, part[MIB_PARTS_MOST];
  } of[MALLCTL_NAMES_MOST];
};

static struct mibs mibs_of[MOST_PREFIXES];

bool named_mallctl(uint64_t option, const struct mallctl_passed *passed, struct hook_sizes *sizes) {
  *sizes = (struct hook_sizes){0, option};
  return control_mallctl(option, passed, &sizes->size);
}

static void find_all(struct mibs *mibs, const void *to_mib) {
  union {
    const void *data;
    int (*code)(const char *, size_t *, size_t *);
  } real = {.data = to_mib};
  size_t count;
  const struct control_name *names = control_names(&count);
  char text[CONTROL_NAME_BYTES];
  for (size_t i = 0; real.data && i < count && i < MALLCTL_NAMES_MOST; i++) {
    size_t parts = MIB_PARTS_MOST;
    if (names[i].function == MALLCTL &&
        real.code(control_name_text(names[i].number, text), mibs->of[i].part, &parts) == 0)
      mibs->of[i].parts = parts;
  }
  mibs->known = true;
}

/* Threads that find the same at the same time write the same. */
static struct mibs *mibs_found(const char *name, const void *code) {
  const void *key = code ? code : name;
  for (size_t i = 0; i < MOST_PREFIXES; i++) {
    struct mibs *mibs = &mibs_of[i];
    if (mibs->key && mibs->key != key)
      continue;
    mibs->key = key;
    if (!mibs->known)
      find_all(mibs, code ? code : symbols_next(name));
    return mibs;
  }
  return NULL;
}

uint64_t named_of_mib(const char *name, const void *code, const size_t *mib, size_t count) {
  const struct mibs *mibs = mibs_found(name, code);
  size_t names_count;
  const struct control_name *names = control_names(&names_count);
  for (size_t i = 0; mibs && i < names_count && i < MALLCTL_NAMES_MOST; i++) {
    size_t any = control_index_part(names[i].name), part = 0;
    if (mibs->of[i].parts != count || count == 0)
      continue;
    while (part < count && (part == any || mibs->of[i].part[part] == mib[part]))
      part++;
    if (part == count)
      return control_option(&names[i], any < count && mib[any] < CONTROL_INDEX_LIMIT ? mib[any] : 0);
  }
  return 0;
}

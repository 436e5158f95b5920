/* SPDX-License-Identifier: MIT */
#include "replay/calls/named_controls.h"

#include "core/trace/control_names.h"

extern int real_mallctl(const char *name, void *old, size_t *old_bytes, void *value, size_t bytes) __asm__("mallctl")
    __attribute__((weak));
extern int real_nametomib(const char *name, size_t *mib, size_t *parts) __asm__("mallctlnametomib")
    __attribute__((weak));
extern int real_mallctlbymib(const size_t *mib, size_t parts, void *old, size_t *old_bytes, void *value,
                             size_t bytes) __asm__("mallctlbymib") __attribute__((weak));
extern int real_set_property(const char *name, size_t value) __asm__("MallocExtension_SetNumericProperty")
    __attribute__((weak));
extern void *real_instance(void) __asm__("_ZN15MallocExtension8instanceEv") __attribute__((weak));
extern void real_set_release_rate(void *instance,
                                  double rate) __asm__("_ZN22TCMallocImplementation20SetMemoryReleaseRateEd")
    __attribute__((weak));

/* By the name's number, looked up at its first call, as programs do it themselves. parts 0: not yet. */
static struct {
  _Atomic size_t parts;
  size_t part[MIB_PARTS_MOST];
} mibs[MALLCTL_NAMES_MOST];

/* What mallctl is passed. */
struct passed {
  union {
    bool one;
    unsigned four;
    uint64_t eight;
  } value;
  size_t bytes; /* 0: nothing */
  unsigned returned;
  size_t returned_bytes; /* 0: nothing */
};

static struct passed passed_for(enum control_value kind, uint64_t value) {
  struct passed passed = {.bytes = 0};
  if (kind == BOOL)
    passed.value.one = value != 0, passed.bytes = sizeof passed.value.one;
  else if (kind == UINT)
    passed.value.four = (unsigned)value, passed.bytes = sizeof passed.value.four;
  else if (kind == SIZE || kind == TICK)
    passed.value.eight = (uint64_t)control_value_read(value), passed.bytes = sizeof passed.value.eight;
  else if (kind == RETURNED)
    passed.returned_bytes = sizeof passed.returned;
  return passed;
}

#define AS_PASSED(passed)                                                                                              \
  (passed).returned_bytes ? (void *)&(passed).returned : NULL,                                                         \
      (passed).returned_bytes ? &(passed).returned_bytes : NULL, (passed).bytes ? (void *)&(passed).value : NULL,      \
      (passed).bytes

void named_controls_mallctl(uint64_t option, uint64_t value) {
  const struct control_name *name = control_name_of(option);
  char text[CONTROL_NAME_BYTES];
  if (!name || name->value == OF_PROGRAM)
    return;
  struct passed passed = passed_for(name->value, value);
  real_mallctl(control_name_text(option, text), AS_PASSED(passed));
}

/* Threads that look up at the same time write the same. */
static size_t find_mib(const struct control_name *name) {
  char text[CONTROL_NAME_BYTES];
  size_t parts = MIB_PARTS_MOST;
  if (!real_nametomib || real_nametomib(control_name_text(name->number, text), mibs[name->number].part, &parts) != 0)
    return 0;
  mibs[name->number].parts = parts;
  return parts;
}

void named_controls_mallctlbymib(uint64_t option, uint64_t value) {
  const struct control_name *name = control_name_of(option);
  if (!name || name->number >= MALLCTL_NAMES_MOST || name->value == OF_PROGRAM)
    return;
  size_t mib[MIB_PARTS_MOST], parts = mibs[name->number].parts, index = control_index_part(name->name);
  if (parts == 0 && (parts = find_mib(name)) == 0)
    return;
  memcpy(mib, mibs[name->number].part, sizeof mib);
  if (index < parts)
    mib[index] = (size_t)(option >> CONTROL_INDEX_SHIFT);
  struct passed passed = passed_for(name->value, value);
  real_mallctlbymib(mib, parts, AS_PASSED(passed));
}

void named_controls_set_property(uint64_t option, uint64_t value) {
  const struct control_name *name = control_name_of(option);
  if (name)
    real_set_property(name->name, value);
}

void named_controls_set_release_rate(uint64_t millionths) {
  if (real_instance)
    real_set_release_rate(real_instance(), (double)millionths / 1e6);
}

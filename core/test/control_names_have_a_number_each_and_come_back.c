/* SPDX-License-Identifier: MIT */
/* Each name of control_names.def, with any number in place of <i>, has an option that gives the name back, and no other
   text has one. */
#include "core/test/check.h"
#include "core/trace/control_names.h"

#include <string.h>

static void comes_back(const struct control_name *name, uint64_t index) {
  char text[CONTROL_NAME_BYTES], again[CONTROL_NAME_BYTES], longer[CONTROL_NAME_BYTES + 8];
  uint64_t option = control_option(name, index);
  control_name_text(option, text);
  CHECK(control_option_named(name->function, text) == option, "%s", text);
  CHECK(strcmp(control_name_text(control_option_named(name->function, text), again), text) == 0, "%s", text);
  CHECK(control_option_named(!name->function, text) == 0, "%s", text);
  snprintf(longer, sizeof longer, "%s.x", text);
  CHECK(control_option_named(name->function, longer) == 0, "%s", longer);
  text[strlen(text) - 1] = '\0';
  CHECK(control_option_named(name->function, text) == 0, "%s", text);
}

int main(void) {
  size_t count;
  const struct control_name *names = control_names(&count);
  for (size_t i = 0; i < count; i++) {
    bool has_index = control_index_part(names[i].name) != SIZE_MAX;
    for (size_t other = 0; other < i; other++)
      CHECK(names[other].number != names[i].number && strcmp(names[other].name, names[i].name) != 0);
    CHECK(names[i].number != 0 && strlen(names[i].name) + 20 < CONTROL_NAME_BYTES, "%s", names[i].name);
    comes_back(&names[i], 0);
    for (uint64_t index = 1; has_index && index < CONTROL_INDEX_LIMIT; index *= 7)
      comes_back(&names[i], index);
  }
  static const char *const others[] = {"",
                                       "arena.",
                                       "arena.purge",
                                       "arena.x.purge",
                                       "arena.<i>.purge",
                                       "arena..purge",
                                       "arena.99999999999999999999.purge",
                                       "arena.-1.purge"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    CHECK(control_option_named(MALLCTL, others[i]) == 0, "%s", others[i]);
  CHECK(!control_is_replayed(0) && !control_is_replayed(control_option_named(MALLCTL, "arena.0.reset")));
  CHECK(control_is_replayed(control_option_named(MALLCTL, "arena.7.purge")));
  return 0;
}

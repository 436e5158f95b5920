/* SPDX-License-Identifier: MIT */
/* What is said of control calls is a tally of them: a row for each call with its option and value, whatever their
   order; and words that name them, with the allocators they belong to. */
#include "core/test/check.h"
#include "core/trace/event.h"
#include "core/workload/control_counts.h"

static const struct kind {
  uint8_t call;
  uint64_t option, value; /* as recorded */
  const char *option_text;
  int shown;
} kinds[] = {
    {CALL_mallopt, (uint32_t)-8, 2, "M_ARENA_MAX", 2},
    {CALL_mallopt, (uint32_t)-8, 3, "M_ARENA_MAX", 3},
    {CALL_mallopt, 1, (uint32_t)-1, "M_MXFAST", -1},
    {CALL_mallopt, 77, 0, "77", 0},
    {CALL_malloc_trim, 0, 0, NULL, 0},
    {CALL_malloc_trim, 0, 9, NULL, 9},
    {CALL_mallinfo, 0, 0, NULL, 0},
    {CALL_mi_option_set, 15, 4, "15", 4},
    {CALL_mi_collect, 0, 1, NULL, 1},
    {CALL_tbb_allocation_mode, 5, 6, "5", 6},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* The rows of `calls` are the kinds that were counted, each with its count, option and value where it has one. */
static void agrees(const json_t *calls, const uint64_t *counted) {
  size_t expected = 0;
  for (size_t i = 0; i < KINDS; i++) {
    const struct call_info *info = &call_table[kinds[i].call];
    size_t found = 0;
    for (size_t row = 0; row < json_array_size(calls); row++) {
      json_t *one = json_array_get(calls, row), *option = json_object_get(one, "option");
      json_t *value = json_object_get(one, "value");
      if (strcmp(json_string_value(json_object_get(one, "call")), info->name) != 0 ||
          (option != NULL) != (info->param == OPTION) || (value != NULL) != (info->has_size != 0))
        continue;
      if ((option && strcmp(json_string_value(option), kinds[i].option_text) != 0) ||
          (value && json_integer_value(value) != kinds[i].shown))
        continue;
      found++;
      CHECK((uint64_t)json_integer_value(json_object_get(one, "count")) == counted[i]);
    }
    CHECK(found == (counted[i] != 0), "%s %zu", info->name, i);
    expected += counted[i] != 0;
  }
  CHECK(json_array_size(calls) == expected);
}

static void says(const char *made, const char *of, const char *text) {
  struct control_counts counts = {0};
  for (; *made; made++)
    control_counts_add(&counts, kinds[*made - '0'].call, kinds[*made - '0'].option, kinds[*made - '0'].value);
  json_t *said = control_counts_json(&counts);
  CHECK(strcmp(json_string_value(json_object_get(said, "of")), of) == 0, "%s",
        json_string_value(json_object_get(said, "of")));
  CHECK(strcmp(json_string_value(json_object_get(said, "text")), text) == 0, "%s",
        json_string_value(json_object_get(said, "text")));
  json_decref(said);
}

int main(void) {
  unsigned seed = 1;
  for (unsigned round = 0; round < 200; round++) {
    struct control_counts counts = {0};
    uint64_t counted[KINDS] = {0};
    for (unsigned made = (unsigned)rand_r(&seed) % 40; made > 0; made--) {
      size_t i = (size_t)rand_r(&seed) % KINDS;
      control_counts_add(&counts, kinds[i].call, kinds[i].option, kinds[i].value);
      counted[i]++;
    }
    json_t *said = control_counts_json(&counts);
    if (said)
      agrees(json_object_get(said, "calls"), counted);
    for (size_t i = 0; i < KINDS; i++)
      CHECK(said || counted[i] == 0);
    json_decref(said);
  }
  says("0", "glibc", "sets M_ARENA_MAX=2");
  says("0010", "glibc", "sets M_ARENA_MAX=2 3 times and sets M_ARENA_MAX=3");
  says("4454", "glibc", "calls malloc_trim 4 times");
  says("847", "glibc and mimalloc", "calls malloc_trim, calls mi_collect and calls mi_option_set for option 15");
  says("0123469", "glibc and tbbmalloc",
       "sets M_ARENA_MAX=2, sets M_ARENA_MAX=3, sets M_MXFAST=-1, sets 77=0, calls malloc_trim, calls mallinfo and "
       "makes 1 other kind of such calls");
  return 0;
}

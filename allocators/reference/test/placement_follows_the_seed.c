/* SPDX-License-Identifier: MIT */
/* The same requests get the same places under the same seed, and other places under another seed; without a seed,
   objects of one size are side by side, as usual. No seed makes them overlap, and hardly any memory is lost. */
#include "allocators/common/entry.h"
#include "core/test/check.h"

enum { OBJECTS = 4000, OBJECT_BYTES = 104 };

struct layout {
  uintptr_t offsets[OBJECTS]; /* from the first object */
};

/* In the child: makes the objects, checks them, writes where they are. */
static int report(void) {
  static char *objects[OBJECTS];
  static struct layout layout;
  for (size_t index = 0; index < OBJECTS; index++) {
    objects[index] = malloc(OBJECT_BYTES);
    CHECK(objects[index] != NULL);
    memset(objects[index], (int)(index % 251), OBJECT_BYTES);
    layout.offsets[index] = (uintptr_t)objects[index] - (uintptr_t)objects[0];
  }
  for (size_t index = 0; index < OBJECTS; index++)
    for (size_t byte = 0; byte < OBJECT_BYTES; byte++)
      CHECK(objects[index][byte] == (char)(index % 251));
  for (size_t index = 0; index < OBJECTS; index++)
    free(objects[index]);
  return fwrite(&layout, sizeof layout, 1, stdout) == 1 && fflush(stdout) == 0 ? 0 : 1;
}

static void layout_under(const char *program, const char *tunables, struct layout *layout) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    setenv("REFERENCE_TUNABLES", tunables, 1);
    dup2(ends[1], STDOUT_FILENO);
    execl(program, program, "report", (char *)NULL);
    _exit(1);
  }
  close(ends[1]);
  FILE *from = fdopen(ends[0], "r");
  CHECK(fread(layout, sizeof *layout, 1, from) == 1);
  fclose(from);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static size_t side_by_side(const struct layout *layout) {
  size_t count = 0;
  for (size_t index = 1; index < OBJECTS; index++)
    count += layout->offsets[index] - layout->offsets[index - 1] == OBJECT_BYTES + 8;
  return count;
}

static uintptr_t span(const struct layout *layout) {
  uintptr_t most = 0;
  for (size_t index = 0; index < OBJECTS; index++)
    most = (intptr_t)layout->offsets[index] > (intptr_t)most ? layout->offsets[index] : most;
  return most;
}

int main(int argc, char **argv) {
  static struct layout plain, one, again, two, wide;
  if (argc > 1)
    return report();
  layout_under(argv[0], "", &plain);
  layout_under(argv[0], "placement_seed=1", &one);
  layout_under(argv[0], "placement_seed=1", &again);
  layout_under(argv[0], "placement_seed=2", &two);
  layout_under(argv[0], "placement_seed=2:placement_slack=65536", &wide);
  CHECK(memcmp(&one, &again, sizeof one) == 0);
  CHECK(memcmp(&one, &two, sizeof one) != 0);
  CHECK(memcmp(&two, &wide, sizeof two) != 0);
  CHECK(side_by_side(&plain) > OBJECTS * 9 / 10);
  CHECK(side_by_side(&one) < side_by_side(&plain));
  /* Gaps are filled: at most a few are open at a time. */
  CHECK(span(&one) < 2 * span(&plain));
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* Where only time is measured, a process that has called exec is seen before the exec is done, if it had to wait for a
   processor. Its name must still become the program's. */
#include "core/test/check.h"
#include "observe/observe.h"

int main(void) {
  static struct observation all = {.listener = -1, .interval_ns = 1};
  int executes[2], executed[2]; /* executed is closed by exec */
  char byte = 0;
  CHECK(pipe(executes) == 0 && pipe2(executed, O_CLOEXEC) == 0, "no pipes");
  pid_t child = fork();
  if (child == 0) {
    if (read(executes[0], &byte, 1) == 1)
      execl("/bin/sleep", "sleep", "1000", (char *)NULL);
    _exit(1);
  }
  close(executed[1]);
  all.pending[(uint32_t)child % OBSERVED_LIMIT].pid = child; /* it called exec long ago */
  observe_sample(&all);
  CHECK(all.count == 1 && strcmp(all.images[0].name, "sleep") != 0, "it is not seen before it executes");
  CHECK(write(executes[1], &byte, 1) == 1 && read(executed[0], &byte, 1) == 0, "it does not execute");
  for (int i = 0; i < 120000 && strcmp(all.images[0].name, "sleep") != 0; i++) { /* descriptors are closed before the
                                                                                    name changes */
    usleep(1000);
    all.images[0].next_row_ns = 0;
    observe_sample(&all);
  }
  CHECK(all.count == 1 && strcmp(all.images[0].name, "sleep") == 0, "its name is %s", all.images[0].name);
  CHECK(strstr(all.images[0].file, "sleep") || strstr(all.images[0].file, "busybox"), "its file is %s",
        all.images[0].file);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  observe_finish(&all);
  return 0;
}

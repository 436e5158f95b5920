/* SPDX-License-Identifier: GPL-2.0-only */
/* Two children: one allocates and one execs /bin/true. */
#include "core/test/usual.h"

int main(void) {
  for (int child = 0; child < 2; child++) {
    if (fork() != 0)
      continue;
    for (int i = 0; i < 1000; i++) {
      char *volatile object = malloc(100);
      memset(object, i, 100);
      free(object);
    }
    if (child == 1)
      execl("/bin/true", "true", NULL);
    _exit(0);
  }
  while (wait(NULL) > 0)
    ;
  return 0;
}

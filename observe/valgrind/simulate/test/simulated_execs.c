/* SPDX-License-Identifier: GPL-2.0-only */
/* Execs itself as often as its argument says, after an exec that fails; each program does other work, too. */
#include "core/test/usual.h"

int main(int count, char **arguments) {
  int left = count > 1 ? atoi(arguments[1]) : 0;
  for (volatile int i = 0; i < (left + 1) * 100000; i++)
    ;
  execl("/nonexistent", "nonexistent", NULL);
  if (left == 0)
    return 0;
  char text[16];
  snprintf(text, sizeof text, "%d", left - 1);
  execl(arguments[0], arguments[0], text, NULL);
  return 1;
}

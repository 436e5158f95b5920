/* SPDX-License-Identifier: GPL-2.0-only */
/* KIND BYTES TIMES: executes a repeated string instruction of that many bytes so often. */
#include "core/test/usual.h"

static char from[1 << 16], to[1 << 16];

int main(int count, char **arguments) {
  const char *kind = arguments[count - 3];
  unsigned long bytes = strtoul(arguments[count - 2], NULL, 10), times = strtoul(arguments[count - 1], NULL, 10);
  for (unsigned long time = 0; time < times; time++) {
    char *source = from, *target = to;
    unsigned long left = bytes;
    if (strcmp(kind, "stosb") == 0)
      __asm__ volatile("rep stosb" : "+D"(target), "+c"(left) : "a"(0) : "memory");
    if (strcmp(kind, "movsb") == 0)
      __asm__ volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(left) : : "memory");
    left /= 8;
    if (strcmp(kind, "movsq") == 0)
      __asm__ volatile("rep movsq" : "+D"(target), "+S"(source), "+c"(left) : : "memory");
    left = bytes / 4;
    if (strcmp(kind, "stosl") == 0)
      __asm__ volatile("rep stosl" : "+D"(target), "+c"(left) : "a"(0) : "memory");
    left = sizeof from;
    from[bytes - 1] = 1; /* the comparison of this byte, the last, fails */
    if (strcmp(kind, "cmpsb") == 0)
      __asm__ volatile("repe cmpsb" : "+D"(target), "+S"(source), "+c"(left) : : "memory", "cc");
    from[bytes - 1] = 0;
  }
  return 0;
}

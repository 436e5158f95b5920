/* SPDX-License-Identifier: MIT */
#include "allocators/common/base/secret.h"

#include <string.h>
#include <sys/auxv.h>

void secret_words(uintptr_t words[2]) {
  const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes, not aligned */
  words[0] = (uintptr_t)words * 0x9E3779B97F4A7C15u;       /* a kernel without them: the stack's address */
  words[1] = ~(uintptr_t)words * 0x9E3779B97F4A7C15u;
  if (random)
    memcpy(words, random, 2 * sizeof *words);
  words[0] |= 1;
  words[1] |= 1;
}

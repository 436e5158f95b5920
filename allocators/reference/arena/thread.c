/* SPDX-License-Identifier: MIT */
#include "allocators/reference/arena/thread.h"

#include "allocators/common/base/secret.h"

struct tcache no_cache;
__thread struct thread thread = {.cache = &no_cache};
uintptr_t tcache_key, fast_key;

void thread_setup(void) {
  uintptr_t words[2];
  secret_words(words);
  tcache_key = words[0];
  fast_key = words[1];
}

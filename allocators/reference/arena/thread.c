#include "allocators/reference/arena/thread.h"

#include <pthread.h>
#include <sys/auxv.h>

struct tcache no_cache;
__thread struct thread thread = {.cache = &no_cache};
uintptr_t tcache_key, fast_key;

static pthread_key_t thread_end;
static bool thread_end_known;

void thread_setup(void (*on_end)(void *unused)) {
  uintptr_t keys[2] = {(uintptr_t)&thread * 0x9E3779B97F4A7C15u, ~(uintptr_t)&thread * 0x9E3779B97F4A7C15u};
  const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes, not aligned */
  if (random)
    __builtin_memcpy(keys, random, sizeof keys);
  tcache_key = keys[0] | 1;
  fast_key = keys[1] | 1;
  thread_end_known = pthread_key_create(&thread_end, on_end) == 0;
}

void thread_watch_end(void) {
  /* May call calloc: then this thread has a cache or an arena already, and does not come here again. */
  if (thread_end_known)
    pthread_setspecific(thread_end, &thread);
}

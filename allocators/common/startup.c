/* SPDX-License-Identifier: MIT */
#include "allocators/common/startup.h"

#include "allocators/common/counters.h"
#include "allocators/common/entry.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/auxv.h>

const char allocator_name[] = ALLOCATOR_NAME, allocator_variable[] = ALLOCATOR_VARIABLE;
bool started;
size_t os_page_bytes = 4096;

static void after_fork_in_child(void) {
  allocator_after_fork_in_child();
  counters_after_fork();
}

/* POSIX runs prepare handlers in reverse order of registration. Ours are registered by the first malloc of the process,
   so they run last before the fork, when other handlers no longer allocate, and first afterwards, before these allocate
   again. */
void startup_first(void) {
  int error = errno;
  started = true;
  tunables_read();
  unsigned long bytes = getauxval(AT_PAGESZ);
  if (bytes)
    os_page_bytes = bytes;
  allocator_start();
  pthread_atfork(allocator_before_fork, allocator_after_fork_in_parent, after_fork_in_child);
  errno = error;
}

/* Most programs have called malloc before this; those that never do get warnings about wrong settings, too. */
__attribute__((constructor)) static void at_load(void) {
  startup();
}

static pthread_key_t key;
static bool key_exists;

void thread_end_setup(void (*on_end)(void *unused)) {
  key_exists = pthread_key_create(&key, on_end) == 0;
}

void thread_end_watch(void) {
  if (key_exists)
    pthread_setspecific(key, &key);
}

#include "allocators/reference/startup.h"

#include "allocators/reference/arena/arena.h"
#include "allocators/reference/arena/arenas.h"
#include "allocators/reference/arena/heap.h"
#include "allocators/reference/base/tunables.h"
#include "allocators/reference/tcache.h"

#include <errno.h>
#include <pthread.h>
#include <sys/auxv.h>

bool started;

/* POSIX runs prepare handlers in reverse order of registration. Ours is registered by the first malloc of the process,
   so it runs last, when the handlers of others no longer allocate; and first afterwards, before they do again. */
static void before_fork(void) {
  arenas_lock_all();
}

static void after_fork_in_parent(void) {
  arenas_unlock_all();
}

static void after_fork_in_child(void) {
  arenas_after_fork();
  counters_after_fork();
}

void startup_first(void) {
  int error = errno;
  started = true;
  tunables_read();
  unsigned long os_page_bytes = getauxval(AT_PAGESZ);
  if (os_page_bytes)
    heap_os_page_bytes = os_page_bytes;
  bins_setup(&main_arena.bins);
  tcache_setup();
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  errno = error;
}

/* Most programs have called malloc before this; those that never do get warnings of wrong settings too. */
__attribute__((constructor)) static void at_load(void) {
  startup();
}

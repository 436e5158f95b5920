/* SPDX-License-Identifier: MIT */
#include "replay/passes/held.h"

#include "replay/calls/call.h"
#include "replay/engine/state.h"
#include "replay/passes/memory.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>

/* Weak references, as in call.c: a failing dlsym would allocate. Names and numbers are those of the libraries' manuals.
 */
__attribute__((weak)) int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
__attribute__((weak)) void MallocExtension_ReleaseFreeMemory(void);
__attribute__((weak)) void mi_collect(bool force);
__attribute__((weak)) int scalable_allocation_command(int command, void *reserved);

enum { TBB_CLEAN_ALL_BUFFERS = 0 };

/* Returns whether the function is of the library under test. libc's malloc_trim exists beside any of them. */
static bool belongs(const void *function) {
  Dl_info mine, of_malloc;
  return function && dladdr(function, &mine) && dladdr((void *)allocator.malloc, &of_malloc) &&
         mine.dli_fbase == of_malloc.dli_fbase;
}

/* Returns the call's name; NULL: no purge call is known for this allocator. */
static const char *purge(void) {
  if (belongs((void *)mallctl)) {
    /* The thread's cache first: arenas can't purge what is in it. 4096: all arenas. */
    mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
    return "mallctl thread.tcache.flush, arena.4096.purge";
  }
  if (belongs((void *)mi_collect)) {
    mi_collect(true);
    return "mi_collect(true)";
  }
  if (belongs((void *)MallocExtension_ReleaseFreeMemory)) {
    MallocExtension_ReleaseFreeMemory();
    return "MallocExtension_ReleaseFreeMemory()";
  }
  /* It is in another library than malloc, which only forwards to it. */
  if (scalable_allocation_command && !engine.result->malloc_is_of_libc) {
    scalable_allocation_command(TBB_CLEAN_ALL_BUFFERS, NULL);
    return "scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS)";
  }
  if (belongs((void *)malloc_trim)) {
    malloc_trim(0);
    return "malloc_trim(0)";
  }
  return NULL;
}

static void free_all(void) {
  for (uint32_t slot = 0; slot < engine.workload.header.slots; slot++) {
    struct object *object = &engine.objects[slot];
    if (object->pointer && object->size_bytes != OBJECT_MISSING)
      call_free(object->pointer);
    *object = (struct object){NULL, 0};
  }
}

void held_measure(struct replay_result *result) {
  atomic_store(&result->phase, PHASE_EMPTYING);
  free_all();
  memory_read(&result->freed.rss_anon_bytes, &result->freed.vm_size_bytes);
  const char *name = purge();
  memory_read(&result->purged.rss_anon_bytes, &result->purged.vm_size_bytes);
  atomic_store(&result->phase, PHASE_DONE);
  if (name)
    snprintf(result->purge_call, sizeof result->purge_call, "%s", name);
}

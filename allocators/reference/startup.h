/* Everything that must happen before the first chunk is handed out. */
#ifndef ALLOCATORS_REFERENCE_STARTUP_H
#define ALLOCATORS_REFERENCE_STARTUP_H

#include "allocators/reference/base/chunk.h"

extern bool started;

/* Reads the tunables, makes the main arena usable, registers the fork handlers. The first call of a process is made by
   the dynamic linker or a constructor, before a second thread can exist; it needs no lock. Allocates nothing. */
void startup_first(void);

static inline void startup(void) {
  if (UNLIKELY(!started))
    startup_first();
}

#endif

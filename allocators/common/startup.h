/* SPDX-License-Identifier: MIT */
/* Everything that must happen before the first object is handed out. */
#pragma once

#include "allocators/common/base/basics.h"

#include <stdbool.h>
#include <stddef.h>

extern bool started HIDDEN;

/* The size of an OS page. */
extern size_t os_page_bytes HIDDEN;

/* Reads the tunables, starts the allocator (hooks.h), registers the fork handlers. The dynamic linker or a constructor
   makes the first call of a process, before a second thread can exist; so no lock is needed. Allocates nothing. */
void startup_first(void);

static inline void startup(void) {
  if (UNLIKELY(!started))
    startup_first();
}

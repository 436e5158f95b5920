/* SPDX-License-Identifier: MIT */
/* Loads a library into a running process: in one of its own threads, while this thread holds no lock of
   the allocator or of the dynamic linker. Where the library is not loaded, all references and functions are as they
   were. Allocates with malloc. */
#pragma once

#include "capture/attach/linked_running.h"
#include "capture/attach/tracee/tracee.h"
#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct loading {
  const char *library;                    /* path, here */
  const char *setting;                    /* of the recorder */
  struct linked_running *linked;          /* the allocator in the executable */
  bool (*should_continue)(void *context); /* false: give up */
  void (*report_waiting)(void *context);  /* no thread has reached the relay for some seconds */
  void *context;
};

/* Waits while the dynamic linker loads a program that has just begun, for some seconds at most. -1: it has no GNU C
   library, or not yet; error as below. */
int loading_wait_for_libc(const struct loading *loading, const struct tracee *tracee, struct error *error);

/* -1: the library is not loaded; error is empty where it was not wanted any more. After success, references may lead to
   the relay's entries, and functions of the executable do. */
int loading_bring(const struct loading *loading, struct tracee *tracee, struct error *error);

/* Is that the address of an entry of a relay, possibly an earlier recorder's? *real: the function behind it. */
bool relay_entry_at(const struct tracee *tracee, uint64_t address, uint64_t *real);

/* SPDX-License-Identifier: MIT */
/* Filters of system calls (seccomp): which of this library's calls they permit. A process that puts itself under one by
   prctl or syscall (filter_calls.h) tells us the filter, which we evaluate
   (capture/wire/seccomp_calls.def). A fresh image under filters that it was started with may attach only if they are
   the recorder's own, or known to permit all. So no call of ours can end a host, or is refused to it. The collector
   notices filters set by a program's own instruction, up to a sample later; from then on all is forbidden.

   Not its job: what a filter says (core/system/seccomp_filter.h). Invariants: while a filter is being set all is
   forbidden; what a failed call would have forbidden is permitted again. A fork child inherits what is forbidden.
   Keeps errno, allocates nothing, async-signal-safe. */
#pragma once

#include "capture/wire/exec_note.h"

#include <linux/filter.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* For what the library makes system calls. */
enum host_purpose {
  HOST_RELAY = 1,     /* only --attach, or the redirection of an allocator in the executable */
  HOST_CONTACT = 2,   /* to reach the recorder: attaching, more rings */
  HOST_MAP = 4,       /* memory of its own */
  HOST_SLEEP = 8,     /* to wait for the recorder or for another thread, and to wake them */
  HOST_SIGNALS = 16,  /* to block signals */
  HOST_THREAD = 32,   /* which threads there are */
  HOST_RESIDENT = 64, /* resident OS pages of large objects */
  HOST_STACK = 128,   /* is there another signal stack? */
  HOST_YIELD = 256,
  HOST_FILES = 512,   /* /proc/self */
  HOST_PRINT = 1024,  /* a line on standard error */
  HOST_REBIND = 2048, /* to change references that are read-only */
  HOST_UNLOCK = 4096, /* to unlock memory of its own */
  HOST_SELF = 8192,   /* its number */
  HOST_ALL = 16383,
};

/* May it make the calls for these purposes? Cheap. In a fresh image, the first call reads /proc/self/status, by the
   calls that the loader has made before. */
bool host_may(uint32_t purposes);

/* May this image not attach, as it began under filters of which we don't know that they permit it, or without
   HEAPTAPE_SOCKET? Then it makes no system call. As host_may. */
bool filters_exclude(void);

/* Is that known already? For hooks that save no registers: changes none but general ones, and calls nothing. */
bool filters_have_excluded(void);

/* A sandbox of another kind (Landlock) does not let us connect to the collector: no more calls for HOST_CONTACT, here
   and in what the process executes. */
void filters_note_refusal(void);

/* Will a program attach that this process executes? */
enum exec_outlook filters_outlook(void);

/* Where the collector notes that the process is under filters of which we were not told; NULL: nowhere any more. */
void filters_watch(const _Atomic uint32_t *by_collector);

/* Before and after a call that sets a filter. set: it did; filter NULL: strict mode. */
void filters_begin(void);
void filters_end(bool set, const struct sock_fprog *filter);

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

/* What is forbidden: of the process, and inherited by fork children. Where any bit above those of enum host_purpose is
   set, all is. */
enum {
  FILTERS_UNKNOWN = 1 << 14, /* a fresh image, which has not read /proc/self/status */
  FILTERS_EXCLUDE = 1 << 15, /* see filters_exclude */
  FILTERS_SETTING = 1 << 16, /* one for each call under way that sets a filter */
  FILTERS_ANY = -(1 << 14),
};
extern _Atomic uint32_t filters_forbid __attribute__((visibility("hidden")));

/* Where the collector notes that the process is under filters of which we were not told; NULL: nowhere. */
extern const _Atomic uint32_t *filters_seen __attribute__((visibility("hidden")));

/* Of the thread (syscall user dispatch, as Wine has it): at a value other than 0 there, the kernel sends its system
   calls to a handler of the program; NULL: it never does. */
extern __thread const volatile char *filters_dispatch __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* May this image not attach, as it began under filters of which we don't know that they permit it, or without
   HEAPTAPE_SOCKET? Then it makes no system call. The first call reads /proc/self/status, by the calls that the loader
   has made before. */
bool filters_exclude(void);

/* The number of filters that the calling thread is under, from /proc; -1: it can't be read. Precondition: HOST_FILES.
 */
long filters_count(void);

/* Is that known already? For hooks that save no registers: changes none but general ones, and calls nothing. */
static inline bool filters_have_excluded(void) {
  return atomic_load_explicit(&filters_forbid, memory_order_relaxed) & FILTERS_EXCLUDE;
}

/* May it make the calls for these purposes? Cheap, but the first call in a fresh image. */
static inline bool host_may(uint32_t purposes) {
  const _Atomic uint32_t *seen = filters_seen;
  uint32_t forbidden = atomic_load_explicit(&filters_forbid, memory_order_relaxed) & (purposes | FILTERS_ANY);
  if (__builtin_expect(forbidden == FILTERS_UNKNOWN, 0))
    forbidden = filters_exclude();
  const volatile char *dispatch = filters_dispatch;
  return !forbidden && !(seen && atomic_load_explicit(seen, memory_order_relaxed)) && !(dispatch && *dispatch);
}

/* A sandbox of another kind (Landlock) does not let us connect to the collector: no more calls for HOST_CONTACT, here
   and in what the process executes. */
void filters_note_refusal(void);

/* Will a program attach that this process executes? */
enum exec_outlook filters_outlook(void);

/* Before and after a call that sets a filter. set: it did; filter NULL: strict mode. */
void filters_begin(void);
void filters_end(bool set, const struct sock_fprog *filter);

/* SPDX-License-Identifier: MIT */
/* The library's state of the recorded process: its regions, its producers, and whether it records.

   Not its job: attaching to the collector (attach.h), threads and records (producer.h). Invariants: the struct is in
   memory that a fork child finds wiped, so that a child never takes its parent's state for its own; state goes from NEW
   to RECORDING to OFF, or from NEW to OFF, and never back. Everything here keeps errno, is never a cancellation point
   and may be called with signals blocked or not. */
#pragma once

#include "capture/wire/ring.h"

#include <stdbool.h>
#include <stddef.h>

enum { PRODUCERS_MAX = 65536 };

enum process_state { PROCESS_NEW, PROCESS_RECORDING, PROCESS_OFF };

struct producer;

/* One per process. All zero: a process that has not attached. */
struct process {
  _Atomic uint32_t state;
  _Atomic uint32_t lock; /* for attaching and for assigning producers; held with all signals blocked */
  int pid;
  uint32_t flags; /* enum attach_flags */
  uint32_t regions;
  uint32_t rings_left; /* of the last region */
  struct {
    struct region *memory;
    uint32_t rings;
  } region[REGIONS_MAX];
  char *pool; /* where the next producers come from */
  size_t pool_bytes;
  uint32_t producers, probe, threads;
  void (*release)(const struct process *); /* unmaps the producers' memory; NULL: there are none */
  struct producer *producer[PRODUCERS_MAX];
};

/* This process; NULL: no memory for it. In a fork child of a process that had one, it is all zero. */
struct process *process_own(void);

/* The address at which process_own keeps its pointer, for the recorder: writing NULL there starts over. */
void *process_place(void);

/* True once it is known that this process is not, or no longer, recorded. Cheap. */
bool process_is_off(void);

/* Not recursive. */
void process_lock(struct process *process);
void process_unlock(struct process *process);

/* Ends the recording of this process; the first caller's reason is printed (messages.h), NULL: nothing is. */
void process_stop(struct process *process, const char *why);

/* Memory that is private, anonymous and wiped in a fork child; NULL on failure. */
void *process_map_wiped(size_t bytes);

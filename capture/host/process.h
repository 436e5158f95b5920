/* SPDX-License-Identifier: MIT */
/* The recorded process, as the library sees it: the values that the fast path needs, as globals; the process's banks,
   its producers, and whether it records; attaching to the collector; signals that are blocked for a while; lines on the
   program's standard error.

   Not its job: threads and records (producer.h). Sources: process.c, and attach.c, which sets the globals. Invariants:
   the globals are valid once the process has attached, and all zero before; a fork child finds its parent's values
   there until it attaches, but uses none, as its producers are wiped. struct process is in memory that a
   fork child finds wiped, so that a child never takes its parent's state for its own; its state goes from NEW to
   RECORDING to OFF, or from NEW to OFF, and never back. No descriptor is kept between calls; failure ends the
   recording, never the host. Everything here is async-signal-safe, allocates nothing by malloc, is never a cancellation
   point and keeps errno (message_print may change it). */
#pragma once

#include "capture/host/kernel/filters.h"
#include "capture/wire/ring.h"

#include <stdbool.h>
#include <stddef.h>

enum { TAG_BITS = 17, TAG_ENTRIES = 1 << TAG_BITS, LARGE_SETS = 4096, LARGE_WAYS = 4 };

/* The state of a place in the heap, which the hooks check with one comparison. */
union tag_entry {
  struct {
    _Atomic uint16_t tag;      /* ownership.h */
    _Atomic uint16_t uncommon; /* number of reasons why no step here is a common one, mainly large objects (large.h) */
  };
  _Atomic uint32_t both; /* low half: tag */
};
_Static_assert(sizeof(union tag_entry[TAG_ENTRIES]) % (64 << 10) == 0, "the control page is not at an OS page's start");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tag is not the low half of both");

/* Tables of all threads of the process; in shared memory, so that they don't add to the host's RssAnon. One object, so
   that a hook needs one pointer. */
struct tables {
  union tag_entry entry[TAG_ENTRIES];
  union {
    struct control control; /* the collector's page, mapped here */
    char control_room[64 << 10];
  };
  _Atomic uint8_t large_use[LARGE_SETS]; /* large.h: entries of the set that are in use */
  struct large_entry {
    _Atomic uintptr_t address; /* 0: free */
    _Atomic uint64_t bytes;    /* request */
  } large[LARGE_SETS][LARGE_WAYS];
};

/* What a thread is doing, as noted in its producer. */
enum producer_state {
  PRODUCER_NONE = 16, /* there is no producer, only a struct producer_quick */
  PRODUCER_WIPED = 0, /* a fork child's view of its parent's producer */
  PRODUCER_IDLE,      /* in no call, or in a real function that calls none of the hooks */
  PRODUCER_CALLING,   /* inside a real function */
  PRODUCER_NEW,       /* inside a real operator new, which may itself call malloc, or a new-handler of the program */
  PRODUCER_DELETE,    /* inside a real operator delete, which may itself call free */
  PRODUCER_RECORDING, /* cursor is being moved */
  PRODUCER_OFF,       /* excluded */
  PRODUCER_SLOW,      /* IDLE where each call takes the slow path: optional columns are recorded, or a real function may
                         call a hook */
};

struct host_state {
  struct tables *tables;
  uint32_t flags;          /* enum attach_flags */
  const struct bank *bank; /* the first */
  uint64_t touch_min_bytes;
  /* In state IDLE, requests below it are recorded in one slot, are not large, and the real function calls no hook; [0]:
     of malloc, realloc and operators, [1]: of other functions. */
  uint64_t quick_bytes[2];
  uint64_t os_page_bytes;
  uint32_t idle;       /* enum producer_state of a thread in no call: IDLE or SLOW */
  uint32_t clock_cost; /* duration of two clock readings, in its units; subtracted from each latency */
};
extern struct host_state host_state __attribute__((visibility("hidden")));

/* Bits of enum pause_reason. Cheap. Precondition: the process has attached. */
static inline uint32_t host_paused(void) {
  return atomic_load_explicit(&host_state.bank->paused, memory_order_relaxed);
}

/* Has the collector died? Cheap. Precondition: the process has attached. */
bool host_collector_died(void);

/* Notes that calls of some objects of the process do not reach us. */
void host_note_lost_calls(void);

/* Counts a call that is not recorded, also before the process has attached. */
void host_count_missing(void);
/* Those that were counted before. */
uint64_t host_missing_before(void);

/* Ends the collector's sleep, if it sleeps. Precondition: the process has attached. */
void host_wake_collector(void);

enum { PRODUCERS_MAX = 65536 };

enum process_state { PROCESS_NEW, PROCESS_RECORDING, PROCESS_OFF };

struct producer;

/* One per process. All zero: a process that has not attached. */
struct process {
  _Atomic uint32_t state;
  _Atomic uint32_t lock;    /* for attaching and for assigning producers; held with all signals blocked */
  _Atomic uint32_t counted; /* calls that its parent's bank counts; the first counts it: bank.children */
  int pid;
  uint32_t flags;     /* enum attach_flags */
  _Atomic int locked; /* flags of the program's last mlockall */
  uint32_t banks;
  uint32_t rings_left; /* of the last bank */
  struct {
    struct bank *memory;
    uint32_t rings;
  } bank[BANKS_MAX];
  char *pool; /* where the next producers come from */
  size_t pool_bytes;
  uint32_t producers, probe, threads;
  void (*release)(const struct process *); /* unmaps the producers' memory; NULL: there are none */
  struct producer *producer[PRODUCERS_MAX];
};

/* This process; NULL: no memory for it. In a fork child of a process that had one, it is all zero. */
struct process *process_own(void);
/* NULL: process_own has not been called yet. */
struct process *process_known(void);

/* The address at which process_own keeps its pointer, for the recorder: writing NULL there starts over. */
void *process_place(void);

/* Has the process attached, and is it recorded? Cheap. */
bool process_is_recording(void);

/* The number that it had when it attached; 0: it has not. In a vfork child its parent's. */
int process_own_number(void);

/* True once it is known that this process is not, or no longer, recorded. Cheap. */
bool process_is_off(void);

/* Makes that known, for fork children too, where nothing is to be mapped for it. */
void process_exclude(void);

/* Not recursive. */
void process_lock(struct process *process);
void process_unlock(struct process *process);

/* Ends the recording of this process; the first caller's reason is printed, NULL: nothing is. */
void process_stop(struct process *process, const char *why);

/* The process, attached if that can be done; NULL if it is not to be recorded. Call with signals blocked and not
   locked. */
struct process *attach_process(void);

/* Adds a bank; called with the process locked. False: the collector provides none. */
bool attach_bank(struct process *process);

/* Blocks all signals of the calling thread. *mask receives what was blocked before: 64 bits, as the kernel has it.
   Where a filter of system calls forbids it (filters.h) nothing is blocked: the caller must be correct without. */
void signals_block(uint64_t *mask);
void signals_restore(const uint64_t *mask);

/* Blocked for a while: does a signal wait that may end or alarm the program? Not one that the program blocks. */
bool signals_are_urgent(void);

enum { OWN_STACK_BYTES = 256 << 10 }; /* the dynamic linker uses some 10 KiB */
/* Runs code(argument) on a stack of its own, with all signals blocked: for what needs more stack than a call of the
   malloc API may, as the thread's stack may be a fiber's of a few KiB. False: there is no memory for a stack, or a
   filter of system calls forbids it (filters.h); nothing was run. */
bool own_stack_run(void (*code)(void *), void *argument);

/* Notes what standard error is now: once per image, before the program can have changed it. */
void message_note_stderr(void);

/* Prints "heaptape: TEXT", cut to one line of 255 bytes. Nothing is written where a program has replaced the standard
   error that it was started with by its own file or socket, as a line of ours would damage its data; nor where a
   filter of system calls forbids it. */
void message_print(const char *text);

/* Writes the number in decimal, with a zero byte behind it, at most 21 bytes. Returns where that byte is. */
char *message_put_number(char *to, uint64_t number);

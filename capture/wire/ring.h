/* SPDX-License-Identifier: MIT */
/* What the host's library and the collector share: records, rings, and the messages of attaching.

   Layout only: no code that waits, maps or prints. A bank is memory of the collector (a sealed memfd) that one host
   process maps; it holds rings, each owned by one thread at a time. The host writes records; the collector zeroes them
   and writes tail; neither ever takes a lock of the other.

   Invariants: a record is 16 bytes; a slot of the ring is zero unless it holds a record that the collector has not read
   yet. The host writes a record's second word last, and it is never 0, so the collector reads up to the first slot
   whose second word is 0. A thread takes its slots in sequence. It leaves one empty only while a signal handler has
   interrupted it between taking and writing; the handler's records are then behind that slot. Where the host continues
   at another place than the next slot, it writes a JUMP record, so that the collector need not know how long the lap
   was. The host may be broken or hostile: the collector checks every position that it reads here. */
#pragma once

#include "capture/wire/exec_note.h"
#include "capture/wire/linked.h"
#include "capture/wire/proof.h"

#include <stdatomic.h>
#include <stdint.h>

/* A record has a head, op | address << 8, and a word: size, stamp or other value, according to the op. For an event, op
   is the call byte of the trace (id and NULL flags). The ids 61 to 63 are never calls, so with the flag bits they name
   the control records. How they are stored: record_put, record_get. */
enum record_op {
  RECORD_TEXT = 61,           /* 15 bytes of text after the op: the head's other 7, then the word's 8 */
  RECORD_MARK = 61 | 0x40,    /* word: stamp; the mark's text came before, of which address bytes count */
  RECORD_COLUMNS = 61 | 0x80, /* optional columns of the next event: record_columns */
  RECORD_LATENCY = 61 | 0xc0, /* word: duration of the real call of the event before, which released address */
  RECORD_PARAM = 62,          /* word: element count or alignment of the next event */
  RECORD_STAMP = 63,          /* word: stamp of the next step */
  RECORD_BEGIN = 62 | 0x40,   /* a resize has begun: address = old object, word = stamp of the release, or 0 */
  RECORD_JUMP = 63 | 0x40,    /* the next record is address bytes from the ring's start */
  RECORD_THREAD = 62 | 0x80, /* the ring has a new owner; the old one, if any, is dead. Word: serial number of the owner
                                among the process's threads; with ATTACH_ACCESSES first owners have a record too */
  RECORD_DROPPED = 63 | 0x80, /* word: number of events of this thread that are missing here; address: enum missing */
  RECORD_TOUCHED = 62 | 0xc0, /* the next event or BEGIN releases address; word: its resident OS pages in the lower
                                 half, their map (core/base/touched.h) in the upper one */
  RECORD_LIVE = 63 | 0xc0,    /* address is a large object that is live at the end; word: likewise */
};

/* Stored, a record is one of three:
   - common: first the word, then the head with its op in the upper byte instead of the lower one;
   - quick, of an event with an address and no stamp: first the address, all 64 bits of it, then the size, below
     RECORD_QUICK_BYTES (0 where the call has none), and the call's id, both in the lower half; the upper bit of this
   half and all bits of the upper half are set. So the second word is made by one instruction, or is a constant;
   - void: the second word has all bits set. It only means that the call to which the records before it belong was not
   completed. */
enum { RECORD_QUICK_BYTES = 1 << 24 };
#define RECORD_VOID UINT64_MAX
static inline uint64_t record_quick(uint8_t id, uint64_t size_bytes) {
  return size_bytes | (0xffffffff80000000 | (uint64_t)id << 24);
}

/* Stores the words as given. */
static inline void record_put_words(uint64_t *to, uint64_t first, uint64_t second) {
  to[0] = first;
  atomic_store_explicit((_Atomic uint64_t *)&to[1], second, memory_order_release);
}

/* Writes a record, with a constant op in few instructions. */
static inline void record_put(uint64_t *to, uint64_t head, uint64_t word) {
  record_put_words(to, word, head >> 8 | head << 56);
}

/* True: the slot held a record, which is now in *head and *word; *head is RECORD_VOID where it is void. */
static inline int record_get(const uint64_t *from, uint64_t *head, uint64_t *word) {
  uint64_t second = atomic_load_explicit((const _Atomic uint64_t *)&from[1], memory_order_acquire), first = from[0];
  if (second == 0)
    return 0;
  *head = second == RECORD_VOID ? second : second << 8 | second >> 56;
  *word = first;
  if (second >> 31 == UINT64_MAX >> 31 && second != RECORD_VOID) {
    *head = (second >> 24 & 0x7f) | first << 8;
    *word = second % RECORD_QUICK_BYTES;
  }
  return 1;
}

/* The optional columns of an event; each is 0 where it is not known. Latency and slack as in struct trace_event; the
   stack is a node of the process's stack_area. */
struct record_columns {
  uint64_t latency; /* below 2^56 */
  uint32_t slack, stack;
};
static inline void record_columns_put(uint64_t *to, const struct record_columns *columns) {
  record_put(to, RECORD_COLUMNS | (uint64_t)columns->stack << 8 | columns->latency << 40,
             columns->latency >> 24 << 32 | columns->slack);
}
static inline struct record_columns record_columns_get(uint64_t head, uint64_t word) {
  return (struct record_columns){head >> 40 | word >> 32 << 24, (uint32_t)word, (uint32_t)(head >> 8)};
}

/* Why events are missing. */
enum missing { MISSING_RING_FULL, MISSING_PAUSED, MISSING_KINDS };

/* A ring is 256 KiB. Host CPU per event, lower quartile and median of 31 alternating pairs on a machine with other
   work: cfrac 10 and 15 ns with 64 KiB, 6 and 10 with 256 KiB, 5 and 8 with 1 MiB; larson 13 and 14, 11 and 13, 10
   and 12. With a small ring the host waits for the collector; more than 256 KiB gains little, and each busy thread has
   one. An idle thread uses only a short first lap of it (producer.c); the kernel allocates no memory for the rest. */
#define RING_BYTES ((uint32_t)256 << 10)

/* At its end a ring has a bit for each slot that the host will not use again, as an interrupted call may still write to
   it. The host makes such a slot void once, so that the collector passes it, and later jumps over it. Beyond
   RING_GIVEN_UP slots, it uses one of them again: for a conflict, a call would have to stay interrupted while its
   thread gave up that many others. */
enum { RING_GIVEN_UP = 256, RING_BITS_BYTES = 2048 };
#define RING_RECORDS_BYTES (RING_BYTES - RING_BITS_BYTES)
_Static_assert(RING_RECORDS_BYTES / 16 <= RING_BITS_BYTES * 8, "a ring lacks bits");

static inline _Atomic uint64_t *ring_given_up_bits(char *memory, uint32_t place) {
  return (_Atomic uint64_t *)(memory + RING_RECORDS_BYTES) + place / (16 * 64);
}
static inline uint64_t ring_given_up_bit(uint32_t place) {
  return (uint64_t)1 << (place / 16 % 64);
}
static inline int ring_is_given_up(char *memory, uint32_t place) {
  uint64_t bits = atomic_load_explicit(ring_given_up_bits(memory, place), memory_order_relaxed);
  return (bits & ring_given_up_bit(place)) != 0;
}

enum { RING_WAIT_NS = 20000000 };

/* One thread's ring: separate cache lines of host and collector, so that neither writes what the other spins on. */
struct ring {
  _Alignas(64) _Atomic uint32_t lap;  /* bytes of the ring that are or were in use */
  _Atomic uint32_t waiting;           /* the host sleeps on drained */
  _Atomic uint32_t owner;             /* the kernel's id of its thread */
  _Atomic uint32_t waits_ended;       /* waits of RING_WAIT_NS after which nothing had woken it */
  _Atomic uint64_t nested;            /* calls that the allocator made inside another call */
  _Atomic uint64_t dropped;           /* events dropped, including those that DROPPED records report */
  _Atomic uint64_t skipped;           /* calls made in pauses, including those that DROPPED records report */
  _Atomic uint64_t marks_lost;        /* heaptape_mark found the ring full */
  _Atomic uint64_t large_stamps;      /* how long it took to record large objects */
  _Atomic uint64_t waited_stamps;     /* how long the host has waited for room besides, until it was woken */
  _Alignas(64) _Atomic uint32_t tail; /* bytes from the ring's start up to which the collector is done */
  _Atomic uint32_t drained;           /* futex: changes when tail has moved and the host waits */
  _Atomic uint64_t woken;             /* stamp of that change */
  _Atomic uint32_t stopped;           /* tail plus 1 while the collector has found an empty slot there; else 0 */
};

/* How far the collector has read: it zeroes those slots before, and the host writes to them after. Sequentially
   consistent, as each side next checks the other's state: the collector, whether the host sleeps; the host, whether the
   collector has read more. */
static inline void ring_set_tail(struct ring *ring, uint32_t tail) {
  atomic_store(&ring->tail, tail);
}
static inline uint32_t ring_tail(const struct ring *ring) {
  return atomic_load_explicit(&ring->tail, memory_order_acquire);
}

/* Is that a place in the ring where the collector can be? The host may have overwritten the tail itself. */
static inline int ring_tail_fits(uint32_t tail, uint32_t lap) {
  return tail % 16 == 0 && tail < lap && tail < RING_RECORDS_BYTES;
}

/* Bits of bank.paused: no call is recorded while any is set. */
enum pause_reason {
  PAUSED_BY_CONTROL = 1, /* set and cleared by the collector, as is PAUSED_FROM_START */
  PAUSED_BY_PROGRAM = 2, /* heaptape_pause; set and cleared by the host */
  PAUSED_FROM_START = 4, /* recording has not started: calls are not counted as missing, as the trace lacks "start" */
  PAUSED_BY_BUDGET = 16, /* between two bursts; set and cleared by the collector */
  PAUSED_BY_SANDBOX = 8, /* the host may read no clock any more; set by the host, never cleared */
};

struct bank {
  _Atomic uint32_t used;       /* rings 0 .. used - 1 are in use or were */
  _Atomic uint32_t stop;       /* set by the collector: stop recording this process */
  _Atomic uint32_t paused;     /* of the first bank: enum pause_reason; the tick is advanced after each change */
  _Atomic uint32_t bursts;     /* of the first bank: beginnings and ends of bursts that the operator requested; odd: a
                                  burst is to begin. The tick is advanced after each change */
  _Atomic uint32_t filters;    /* of the first bank: filters of system calls that the host has set, or is setting */
  _Atomic uint32_t sandboxed;  /* of the first bank: set by the collector: there are more, so it may make no call */
  _Atomic uint32_t calls_lost; /* of the first bank: some objects' calls do not reach us (libraries.c) */
  _Atomic uint64_t orphan;     /* events lost because their thread could get no ring */
  _Atomic uint32_t children;   /* of the first bank: fork children that are kept from the collector, and only count
                                  their calls, as orphans */
  _Atomic uint32_t sandboxing; /* of the first bank: a sandbox has kept the process or a child from the collector */
  _Atomic uint32_t noted;      /* of the first bank: notes made so far */
  _Atomic uint32_t notes_lost; /* of the first bank: and not made, as none was free */
  struct exec_note notes[EXEC_NOTES]; /* of the first bank */
  struct ring rings[];
};

/* Bytes before the first ring's memory, and of a whole bank. */
static inline uint64_t bank_header_bytes(uint32_t rings) {
  return (sizeof(struct bank) + rings * sizeof(struct ring) + 4095) & ~(uint64_t)4095;
}
static inline uint64_t bank_bytes(uint32_t rings) {
  return bank_header_bytes(rings) + (uint64_t)rings * RING_BYTES;
}

/* The first bank is small: most processes have few threads, and a bank adds to their VmSize. */
enum { BANK_RINGS_FIRST = 16, BANK_RINGS_MORE = 256, BANKS_MAX = 260 };

/* A page for each user that has processes in a recording: what one user's processes write there harms no other's. */
enum { CONTROL_BYTES = 4096 };
struct control {
  /* The upper half is the tick, which is advanced about every millisecond (control_advance_tick); a thread that finds
     it changed stamps its next step. The lower half is 0, so that a hook can add something to it. */
  _Alignas(64) _Atomic uint64_t tick;
  _Alignas(64) _Atomic uint32_t wake; /* futex: the collector sleeps on its own user's */
  _Atomic uint32_t sleeping;          /* 1 while it does */
  _Atomic uint32_t collector_futex;   /* the collector's robust futex: the kernel sets FUTEX_OWNER_DIED when it ends */
  _Atomic uint32_t asked;             /* processes of all users that have asked to be recorded so far */
  _Atomic uint32_t served; /* connections, and ends of processes: those that wait for their turn see that it comes */
  _Alignas(64) _Atomic uint64_t counter; /* stamps, where the cycle counter can't be used */
};

/* The tick is never 0: with 0, a hook would take an untouched entry for the common case. */
static inline void control_advance_tick(struct control *control) {
  const uint64_t one = (uint64_t)1 << 32;
  uint64_t before = atomic_fetch_add(&control->tick, one);
  __asm__("" : "+r"(before)); /* gcc 16 ends with an internal error where it makes one instruction of both */
  if (before + one == 0)
    atomic_fetch_add(&control->tick, one);
}

/* Attaching: the host connects to the abstract socket, or where it can't be reached (another network namespace,
   Landlock) to the socket of that name in ATTACH_FOLDER, sends one request, receives one reply with descriptors, and
   closes the connection. What each checks of the other: proof.h. */
#define ATTACH_FOLDER "/tmp/"
#define HEAPTAPE_ENV "HEAPTAPE_SOCKET" /* NAME:SECRET, SECRET hexadecimal; optionally followed by */
#define ATTACH_FILTERS                                                                                                 \
  "/"                        /* and two bytes, hexadecimal: how many filters of system calls the recorder is           \
                                under, and how many have been set since that permit attaching */
#define ATTACH_IMPATIENT "!" /* --on-full drop: the host waits only briefly for a reply */
#define ATTACH_SIMULATED "~" /* a process that is not under the Valgrind tool is not recorded */
enum { ATTACH_FILTERS_DIGITS = 4, ATTACH_FILTERS_MOST = 254, ATTACH_FILTERS_FORBID = 255 }; /* one forbids it */
#define ATTACH_MAGIC 0x32656c7465737161u

/* What a host says, once, when it goes on without a recording. */
#define ATTACH_ENDED "the collector has ended; recording stops, the program continues"
#define ATTACH_NOT_OURS "another user, or not the collector, has the collector's address: this process is not recorded"
#define ATTACH_FAILED "cannot reach the collector: this process is not recorded"

enum attach_kind { ATTACH_PROCESS = 1, ATTACH_BANK = 2, ATTACH_STACK_AREA = 3, ATTACH_ACCESS_STREAM = 4 };

struct attach_request {
  uint64_t magic;
  uint64_t number, proof; /* proof.h */
  uint32_t kind;
  uint32_t rings;  /* of the bank, at most; the collector limits them to BANK_RINGS_FIRST or BANK_RINGS_MORE */
  uint32_t forked; /* 1: a fork child, 0: a fresh image */
  int32_t pid, parent_pid;
  char allocator[64];         /* base name of the library whose malloc is called */
  char program[64];           /* base name of the program; empty: as in /proc */
  uint32_t no_usable_size;    /* 1: malloc_usable_size is from another library than the malloc that is called */
  struct linked_place linked; /* of a fresh image */
  uint32_t bypassed; /* 1: the program has its own malloc, or a library before ours: its calls do not reach us */
};

enum attach_flags {
  ATTACH_DROP = 1,
  ATTACH_STAMP_EVERY = 2,
  ATTACH_COUNTER = 4,
  ATTACH_LATENCY = 8,
  ATTACH_USABLE = 16,
  ATTACH_STACKS = 32,
  ATTACH_ACCESSES = 64, /* each event is reported to the Valgrind tool; stamps as by ATTACH_STAMP_EVERY */
  ATTACH_COLUMNS = ATTACH_LATENCY | ATTACH_USABLE | ATTACH_STACKS,
};

struct attach_reply {
  uint64_t magic;
  uint64_t proof;   /* of the request's number */
  uint32_t refused; /* 1: the process is not to be recorded */
  uint32_t flags;
  uint32_t rings; /* of the bank, which is descriptor 0; descriptor 1 is the control page (ATTACH_PROCESS only) */
  uint32_t stack_depth : 16, stack_unwind : 16; /* where ATTACH_STACKS is set; enum stack_unwind */
  uint64_t touch_min_bytes; /* resident OS pages are recorded from this request on; UINT64_MAX: never */
  uint32_t bypassed;        /* as in the request, corrected by the collector */
  struct linked_done linked;
};

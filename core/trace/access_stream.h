/* SPDX-License-Identifier: MIT */
/* The stream of data accesses, as the Valgrind tool writes it while it records and reads it while it replays.

   Job: the coding of items. Two streams use it: recording (tool to recorder, which packs them into ACCESSES blocks of
   the trace), and replaying (compiled from those blocks, to the tool). Invariants: an item is at most ACCESS_ITEM_BYTES
   long; the coding of one depends on those before it only through struct access_coder. Pure and self-contained, without
   the C library, as the tool has none. Any thread; a coder belongs to one stream.

   An access is to one granule of 16 bytes; a longer one is as many items as it has granules. In an object, granules are
   counted from the object's first byte, and may lie outside it: a vector read past the end belongs to the object of its
   first byte. Other memory (stacks, globals, what was acquired before the recording began) has its own address. */
#pragma once

#include "core/base/leb.h"

#include <stdbool.h>
#include <stdint.h>

enum {
  ACCESS_GRANULE_SHIFT = 4,
  ACCESS_GRANULE_BYTES = 1 << ACCESS_GRANULE_SHIFT,
  ACCESS_ITEM_BYTES = 3 * LEB_MAX_BYTES, /* at most */
  ACCESS_FILTER_BYTES = 4096,            /* the default size of the filter in front of a recording */
  ACCESS_BURST_CODE = 63,                /* in place of a total's number where a burst begins or ends */
};

enum access_kind {
  ACCESS_EVENT,  /* a call was made. The allocator's accesses in it are not in the stream. */
  ACCESS_OBJECT, /* an access to an object */
  ACCESS_OTHER,  /* an access to other memory */
  ACCESS_TOTAL,  /* a total of the recording: enum access_total */
  ACCESS_BURST,  /* a burst begins or ends: a recording in bursts has accesses only inside bursts. The first burst
                    begins before the stream's first access; when replaying, the stream's first item is an ACCESS_BURST,
                    which marks it as one with bursts even if none begins. */
};

/* Totals over the time that was recorded: after the last item, and before a call by which the process may exec another
   program. If a total occurs more than once, the last one is valid. */
enum access_total {
  ACCESS_TOTAL_PROGRAM_INSTRUCTIONS,
  ACCESS_TOTAL_ALLOCATOR_INSTRUCTIONS, /* the recorder's own among them */
  ACCESS_TOTAL_PROGRAM_ACCESSES,       /* before the filter */
  ACCESS_TOTAL_SYSCALLS,               /* made by the program, outside the allocator */
  /* In a recording in bursts the totals above count inside bursts only, these outside. */
  ACCESS_TOTAL_OUTSIDE_PROGRAM_INSTRUCTIONS,
  ACCESS_TOTAL_OUTSIDE_ALLOCATOR_INSTRUCTIONS,
  ACCESS_TOTAL_OUTSIDE_SYSCALLS,
  /* Of the program, inside bursts: repeated string instructions, each one instruction of the first total, and the bytes
     that they moved or compared. */
  ACCESS_TOTAL_STRING_INSTRUCTIONS,
  ACCESS_TOTAL_STRING_BYTES,
  ACCESS_TOTAL_LIMIT,
};

static inline bool access_total_is_outside(uint32_t total) {
  return total >= ACCESS_TOTAL_OUTSIDE_PROGRAM_INSTRUCTIONS && total <= ACCESS_TOTAL_OUTSIDE_SYSCALLS;
}

struct access_item {
  enum access_kind kind;
  uint32_t thread;        /* EVENT: the thread's number in the trace, in the stream to the recorder its serial number
                             (RECORD_THREAD in capture/wire/ring.h); 0 when replaying */
  bool acquires;          /* EVENT: the call handed out an object, whose number is the count of such events before;
                             false when replaying */
  uint64_t stack_pointer; /* EVENT: when the entry point was called; a multiple of 8 */
  uint64_t object;        /* OBJECT: its number when recording, its slot when replaying */
  int64_t granule; /* OBJECT: (address - object's address) >> ACCESS_GRANULE_SHIFT; OTHER: address >> that shift */
  uint32_t total;  /* TOTAL: enum access_total */
  uint64_t value;  /* TOTAL; BURST: 1: it begins, 0: it ends */
};

/* All zero at the stream's start. */
struct access_coder {
  uint64_t stack_pointer, object;
  int64_t other_granule;
};

/* Writes item at to (room for ACCESS_ITEM_BYTES); returns the place after it. thread < 2^24; differences of objects and
   of granules in other memory are below 2^60. */
static inline uint8_t *access_put(struct access_coder *coder, uint8_t *to, const struct access_item *item) {
  switch (item->kind) {
  case ACCESS_EVENT: {
    uint64_t stack = item->stack_pointer >> 3;
    to = leb_put(to, (uint64_t)item->thread << 3 | (uint64_t)item->acquires << 2 | ACCESS_EVENT);
    to = leb_put(to, zigzag((int64_t)(stack - coder->stack_pointer)));
    coder->stack_pointer = stack;
    return to;
  }
  case ACCESS_OBJECT:
    to = leb_put(to, zigzag((int64_t)(item->object - coder->object)) << 2 | ACCESS_OBJECT);
    coder->object = item->object;
    return leb_put(to, zigzag(item->granule));
  case ACCESS_OTHER:
    to = leb_put(to, zigzag(item->granule - coder->other_granule) << 2 | ACCESS_OTHER);
    coder->other_granule = item->granule;
    return to;
  case ACCESS_BURST:
    to = leb_put(to, (uint64_t)ACCESS_BURST_CODE << 2 | ACCESS_TOTAL);
    return leb_put(to, item->value);
  default:
    to = leb_put(to, (uint64_t)item->total << 2 | ACCESS_TOTAL);
    return leb_put(to, item->value);
  }
}

/* Reads an item at *from and advances *from. False, and *from unchanged, if there is no whole item before end (with
   ACCESS_ITEM_BYTES or more before end: the stream is damaged). */
static inline bool access_get(struct access_coder *coder, const uint8_t **from, const uint8_t *end,
                              struct access_item *item) {
  const uint8_t *at = *from;
  uint64_t first, second = 0;
  if (!leb_get(&at, end, &first))
    return false;
  item->kind = (enum access_kind)(first & 3);
  if (item->kind != ACCESS_OTHER && !leb_get(&at, end, &second))
    return false;
  first >>= 2;
  switch (item->kind) {
  case ACCESS_EVENT:
    item->thread = (uint32_t)(first >> 1);
    item->acquires = first & 1;
    coder->stack_pointer += (uint64_t)unzigzag(second);
    item->stack_pointer = coder->stack_pointer << 3;
    break;
  case ACCESS_OBJECT:
    item->object = coder->object += (uint64_t)unzigzag(first);
    item->granule = unzigzag(second);
    break;
  case ACCESS_OTHER:
    coder->other_granule = (int64_t)((uint64_t)coder->other_granule + (uint64_t)unzigzag(first));
    item->granule = coder->other_granule;
    break;
  default:
    if (first == ACCESS_BURST_CODE)
      item->kind = ACCESS_BURST;
    item->total = (uint32_t)first;
    item->value = second;
    break;
  }
  *from = at;
  return true;
}

/* The file with a stream for replaying (W.accesses): a header, then the stream up to the file's end.

   Job: the header. Self-contained, without the C library, as the Valgrind tool has none. Numbers are little-endian.

   The stream has exactly one EVENT item for each op of its workload, in the workload's total order; `object` of an
   OBJECT item is the object's slot in the workload at that point. */
#define ACCESS_FILE_MAGIC "HEAPACCS"

enum { ACCESS_FILE_VERSION = 1 };

struct access_file_header {
  char magic[8]; /* ACCESS_FILE_MAGIC, without its final zero */
  uint32_t version;
  uint32_t filter_bytes; /* of the filter in front of the recording; 0: every access was recorded; UINT32_MAX: that or
                            more */
};

_Static_assert(sizeof(struct access_file_header) == 16, "as in WORKLOAD.md");

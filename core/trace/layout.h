/* SPDX-License-Identifier: MIT */
/* The file's layout in C, as FORMAT.md defines it: constants and headers, shared by writer and reader. */
#pragma once

#include "core/trace/access_stream.h"

#include <stdint.h>
#include <string.h>

#define TRACE_MAGIC "HEAPTAPE"
#define TRACE_END_MAGIC "HEAPTEND"
#define TRACE_BLOCK_MAGIC "HTBK"

enum {
  TRACE_VERSION = 1,
  TRACE_MAX_COLUMNS = 64,
  TRACE_MAX_PAYLOAD_BYTES = 1 << 30,
  TRACE_MAX_THREADS = 1 << 24,
  TRACE_MAX_ROWS = 1 << 20,
  TRACE_MAX_OTHER_COLUMN_BYTES = 1 << 26,
  TRACE_MAX_INFO_BYTES = 1 << 20,
  TRACE_MAX_JSON_VALUES = 1 << 20, /* in a block; separators count as values */
  TRACE_FREE_THREADS = 1 << 16,    /* thread numbers below this are accepted in a file with fewer blocks */
  TRACE_WINDOW_LOG_MAX = 23,
};

enum block_type {
  BLOCK_INFO = 1,
  BLOCK_EVENTS = 2,
  BLOCK_SAMPLES = 3,
  BLOCK_GAP = 4,
  BLOCK_TOUCHED = 5,
  BLOCK_STACKS = 6,
  BLOCK_MODULES = 7,
  BLOCK_MARKS = 8,
  BLOCK_THREADS = 9,
  BLOCK_ACCESSES = 10,
  BLOCK_BURSTS = 12,
  BLOCK_FOOTER = 15
};
enum { BLOCK_CRITICAL = 1, COLUMN_CRITICAL = 1, ENCODING_ZSTD = 1 };

/* 5 and 16 are reserved. */
enum event_column {
  COLUMN_CALL = 1,
  COLUMN_SIZE = 2,
  COLUMN_PARAM = 3,
  COLUMN_RELEASE_DISTANCE = 4,
  COLUMN_RELEASE_ADDRESS = 6,
  COLUMN_ACQUIRE_HIT = 7,
  COLUMN_ACQUIRE_ADDRESS = 8,
  COLUMN_STAMP_GAP = 9,
  COLUMN_STAMP_DELTA = 10,
  COLUMN_TOUCHED = 11,
  COLUMN_LATENCY = 12,
  COLUMN_SLACK = 13,
  COLUMN_STACK = 14,
  COLUMN_OTHER_STACK = 15,
  COLUMN_PLACES = 17,
  COLUMN_ROWS = 18,
  COLUMN_FAR = 19,
  COLUMN_PARTS = 20,
  EVENT_COLUMNS = 21, /* ids are below this */
};

enum { STACK_COLUMN_PARENT = 1, STACK_COLUMN_INSTRUCTION = 2, TRACE_MAX_STACK_NODES = 1 << 28 };

/* Columns of ACCESSES blocks, and the codes of the first, FORMAT.md section 6a. 5 and 7 are reserved. */
enum access_column {
  ACCESS_COLUMN_WHAT = 1,
  ACCESS_COLUMN_THREAD = 2,
  ACCESS_COLUMN_STACK = 3,
  ACCESS_COLUMN_OBJECT = 4,
  ACCESS_COLUMN_PAGE = 6,
  ACCESS_COLUMN_FAR_PAGE = 8,
  ACCESS_COLUMN_OFFSET = 9,
  ACCESS_COLUMN_STEP = 10,
  ACCESS_COLUMNS = 11, /* ids are below this */
};
enum { BURST_COLUMN_ROWS = 1, BURST_COLUMNS = 2 };
enum access_code {
  ACCESS_CODE_CALL = 0,
  ACCESS_CODE_ACQUIRED = 1,
  ACCESS_CODE_OBJECT = 2,
  ACCESS_CODE_PAGE = 3,
  ACCESS_CODE_RECENT_OBJECT = 64,
  ACCESS_CODE_KNOWN_PAGE = 128, /* plus its number */
  ACCESS_CODE_FAR_PAGE = 255,
};

struct file_header {
  char magic[8];
  uint16_t version, flags;
  uint32_t crc32;
};

struct file_trailer {
  uint64_t footer_offset;
  char magic[8];
};

struct block_header {
  char magic[4];
  uint8_t type, flags;
  uint16_t columns;
  uint32_t payload_bytes;
  uint32_t thread;
  uint32_t rows, steps;
  uint64_t first_stamp, last_stamp;
  uint32_t sequence;
  uint32_t crc32;
};

struct column_entry {
  uint8_t id, encoding, shift, flags;
  uint32_t raw_bytes, stored_bytes, zero;
};

_Static_assert(sizeof(struct file_header) == 16 && sizeof(struct file_trailer) == 16 &&
                   sizeof(struct block_header) == 48 && sizeof(struct column_entry) == 16,
               "layout of FORMAT.md");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are stored as they are in memory");

/* The class of a request for the address predictor, FORMAT.md section 4; a class of PREDICTOR_CLASSES or more has no
   stack. */
enum { PREDICTOR_CLASSES = 4096 };
static inline uint64_t predictor_class(uint64_t request_bytes) {
  uint64_t class = (request_bytes > UINT64_MAX - 23 ? UINT64_MAX : request_bytes + 23) >> 4;
  return class < 2 ? 2 : class;
}

/* Column 17, FORMAT.md section 4b: entries below PLACE_FRESH count from the top of a stack. */
enum { PLACE_FRESH = 63, PLACE_ELSEWHERE = 64 };

/* The classes by which allocators keep their free blocks: one for each 16 bytes, or four to each doubling. */
enum class_system { CLASSES_EVEN, CLASSES_GEOMETRIC, CLASS_SYSTEMS };

static inline uint64_t archive_class(enum class_system system, uint64_t request_bytes) {
  if (system == CLASSES_EVEN)
    return predictor_class(request_bytes);
  uint64_t units = (request_bytes > UINT64_MAX - 15 ? UINT64_MAX : request_bytes + 15) >> 4;
  if (units <= 8)
    return units ? units : 1;
  unsigned shift = 61 - (unsigned)__builtin_clzll(units);
  return (units + (1ull << shift) - 1) >> shift << shift;
}

/* The last two addresses of a class that were not from a stack: the next one is expected at the same distance. */
struct fresh {
  uint64_t address, step; /* address 0: none yet; step 0: only one yet */
};
static inline uint64_t fresh_expected(const struct fresh *fresh, uint64_t class) {
  return fresh->address + (fresh->step ? fresh->step : 16 * class);
}
static inline void fresh_note(struct fresh *fresh, uint64_t address) {
  fresh->step = fresh->address ? address - fresh->address : 0;
  fresh->address = address;
}

/* What writer and reader of ACCESSES blocks share: the list of recent objects, limits, names of totals
   (FORMAT.md section 6a). Not its job: columns, files. */

enum {
  RECENT_PLACES = 64,
  ACCESS_PAGE_GRANULES = 256, /* granules in an OS page of 4 KiB */
  ACCESS_NEAR_PAGES = 127,    /* the OS pages of a block whose numbers are in the row's code */
};
#define ACCESS_OBJECT_GRANULES ((int64_t)1 << 59) /* a granule in an object is at least minus this and below it */
#define ACCESS_PAGES ((uint64_t)1 << 52)
#define ACCESS_STACK_POINTERS ((uint64_t)1 << 61) /* divided by 8 */

/* FOOTER's key of each total; ACCESS_TOTAL_LIMIT of them. */
extern const char *const access_total_names[ACCESS_TOTAL_LIMIT];

/* The entry at each place of the list of recent objects, the one used last first; entries are numbered as they are put
   in. All zero: empty. */
struct recent_list {
  uint32_t count;
  uint32_t entries[RECENT_PLACES];
};

/* Moves the first `moved` numbers back by one place, and puts another before them. */
static inline void recent_put_first(uint32_t *places, uint32_t moved, uint32_t first) {
  memmove(places + 1, places, moved * sizeof *places);
  places[0] = first;
}

/* Moves the entry at place (below count) to place 0 and returns it. */
static inline uint32_t recent_use(struct recent_list *list, uint32_t place) {
  if (place > 0)
    recent_put_first(list->entries, place, list->entries[place]);
  return list->entries[0];
}

/* Inserts an entry at place 0; where the list is full, the last one is dropped. */
static inline void recent_add(struct recent_list *list, uint32_t entry) {
  if (list->count < RECENT_PLACES)
    list->count++;
  recent_put_first(list->entries, list->count - 1, entry);
}

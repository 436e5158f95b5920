/* SPDX-License-Identifier: MIT */
/* The workload file's layout in C (WORKLOAD.md defines it). Constants and accessors only, so that the replay engine can
   include it without any other code. */
#pragma once

#include <stdint.h>

#define WORKLOAD_MAGIC "HEAPWORK"

enum {
  WORKLOAD_VERSION = 1,
  WORKLOAD_HEADER_BYTES = 256,
  WORKLOAD_MAX_THREADS = 1 << 20,
  WORKLOAD_MARK_INTERVAL = 64,
  WORKLOAD_TIME_INTERVAL_NS = 100000,
};

struct workload_header {
  char magic[8];
  uint32_t version, header_bytes;
  uint64_t file_bytes;
  uint64_t ops, words;
  uint32_t threads, slots;
  uint64_t peak_live_bytes, peak_live_os_page_bytes, peak_live_objects, live_at_end, peak_position;
  uint64_t extents_offset, extents;
  uint64_t info_offset, info_bytes;
  uint64_t op_counts_offset;
  uint32_t regions; /* the highest number in an REGION word; 0: there is none */
  uint8_t zero[120];
  uint32_t crc32;
};
_Static_assert(sizeof(struct workload_header) == WORKLOAD_HEADER_BYTES, "layout of WORKLOAD.md");

struct workload_extent {
  uint32_t stream, words;
  uint64_t offset;
};

struct workload_time_point {
  uint64_t position, time_ns, live_bytes, live_objects;
};

enum workload_code {
  WORD_REGION = 0xef,
  WORD_SIZE_HIGH = 0xf0,
  WORD_PARAM = 0xf1,
  WORD_TOUCHED = 0xf2,
  WORD_WAIT = 0xf3,
  WORD_MARK = 0xf4,
  WORD_START = 0xf5,
  WORD_TIME = 0xf6,
  WORD_END = 0xff,
};

#define WORKLOAD_NO_SLOT UINT32_MAX

/* Memory apart is numbered from 1. */
enum { WORKLOAD_MOST_REGIONS = 15 };

/* The payload of a TOUCHED word: OS pages plus 1, are they estimated, and where they are. */
enum { TOUCHED_OS_PAGES_BITS = 23, TOUCHED_ESTIMATED = 1 << TOUCHED_OS_PAGES_BITS, TOUCHED_PARTS_SHIFT = 24 };
static inline uint64_t touched_payload(uint64_t os_pages_plus_1, uint32_t parts) {
  uint64_t most = (1 << TOUCHED_OS_PAGES_BITS) - 1;
  return (os_pages_plus_1 < most ? os_pages_plus_1 : most) | (uint64_t)parts << TOUCHED_PARTS_SHIFT;
}

static inline uint32_t touched_word_os_pages(uint64_t payload) {
  return (uint32_t)payload & ((1u << TOUCHED_OS_PAGES_BITS) - 1);
}

static inline uint32_t touched_word_parts(uint64_t payload) {
  return (uint32_t)(payload >> TOUCHED_PARTS_SHIFT);
}

static inline uint8_t word_code(uint64_t word) {
  return (uint8_t)word;
}
static inline uint64_t word_payload(uint64_t word) {
  return word >> 8;
}
static inline uint64_t word_size_low(uint64_t word) {
  return word << 32 >> 40;
}
static inline uint32_t word_slot(uint64_t word) {
  return (uint32_t)(word >> 32);
}
static inline uint32_t word_wait_thread(uint64_t word) {
  return (uint32_t)(word >> 8) & (WORKLOAD_MAX_THREADS - 1);
}
static inline uint64_t word_wait_ops(uint64_t word) {
  return word >> 28;
}

static inline uint64_t word_op(uint8_t call, uint64_t size_bytes, uint32_t slot) {
  return call | (size_bytes & 0xffffff) << 8 | (uint64_t)slot << 32;
}
static inline uint64_t word_make(enum workload_code code, uint64_t payload) {
  return (uint64_t)code | payload << 8;
}
static inline uint64_t word_wait(uint32_t thread, uint64_t ops) {
  return (uint64_t)WORD_WAIT | (uint64_t)thread << 8 | ops << 28;
}

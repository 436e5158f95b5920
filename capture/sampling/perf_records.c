/* SPDX-License-Identifier: MIT */
#include "capture/sampling/perf_records.h"

#include <linux/perf_event.h>
#include <string.h>

_Static_assert((int)PERF_SAMPLE_BASE == (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR) &&
                   (int)PERF_SAMPLE_DETAIL == (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC),
               "the header needs no header of the kernel's");

/* What follows the header of a sample. */
struct base {
  uint32_t pid, tid;
  uint64_t time, address;
};
struct detail {
  uint64_t weight, source;
};

/* The cycle counter at that time, which may be before or after the readings. */
static uint64_t perf_clock_cycles(const struct perf_clock *clock, uint64_t time) {
  if (!clock->cycles) {
    double ns = time < clock->now_ns ? -(double)(clock->now_ns - time) : (double)(time - clock->now_ns);
    return clock->now_cycles + (uint64_t)(int64_t)(ns * clock->cycles_per_ns);
  }
  /* linux/perf_event.h, at time_zero: the shift before the division would overflow. */
  uint64_t scaled = time - clock->zero, quotient = scaled / clock->multiplier, rest = scaled % clock->multiplier;
  return (quotient << clock->shift) + (rest << clock->shift) / clock->multiplier;
}

/* The level where kernels give it by number. */
static enum access_level numbered_level(unsigned number) {
  switch (number) {
  case PERF_MEM_LVLNUM_L1:
    return ACCESS_LEVEL_L1;
  case PERF_MEM_LVLNUM_L2:
    return ACCESS_LEVEL_L2;
  case PERF_MEM_LVLNUM_L3:
    return ACCESS_LEVEL_L3;
  case PERF_MEM_LVLNUM_LFB:
    return ACCESS_LEVEL_LINE_BUFFER;
  case PERF_MEM_LVLNUM_RAM:
  case PERF_MEM_LVLNUM_PMEM:
    return ACCESS_LEVEL_MEMORY;
  default:
    return ACCESS_LEVEL_UNKNOWN;
  }
}

/* The older field, of bits: all kernels fill it in, newer ones where there is no number. */
static enum access_level level_of_bits(uint64_t bits) {
  if (bits & (PERF_MEM_LVL_REM_RAM1 | PERF_MEM_LVL_REM_RAM2 | PERF_MEM_LVL_REM_CCE1 | PERF_MEM_LVL_REM_CCE2))
    return ACCESS_LEVEL_REMOTE;
  if (bits & (PERF_MEM_LVL_IO | PERF_MEM_LVL_UNC))
    return ACCESS_LEVEL_OTHER;
  if (bits & PERF_MEM_LVL_LOC_RAM)
    return ACCESS_LEVEL_MEMORY;
  if (bits & PERF_MEM_LVL_LFB)
    return ACCESS_LEVEL_LINE_BUFFER;
  if (bits & PERF_MEM_LVL_MISS)
    return bits & PERF_MEM_LVL_L1   ? ACCESS_LEVEL_BEYOND_L1
           : bits & PERF_MEM_LVL_L3 ? ACCESS_LEVEL_MEMORY
                                    : ACCESS_LEVEL_UNKNOWN;
  if (!(bits & PERF_MEM_LVL_HIT))
    return ACCESS_LEVEL_UNKNOWN;
  return bits & PERF_MEM_LVL_L1   ? ACCESS_LEVEL_L1
         : bits & PERF_MEM_LVL_L2 ? ACCESS_LEVEL_L2
         : bits & PERF_MEM_LVL_L3 ? ACCESS_LEVEL_L3
                                  : ACCESS_LEVEL_UNKNOWN;
}

static enum access_level level_of(const union perf_mem_data_src *source) {
  if (source->mem_remote)
    return ACCESS_LEVEL_REMOTE;
  enum access_level level = level_of_bits(source->mem_lvl);
  if (level == ACCESS_LEVEL_UNKNOWN)
    level = numbered_level(source->mem_lvl_num);
  return level;
}

static uint8_t what_of(uint64_t word) {
  union perf_mem_data_src source = {.val = word};
  unsigned what = level_of(&source);
  what |= source.mem_op & PERF_MEM_OP_LOAD ? ACCESS_SAMPLE_LOAD : 0;
  what |= source.mem_op & PERF_MEM_OP_STORE ? ACCESS_SAMPLE_STORE : 0;
  what |= source.mem_dtlb & PERF_MEM_TLB_MISS ? ACCESS_SAMPLE_TLB_MISS : 0;
  return (uint8_t)what;
}

/* Precondition: the record has a sample's size. */
static void take_sample(struct perf_records *records, const uint8_t *body, uint16_t misc) {
  struct base base;
  struct detail detail = {0};
  memcpy(&base, body, sizeof base);
  if (records->detail)
    memcpy(&detail, body + sizeof base, sizeof detail);
  struct perf_sample sample = {.pid = base.pid,
                               .kernel = (misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER,
                               .access = {.stamp = perf_clock_cycles(&records->clock, base.time),
                                          .address = base.address,
                                          .latency_cycles = detail.weight,
                                          .what = records->detail ? what_of(detail.source) : records->level}};
  records->take(records->context, &sample);
}

/* False: the record is invalid. */
static bool take_record(struct perf_records *records, const struct perf_event_header *header, const uint8_t *body) {
  size_t bytes = header->size - sizeof *header;
  uint64_t words[2] = {0};
  memcpy(words, body, bytes < sizeof words ? bytes : sizeof words);
  switch (header->type) {
  case PERF_RECORD_SAMPLE:
    if (bytes != sizeof(struct base) + (records->detail ? sizeof(struct detail) : 0))
      return false;
    take_sample(records, body, header->misc);
    return true;
  case PERF_RECORD_LOST: /* which event, how many */
    records->lost += bytes >= sizeof words ? words[1] : 0;
    return bytes >= sizeof words;
  case PERF_RECORD_LOST_SAMPLES:
    records->lost += bytes >= sizeof *words ? words[0] : 0;
    return bytes >= sizeof *words;
  case PERF_RECORD_THROTTLE:
    records->throttled++;
    return true;
  default: /* not needed: the end of throttling, processes that begin and end */
    return true;
  }
}

void perf_records_take(struct perf_records *records, const uint8_t *bytes, size_t count) {
  struct perf_event_header header;
  while (count > 0) {
    if (count >= sizeof header)
      memcpy(&header, bytes, sizeof header);
    if (count < sizeof header || header.size < sizeof header || header.size > count ||
        !take_record(records, &header, bytes + sizeof header)) {
      records->damaged++;
      return;
    }
    bytes += header.size;
    count -= header.size;
  }
}

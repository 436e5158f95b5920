/* SPDX-License-Identifier: MIT */
/* libheaptape-reader.so: a trace as columns, for a caller in another language (analysis/heaptape/tape/library.py).

   Job: hands out what core/trace/read finds in a file, block by block, in buffers that the caller owns and that Arrow
   and numpy take as they are. Invariants: any file at all gives rows or one error; nothing is written outside the
   caller's buffers. Functions return 0 or a count, and -1 with the error, which the caller has cleared. One trace may
   be read by many threads at once, except heaptape_trace_close; a cursor over accesses belongs to one thread. Memory:
   the reader's index, and one block during a call. Allocates with malloc. The interface is private to one version of
   heaptape: a caller compares heaptape_reader_abi() with READER_ABI. */
#pragma once

#include <stdint.h>

#include "core/base/error.h"

enum { READER_ABI = 2 };

struct heaptape_trace;
struct heaptape_accesses;

uint32_t heaptape_reader_abi(void);

/* Opens a trace: all block headers, INFO, GAPs and FOOTER are read and checked. NULL with error. */
struct heaptape_trace *heaptape_trace_open(const char *path, struct error *error);
void heaptape_trace_close(struct heaptape_trace *trace);

/* Strings live as long as the trace. */
struct heaptape_summary {
  const char *info_json;
  const char *footer_json; /* NULL: the file is truncated */
  uint64_t events, dropped, event_blocks, samples, access_rows, switches;
  uint64_t first_stamp, last_stamp; /* over all events; 0 if there are none */
  uint32_t threads, stack_nodes;
  uint32_t in_bursts; /* 1: accesses were recorded in bursts only */
};
void heaptape_trace_summary(const struct heaptape_trace *trace, struct heaptape_summary *summary);

/* The EVENTS blocks, in file order: number < summary.event_blocks. */
struct heaptape_block {
  uint64_t first_event; /* number of its first event in its thread */
  uint32_t thread, rows;
  uint32_t columns; /* bit i: it has column i of FORMAT.md section 4, of 11 to 15 */
};
void heaptape_trace_block(const struct heaptape_trace *trace, uint64_t number, struct heaptape_block *block);

/* Columns of one block, each of `rows` entries. Where a bit of a column's validity is 0, its entry means nothing. The
   last eight may be NULL: those of columns that the block lacks are not worth their memory. */
struct heaptape_events {
  uint8_t *call; /* id and flags */
  uint64_t *request_bytes, *size, *param, *released, *acquired, *release_stamp, *acquire_stamp;
  /* Bit i of byte i / 8, least significant first, as Arrow stores it. Room: rows rounded up to a multiple of 8. The
     first three are columns themselves; then validity: of request_bytes and size; of param; of released and
     release_stamp; of acquired; of acquire_stamp. */
  uint8_t *failed, *null, *releases, *has_size, *has_param, *takes, *acquires, *acquire_stamped;
  uint32_t *touched_os_pages; /* and its validity; likewise the next three */
  uint8_t *has_touched;
  uint64_t *latency;
  uint8_t *has_latency;
  uint64_t *usable_bytes;
  uint8_t *has_usable;
  uint32_t *stack;
  uint8_t *has_stack;
};
int heaptape_trace_events(const struct heaptape_trace *trace, uint64_t number, const struct heaptape_events *columns,
                          struct error *error);

/* Names of the columns of FORMAT.md section 6, with a comma after each. */
const char *heaptape_sample_names(void);
/* summary.samples rows of each; UINT64_MAX: not recorded. */
int heaptape_trace_samples(const struct heaptape_trace *trace, uint64_t *const *columns, struct error *error);

/* summary.stack_nodes rows, of nodes 1, 2, ...: parent (0: the outermost frame), instruction, and how many modules are
   before the node in the file. */
int heaptape_trace_stacks(const struct heaptape_trace *trace, uint32_t *parent, uint64_t *instruction,
                          uint32_t *modules, struct error *error);

/* The rows of MODULES, MARKS or THREADS blocks (`type`: the block's type in FORMAT.md), checked, as one JSON array of
   objects. The caller frees it with heaptape_text_free. NULL with error. */
char *heaptape_trace_rows(const struct heaptape_trace *trace, int type, struct error *error);
void heaptape_text_free(char *text);

/* summary.switches numbers: rows of accesses before each beginning and end of a burst, alternately. */
int heaptape_trace_switches(const struct heaptape_trace *trace, uint64_t *rows, struct error *error);

/* Rows of data accesses, in order. read fills up to count entries of each column and returns how many; 0 at the end. */
struct heaptape_access_columns {
  uint8_t *kind;           /* 0: call; 1: access to an object; 2: to other memory */
  uint8_t *acquires;       /* calls: 1 if it acquired */
  uint32_t *thread;        /* calls */
  uint64_t *stack_pointer; /* calls */
  uint64_t *object;        /* objects: number of the call that acquired it, among calls that acquired */
  int64_t *granule;        /* objects: in the object; other memory: the address divided by 16 */
};
struct heaptape_accesses *heaptape_accesses_open(const struct heaptape_trace *trace, struct error *error);
void heaptape_accesses_close(struct heaptape_accesses *accesses);
int64_t heaptape_accesses_read(struct heaptape_accesses *accesses, const struct heaptape_access_columns *columns,
                               uint64_t count, struct error *error);

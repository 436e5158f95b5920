/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/copying/trace_accesses.h"

#include "core/base/vector.h"

#include <stdlib.h>
#include <string.h>

/* Address bits below this, including the page colour, stay as they are: caches are indexed by them. */
enum { REGION_SHIFT = 20 };

/* The counts of the recording stay, even if some of its items are left out. */
static void copy_totals(const struct trace_reader *reader, struct trace_writer *writer) {
  const struct trace_access_totals *from = &trace_reader_summary(reader)->accesses;
  struct trace_access_totals *to = &trace_writer_totals(writer)->accesses;
  memcpy(to->counted, from->counted, sizeof to->counted);
  memcpy(to->known, from->known, sizeof to->known);
  to->lost += from->lost;
  to->in_bursts = from->in_bursts;
}

/* The new trace's number of a thread; threads without an event come after the others. */
static uint32_t thread_in(struct trace_out *out, uint32_t thread, uint32_t source_threads) {
  return thread < source_threads ? trace_out_add_thread(out, thread) : thread;
}

int trace_copy_accesses(struct trace_reader *reader, struct trace_out *out, struct error *error) {
  uint32_t source_threads = trace_reader_summary(reader)->threads;
  struct trace_writer *writer = trace_out_writer(out);
  struct trace_access_cursor *cursor;
  struct access_item item;
  int got, result = 0;
  if (!trace_reader_summary(reader)->accesses.recorded)
    return 0;
  if (trace_writer_accesses_begin(writer) != 0 || trace_access_cursor_open(&cursor, reader, error) != 0)
    return -1;
  while (result == 0 && (got = trace_access_cursor_next(cursor, &item)) != 0) {
    if (got > 0 && item.kind == ACCESS_EVENT)
      item.thread = thread_in(out, item.thread, source_threads);
    result = got < 0 ? -1 : trace_writer_access(writer, &item);
  }
  trace_access_cursor_close(cursor);
  if (result != 0)
    return -1;
  copy_totals(reader, writer);
  return 0;
}

struct anonymous_accesses {
  struct access_order *order;
  struct trace_reader *reader;
  struct trace_out *out;
  struct error *error;
  uint64_t acquired;          /* objects so far */
  VECTOR(uint64_t) objects;   /* number of the object in each slot. Its count is unused. */
  struct address_map regions; /* new numbers of regions, by the old ones plus 1 */
  uint32_t region_count;
};

static int no_memory(const struct anonymous_accesses *accesses) {
  return error_set(accesses->error, trace_reader_path(accesses->reader), "out of memory");
}

/* The address that replaces this one; 0: no memory. */
static uint64_t anonymous_address(struct anonymous_accesses *accesses, uint64_t address) {
  uint64_t region = (address >> REGION_SHIFT) + 1;
  struct address_entry *entry = address_map_find(&accesses->regions, region);
  uint32_t number = entry->slot;
  if (!entry->address) {
    number = ++accesses->region_count;
    if (!address_map_add(&accesses->regions, entry, region, number, false))
      return 0;
  }
  return (uint64_t)number << REGION_SHIFT | (address & ((1u << REGION_SHIFT) - 1));
}

static int put(void *context, const struct access_item *item) {
  struct anonymous_accesses *accesses = context;
  struct access_item anonymous = *item;
  uint64_t address = 1;
  switch (item->kind) {
  case ACCESS_EVENT:
    anonymous.thread = trace_out_add_thread(accesses->out, item->thread);
    anonymous.stack_pointer = address = anonymous_address(accesses, item->stack_pointer);
    accesses->acquired += item->acquires;
    break;
  case ACCESS_OBJECT:
    anonymous.object = accesses->objects.at[item->object];
    break;
  case ACCESS_BURST:
    break;
  default:
    address = anonymous_address(accesses, (uint64_t)item->granule << ACCESS_GRANULE_SHIFT);
    anonymous.granule = (int64_t)(address >> ACCESS_GRANULE_SHIFT);
  }
  if (address == 0)
    return no_memory(accesses);
  return trace_writer_access(trace_out_writer(accesses->out), &anonymous) == 0 ? 0 : -1;
}

int anonymous_accesses_open(struct anonymous_accesses **out, struct trace_reader *reader, struct trace_out *trace,
                            struct error *error) {
  *out = NULL;
  if (!trace_reader_summary(reader)->accesses.recorded)
    return 0;
  struct anonymous_accesses *accesses = calloc(1, sizeof *accesses);
  if (!accesses)
    return error_set(error, trace_reader_path(reader), "out of memory");
  *accesses = (struct anonymous_accesses){.reader = reader, .out = trace, .error = error};
  const struct access_sink sink = {put, accesses};
  int result = address_map_init(&accesses->regions) ? 0 : no_memory(accesses);
  if (result == 0)
    result = access_order_open(&accesses->order, reader, &sink, error);
  if (result == 0)
    result = trace_writer_accesses_begin(trace_out_writer(trace));
  if (result == 0)
    *out = accesses;
  else
    anonymous_accesses_free(accesses);
  return result;
}

int anonymous_accesses_op(struct anonymous_accesses *accesses, const struct history_op *op) {
  if (!accesses)
    return 0;
  if (access_order_op(accesses->order, op) != 0)
    return -1;
  if (op->kind != HISTORY_ACQUIRE && op->kind != HISTORY_MOVE)
    return 0;
  uint64_t *object = vector_reach(&accesses->objects, op->slot);
  if (!object)
    return no_memory(accesses);
  *object = accesses->acquired - 1;
  return 0;
}

int anonymous_accesses_left_out(struct anonymous_accesses *accesses, const struct merge_step *step, bool wanted) {
  return accesses ? access_order_left_out(accesses->order, step, wanted) : 0;
}

int anonymous_accesses_finish(struct anonymous_accesses *accesses) {
  if (!accesses)
    return 0;
  if (access_order_finish(accesses->order) != 0)
    return -1;
  trace_writer_totals(trace_out_writer(accesses->out))->accesses.lost += access_order_counts(accesses->order)->lost;
  copy_totals(accesses->reader, trace_out_writer(accesses->out));
  return 0;
}

void anonymous_accesses_free(struct anonymous_accesses *accesses) {
  if (!accesses)
    return;
  access_order_close(accesses->order);
  address_map_free(&accesses->regions);
  free(accesses->objects.at);
  free(accesses);
}

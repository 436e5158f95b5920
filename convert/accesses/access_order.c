/* SPDX-License-Identifier: MIT */
#include "convert/accesses/access_order.h"

#include "core/base/vector.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OBJECT_NONE UINT64_MAX

/* A call row that was passed before its op. */
struct call_row {
  uint64_t row; /* number among the rows of its thread */
  uint64_t stack_pointer;
  uint64_t object; /* the object that it acquired; OBJECT_NONE: none */
};

/* Call rows of a thread whose events are missing. */
struct missing_rows {
  uint64_t from, count;
};

struct access_thread {
  VECTOR(struct missing_rows) missing;
  size_t passed_by_events, passed_by_rows; /* entries of missing */
  uint64_t next_row;                       /* row of the next event */
  uint64_t rows;                           /* rows passed in the stream */
  VECTOR(struct call_row) waiting;
  size_t first_waiting;
  uint64_t stack_pointer; /* of the last op */
};

struct access_order {
  const struct trace_reader *reader;
  struct error *error;
  struct trace_access_cursor *cursor;
  bool at_end;
  struct access_thread *threads;
  uint32_t thread_count;
  size_t waiting;           /* waiting rows of all threads */
  uint64_t acquired;        /* call rows that acquired, in the stream so far */
  struct address_map slots; /* of live objects, by number plus 1 */
  VECTOR(uint64_t) objects; /* by slot: number plus 1; 0: none, or not known. Its count is unused. */
  struct access_order_counts counts;
  struct access_sink sink;
};

static int no_memory(const struct access_order *order) {
  return error_set(order->error, trace_reader_path(order->reader), "out of memory");
}

static int put(struct access_order *order, const struct access_item *item) {
  return order->sink.put(order->sink.context, item);
}

static int put_access(struct access_order *order, const struct access_item *item) {
  struct access_item placed = *item;
  if (item->kind == ACCESS_BURST)
    return put(order, item);
  if (item->kind == ACCESS_OBJECT) {
    const struct address_entry *entry = address_map_find(&order->slots, item->object + 1);
    if (!entry->address) {
      order->counts.lost++;
      return 0;
    }
    placed.object = entry->slot;
    order->counts.objects++;
  } else {
    order->counts.other++;
  }
  return put(order, &placed);
}

static bool is_missing(struct access_thread *thread, uint64_t row) {
  while (thread->passed_by_rows < thread->missing.count) {
    const struct missing_rows *missing = &thread->missing.at[thread->passed_by_rows];
    if (row < missing->from + missing->count)
      return row >= missing->from;
    thread->passed_by_rows++;
  }
  return false;
}

/* Drops the rows in front of the first waiting row, once they are the majority. */
static void drop_passed(struct access_thread *thread) {
  size_t left = thread->waiting.count - thread->first_waiting;
  if (thread->first_waiting <= left)
    return;
  memmove(thread->waiting.at, thread->waiting.at + thread->first_waiting, left * sizeof *thread->waiting.at);
  thread->waiting.count = left;
  thread->first_waiting = 0;
}

/* Passes a call row of the stream. Keeps it for its op, if the op comes later. */
static int pass_call(struct access_order *order, const struct access_item *item) {
  uint64_t object = item->acquires ? order->acquired : OBJECT_NONE;
  order->acquired += item->acquires;
  if (item->thread >= order->thread_count) /* all its events are missing */
    return 0;
  struct access_thread *thread = &order->threads[item->thread];
  uint64_t row = thread->rows++;
  if (row < thread->next_row || is_missing(thread, row))
    return 0;
  if (order->waiting == ACCESS_ORDER_MAX_WAITING)
    return error_set(order->error, trace_reader_path(order->reader),
                     "the calls in the data accesses are in another order than the events");
  drop_passed(thread);
  struct call_row *waiting = vector_add(&thread->waiting);
  if (!waiting)
    return no_memory(order);
  *waiting = (struct call_row){row, item->stack_pointer, object};
  order->waiting++;
  return 0;
}

/* Passes the next item of the stream. Returns 1, 0 at the end, -1. */
static int pass_item(struct access_order *order) {
  struct access_item item;
  if (order->at_end)
    return 0;
  int got = trace_access_cursor_next(order->cursor, &item);
  order->at_end = got == 0;
  if (got <= 0)
    return got;
  int result = item.kind == ACCESS_EVENT ? pass_call(order, &item) : put_access(order, &item);
  return result == 0 ? 1 : -1;
}

/* Rows before the row of the thread's next event belong to no event. */
static struct call_row *first_waiting(struct access_order *order, struct access_thread *thread) {
  while (thread->first_waiting < thread->waiting.count &&
         thread->waiting.at[thread->first_waiting].row < thread->next_row) {
    thread->first_waiting++;
    order->waiting--;
  }
  return thread->first_waiting < thread->waiting.count ? &thread->waiting.at[thread->first_waiting] : NULL;
}

/* Passes the stream up to the row of the thread's next event; *found is NULL if there is none. */
static int find_row(struct access_order *order, struct access_thread *thread, const struct call_row **found) {
  int got = 1;
  while (!(*found = first_waiting(order, thread)) && got > 0)
    got = pass_item(order);
  return got < 0 ? -1 : 0;
}

static void skip_missing(struct access_thread *thread) {
  while (thread->passed_by_events < thread->missing.count &&
         thread->missing.at[thread->passed_by_events].from <= thread->next_row)
    thread->next_row += thread->missing.at[thread->passed_by_events++].count;
}

static void end_event(struct access_order *order, struct access_thread *thread) {
  thread->next_row++;
  skip_missing(thread);
  first_waiting(order, thread);
}

static void forget_object(struct access_order *order, uint64_t *object) {
  if (!*object)
    return;
  address_map_remove(&order->slots, address_map_find(&order->slots, *object));
  *object = 0;
}

/* Updates the objects for the op. object: the one that it acquired, OBJECT_NONE: none, or not known. */
static int follow_objects(struct access_order *order, const struct history_op *op, uint64_t object) {
  if (op->kind == HISTORY_NOTHING || op->kind == HISTORY_TOUCH)
    return 0;
  uint64_t *known = vector_reach(&order->objects, op->slot);
  if (!known)
    return no_memory(order);
  forget_object(order, known);
  if (op->kind == HISTORY_RELEASE || object == OBJECT_NONE)
    return 0;
  *known = object + 1;
  struct address_entry *entry = address_map_find(&order->slots, *known);
  return address_map_add(&order->slots, entry, *known, op->slot, false) ? 0 : no_memory(order);
}

/* Puts the item of the thread's next event. object: the one that the call acquired, if the stream has it. */
static int put_event(struct access_order *order, uint32_t number, bool acquires, uint64_t *object) {
  struct access_thread *thread = &order->threads[number];
  const struct call_row *row;
  if (find_row(order, thread, &row) != 0)
    return -1;
  *object = row ? row->object : OBJECT_NONE;
  if (row)
    thread->stack_pointer = row->stack_pointer;
  else
    order->counts.ops_without_call++;
  return put(order,
             &(struct access_item){
                 .kind = ACCESS_EVENT, .thread = number, .acquires = acquires, .stack_pointer = thread->stack_pointer});
}

int access_order_op(struct access_order *order, const struct history_op *op) {
  struct access_thread *thread = &order->threads[op->thread];
  bool acquires = op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE;
  uint64_t object;
  if (put_event(order, op->thread, acquires, &object) != 0)
    return -1;
  if (op->event) {
    const struct call_row *row = first_waiting(order, thread);
    if (row && acquires != (object != OBJECT_NONE))
      return error_set(order->error, trace_reader_path(order->reader),
                       "thread %" PRIu32 ": call row %" PRIu64 " of the data accesses is not that of the event, a %s",
                       op->thread, row->row, call_table[op->call & CALL_ID_MASK].name);
    end_event(order, thread);
  }
  return follow_objects(order, op, object);
}

int access_order_left_out(struct access_order *order, const struct merge_step *step, bool wanted) {
  uint64_t object;
  if (!step->is_last)
    return 0;
  if (wanted && put_event(order, step->thread, false, &object) != 0)
    return -1;
  end_event(order, &order->threads[step->thread]);
  return 0;
}

int access_order_finish(struct access_order *order) {
  int got;
  do
    got = pass_item(order);
  while (got > 0);
  return got;
}

const struct access_order_counts *access_order_counts(const struct access_order *order) {
  return &order->counts;
}

struct gap_visit {
  struct access_thread *thread;
  uint64_t missing;
};

static int take_gap(void *context, uint64_t events_before, uint64_t dropped, const char *why) {
  (void)why;
  struct gap_visit *visit = context;
  struct missing_rows *missing = vector_add(&visit->thread->missing);
  if (!missing)
    return 1;
  *missing = (struct missing_rows){events_before + visit->missing, dropped};
  visit->missing += dropped;
  return 0;
}

static int load_gaps(struct access_order *order, struct trace_reader *reader) {
  for (uint32_t i = 0; i < order->thread_count && trace_reader_summary(reader)->dropped; i++) {
    struct gap_visit visit = {.thread = &order->threads[i]};
    int result = trace_reader_gaps(reader, i, take_gap, &visit, order->error);
    if (result != 0)
      return result < 0 ? -1 : no_memory(order);
    skip_missing(visit.thread);
  }
  return 0;
}

static int begin(struct access_order *order, struct trace_reader *reader) {
  order->thread_count = trace_reader_summary(reader)->threads;
  order->threads = calloc(order->thread_count + 1, sizeof *order->threads);
  if (!order->threads || !address_map_init(&order->slots))
    return no_memory(order);
  if (load_gaps(order, reader) != 0)
    return -1;
  return trace_access_cursor_open(&order->cursor, reader, order->error);
}

int access_order_open(struct access_order **out, struct trace_reader *reader, const struct access_sink *sink,
                      struct error *error) {
  *out = NULL;
  if (trace_reader_requires_accesses(reader, error) != 0)
    return -1;
  struct access_order *order = calloc(1, sizeof *order);
  if (!order)
    return error_set(error, trace_reader_path(reader), "out of memory");
  order->reader = reader;
  order->sink = *sink;
  order->error = error;
  if (begin(order, reader) != 0) {
    access_order_close(order);
    return -1;
  }
  *out = order;
  return 0;
}

void access_order_close(struct access_order *order) {
  if (!order)
    return;
  trace_access_cursor_close(order->cursor);
  for (uint32_t i = 0; order->threads && i < order->thread_count; i++) {
    free(order->threads[i].missing.at);
    free(order->threads[i].waiting.at);
  }
  free(order->threads);
  free(order->objects.at);
  address_map_free(&order->slots);
  free(order);
}

static int finish(struct access_order *order, uint64_t *lost) {
  int result = access_order_finish(order);
  *lost = order->counts.lost;
  return result;
}

static const struct orderer access_orderer = {access_order_open, access_order_op, access_order_left_out, finish,
                                              access_order_close};
REGISTER_ORDERER(access_orderer);

#include "convert/compile/compile_accesses.h"

#include "core/accesses/replay_file.h"
#include "core/base/vector.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_BYTES = 1 << 16 };
#define OBJECT_NONE UINT64_MAX

/* A call row that was passed before the op came that it belongs to. */
struct call_row {
  uint64_t row; /* number among those of its thread */
  uint64_t stack_pointer;
  uint64_t object; /* that it acquired; OBJECT_NONE: none */
};

/* Call rows of a thread whose events are missing. */
struct missing_rows {
  uint64_t from, count;
};

struct access_thread {
  VECTOR(struct missing_rows) missing;
  size_t passed_by_events, passed_by_rows; /* of missing */
  uint64_t next_row;                       /* of the next event */
  uint64_t rows;                           /* passed in the stream */
  VECTOR(struct call_row) waiting;
  size_t first_waiting;
  uint64_t stack_pointer; /* of the last op */
};

struct compile_accesses {
  const struct trace_reader *reader;
  struct error *error;
  struct trace_access_cursor *cursor;
  bool at_end;
  struct access_thread *threads;
  uint32_t thread_count;
  size_t waiting;           /* of all threads */
  uint64_t acquired;        /* call rows that acquired, in the stream so far */
  struct address_map slots; /* of live objects, by number plus 1 */
  VECTOR(uint64_t) objects; /* by slot: number plus 1; 0: none, or not known. Counted by room alone. */
  struct compiled_accesses counts;
  FILE *out;
  const char *path;
  struct access_coder coder;
  size_t used;
  uint8_t bytes[OUT_BYTES];
};

static int no_memory(const struct compile_accesses *accesses) {
  return error_set(accesses->error, trace_reader_path(accesses->reader), "out of memory");
}

static int write_out(struct compile_accesses *accesses) {
  size_t used = accesses->used;
  accesses->used = 0;
  if (fwrite(accesses->bytes, 1, used, accesses->out) == used)
    return 0;
  return error_errno(accesses->error, accesses->path, "can't write");
}

static int put(struct compile_accesses *accesses, const struct access_item *item) {
  if (accesses->used > OUT_BYTES - ACCESS_ITEM_BYTES && write_out(accesses) != 0)
    return -1;
  uint8_t *end = access_put(&accesses->coder, accesses->bytes + accesses->used, item);
  accesses->used = (size_t)(end - accesses->bytes);
  return 0;
}

static int put_event(struct compile_accesses *accesses, uint64_t stack_pointer) {
  return put(accesses, &(struct access_item){.kind = ACCESS_EVENT, .stack_pointer = stack_pointer});
}

static int put_access(struct compile_accesses *accesses, const struct access_item *item) {
  struct access_item placed = *item;
  if (item->kind == ACCESS_OBJECT) {
    const struct address_entry *entry = address_map_find(&accesses->slots, item->object + 1);
    if (!entry->address) {
      accesses->counts.lost++;
      return 0;
    }
    placed.object = entry->slot;
    accesses->counts.objects++;
  } else {
    accesses->counts.other++;
  }
  return put(accesses, &placed);
}

/* The thread's next row is not that of an event of the trace. */
static bool is_missing(struct access_thread *thread, uint64_t row) {
  while (thread->passed_by_rows < thread->missing.count) {
    const struct missing_rows *missing = &thread->missing.at[thread->passed_by_rows];
    if (row < missing->from + missing->count)
      return row >= missing->from;
    thread->passed_by_rows++;
  }
  return false;
}

/* Makes room by what is in front of the first row that waits, once that is most of them. */
static void drop_passed(struct access_thread *thread) {
  size_t left = thread->waiting.count - thread->first_waiting;
  if (thread->first_waiting <= left)
    return;
  memmove(thread->waiting.at, thread->waiting.at + thread->first_waiting, left * sizeof *thread->waiting.at);
  thread->waiting.count = left;
  thread->first_waiting = 0;
}

/* A call row comes in the stream. Keeps it for its op, if that is still to come. */
static int pass_call(struct compile_accesses *accesses, const struct access_item *item) {
  uint64_t object = item->acquires ? accesses->acquired : OBJECT_NONE;
  accesses->acquired += item->acquires;
  if (item->thread >= accesses->thread_count) /* all its events are missing */
    return 0;
  struct access_thread *thread = &accesses->threads[item->thread];
  uint64_t row = thread->rows++;
  if (row < thread->next_row || is_missing(thread, row))
    return 0;
  if (accesses->waiting == COMPILE_ACCESSES_MAX_WAITING)
    return error_set(accesses->error, trace_reader_path(accesses->reader),
                     "the calls in the data accesses stand in another order than the events");
  drop_passed(thread);
  struct call_row *waiting = vector_add(&thread->waiting);
  if (!waiting)
    return no_memory(accesses);
  *waiting = (struct call_row){row, item->stack_pointer, object};
  accesses->waiting++;
  return 0;
}

/* The next item of the stream, on its way. 1, 0 at the end, -1. */
static int pass_item(struct compile_accesses *accesses) {
  struct access_item item;
  if (accesses->at_end)
    return 0;
  int got = trace_access_cursor_next(accesses->cursor, &item);
  accesses->at_end = got == 0;
  if (got <= 0)
    return got;
  int result = item.kind == ACCESS_EVENT ? pass_call(accesses, &item) : put_access(accesses, &item);
  return result == 0 ? 1 : -1;
}

/* Rows before that of the thread's next event belong to none. */
static struct call_row *first_waiting(struct compile_accesses *accesses, struct access_thread *thread) {
  while (thread->first_waiting < thread->waiting.count &&
         thread->waiting.at[thread->first_waiting].row < thread->next_row) {
    thread->first_waiting++;
    accesses->waiting--;
  }
  return thread->first_waiting < thread->waiting.count ? &thread->waiting.at[thread->first_waiting] : NULL;
}

/* Passes the stream up to the row of the thread's next event; *found NULL: it is not there. */
static int find_row(struct compile_accesses *accesses, struct access_thread *thread, const struct call_row **found) {
  int got = 1;
  while (!(*found = first_waiting(accesses, thread)) && got > 0)
    got = pass_item(accesses);
  return got < 0 ? -1 : 0;
}

/* Sets next_row past the rows that are missing. */
static void skip_missing(struct access_thread *thread) {
  while (thread->passed_by_events < thread->missing.count &&
         thread->missing.at[thread->passed_by_events].from <= thread->next_row)
    thread->next_row += thread->missing.at[thread->passed_by_events++].count;
}

static void end_event(struct compile_accesses *accesses, struct access_thread *thread) {
  thread->next_row++;
  skip_missing(thread);
  first_waiting(accesses, thread);
}

static void forget_object(struct compile_accesses *accesses, uint64_t *object) {
  if (!*object)
    return;
  address_map_remove(&accesses->slots, address_map_find(&accesses->slots, *object));
  *object = 0;
}

/* The objects after the op. object: that it acquired, OBJECT_NONE: none, or not known. */
static int follow_objects(struct compile_accesses *accesses, const struct history_op *op, uint64_t object) {
  if (op->kind == HISTORY_NOTHING || op->kind == HISTORY_TOUCH)
    return 0;
  uint64_t *known = vector_reach(&accesses->objects, op->slot);
  if (!known)
    return no_memory(accesses);
  forget_object(accesses, known);
  if (op->kind == HISTORY_RELEASE || object == OBJECT_NONE)
    return 0;
  *known = object + 1;
  struct address_entry *entry = address_map_find(&accesses->slots, *known);
  return address_map_add(&accesses->slots, entry, *known, op->slot, false) ? 0 : no_memory(accesses);
}

int compile_accesses_op(struct compile_accesses *accesses, const struct history_op *op) {
  struct access_thread *thread = &accesses->threads[op->thread];
  const struct call_row *row;
  uint64_t object = OBJECT_NONE;
  if (find_row(accesses, thread, &row) != 0)
    return -1;
  if (row) {
    thread->stack_pointer = row->stack_pointer;
    object = row->object;
  } else {
    accesses->counts.ops_without_call++;
  }
  if (row && op->event && trace_event_acquires(op->event) != (object != OBJECT_NONE))
    return error_set(accesses->error, trace_reader_path(accesses->reader),
                     "thread %" PRIu32 ": call row %" PRIu64 " of the data accesses is not that of the event, a %s",
                     op->thread, row->row, call_table[op->call & CALL_ID_MASK].name);
  if (put_event(accesses, thread->stack_pointer) != 0)
    return -1;
  if (op->event)
    end_event(accesses, thread);
  return follow_objects(accesses, op, object);
}

int compile_accesses_left_out(struct compile_accesses *accesses, const struct merge_step *step) {
  if (merge_step_is_last(step))
    end_event(accesses, &accesses->threads[step->thread]);
  return 0;
}

static int put_totals(struct compile_accesses *accesses) {
  const struct trace_access_totals *totals = &trace_reader_summary(accesses->reader)->accesses;
  for (uint32_t total = 0; total < ACCESS_TOTAL_LIMIT; total++) {
    const struct access_item item = {.kind = ACCESS_TOTAL, .total = total, .value = totals->counted[total]};
    if (totals->known[total] && put(accesses, &item) != 0)
      return -1;
  }
  return 0;
}

int compile_accesses_finish(struct compile_accesses *accesses, struct compiled_accesses *counts) {
  int got;
  do
    got = pass_item(accesses);
  while (got > 0);
  if (got < 0 || put_totals(accesses) != 0 || write_out(accesses) != 0)
    return -1;
  FILE *out = accesses->out;
  accesses->out = NULL;
  *counts = accesses->counts;
  return fclose(out) == 0 ? 0 : error_errno(accesses->error, accesses->path, "can't write");
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

static int load_gaps(struct compile_accesses *accesses, struct trace_reader *reader) {
  for (uint32_t i = 0; i < accesses->thread_count && trace_reader_summary(reader)->dropped; i++) {
    struct gap_visit visit = {.thread = &accesses->threads[i]};
    int result = trace_reader_gaps(reader, i, take_gap, &visit, accesses->error);
    if (result != 0)
      return result < 0 ? -1 : no_memory(accesses);
    skip_missing(visit.thread);
  }
  return 0;
}

static int put_header(struct compile_accesses *accesses) {
  uint64_t filter_bytes = trace_reader_summary(accesses->reader)->access_filter_bytes;
  struct access_file_header header = {
      .version = ACCESS_FILE_VERSION,
      .filter_bytes = filter_bytes < UINT32_MAX ? (uint32_t)filter_bytes : UINT32_MAX,
  };
  memcpy(header.magic, ACCESS_FILE_MAGIC, sizeof header.magic);
  memcpy(accesses->bytes, &header, sizeof header);
  accesses->used = sizeof header;
  return 0;
}

static int begin(struct compile_accesses *accesses, struct trace_reader *reader) {
  accesses->thread_count = trace_reader_summary(reader)->threads;
  accesses->threads = calloc(accesses->thread_count + 1, sizeof *accesses->threads);
  if (!accesses->threads || !address_map_init(&accesses->slots))
    return no_memory(accesses);
  if (load_gaps(accesses, reader) != 0 || trace_access_cursor_open(&accesses->cursor, reader, accesses->error) != 0)
    return -1;
  accesses->out = fopen(accesses->path, "we");
  if (!accesses->out)
    return error_errno(accesses->error, accesses->path, "can't create");
  return put_header(accesses);
}

int compile_accesses_open(struct compile_accesses **out, struct trace_reader *reader, const char *path,
                          struct error *error) {
  *out = NULL;
  if (!trace_reader_summary(reader)->accesses.recorded)
    return error_set(error, trace_reader_path(reader),
                     "has no data accesses: 'heaptape record --accesses' records them");
  struct compile_accesses *accesses = calloc(1, sizeof *accesses);
  if (!accesses)
    return error_set(error, trace_reader_path(reader), "out of memory");
  accesses->reader = reader;
  accesses->path = path;
  accesses->error = error;
  if (begin(accesses, reader) != 0) {
    compile_accesses_free(accesses);
    return -1;
  }
  *out = accesses;
  return 0;
}

void compile_accesses_free(struct compile_accesses *accesses) {
  if (!accesses)
    return;
  if (accesses->out)
    fclose(accesses->out);
  trace_access_cursor_close(accesses->cursor);
  for (uint32_t i = 0; accesses->threads && i < accesses->thread_count; i++) {
    free(accesses->threads[i].missing.at);
    free(accesses->threads[i].waiting.at);
  }
  free(accesses->threads);
  free(accesses->objects.at);
  address_map_free(&accesses->slots);
  free(accesses);
}

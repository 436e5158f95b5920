/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/workload_trace.h"

#include "convert/rewrite/trace_out.h"
#include "core/base/os.h"
#include "core/trace/write/trace_write.h"
#include "core/workload/workload_read.h"

#include <inttypes.h>
#include <stdlib.h>

#define THREAD_NONE UINT32_MAX

struct traced_slot {
  uint64_t address;          /* of the object in it; 0: none, or an object left out */
  uint64_t number;           /* of the object in the trace; used if accesses are wanted */
  uint32_t touched_os_pages; /* plus 1; 0: not known */
  bool full;
};

struct tracing {
  const struct workload *workload;
  const struct workload_trace_wanted *wanted;
  struct workload_trace_counts *counts;
  struct error *error;
  struct workload_ops ops;
  struct trace_writer *writer;
  struct made_addresses made;
  struct traced_slot *slots;
  size_t slots_bytes;
  uint32_t *threads; /* by thread of the workload: the thread in the trace; THREAD_NONE: no event yet */
  bool *joined;      /* by thread of the workload */
  uint32_t thread_count, last_thread;
  bool timed;
  struct accesses_reader *accesses; /* NULL: not wanted */
  uint64_t stack_pointer, acquired; /* of the op's call; number of objects so far */
  uint64_t
      stamp; /* the last one: ns since the recording began, plus 1; if not timed: number of a thread's run of events */
};

static int wrong(const struct tracing *tracing, const char *what) {
  return error_set(tracing->error, tracing->workload->path, "op at position %" PRIu64 ": %s", tracing->ops.op.position,
                   what);
}

/* Is the next object wanted? */
static bool next_is_wanted(struct tracing *tracing) {
  uint64_t number = tracing->counts->objects++;
  const struct workload_trace_wanted *wanted = tracing->wanted;
  if (wanted->wants)
    return wanted->wants(wanted->context, number);
  return !wanted->objects || (number < wanted->object_count && wanted->objects[number]);
}

static int put(struct tracing *tracing, struct trace_event *event) {
  uint32_t source = tracing->joined[tracing->ops.op.thread] ? 0 : tracing->ops.op.thread;
  if (tracing->threads[source] == THREAD_NONE)
    tracing->threads[source] = tracing->thread_count++;
  uint32_t thread = tracing->threads[source];
  uint64_t time = tracing->timed ? tracing->ops.op.time_ns + 1 : 0;
  if (thread != tracing->last_thread || time > tracing->stamp) {
    tracing->stamp = time > tracing->stamp ? time : tracing->stamp + 1;
    event->release_stamp = event->acquire_stamp = tracing->stamp;
    tracing->last_thread = thread;
  }
  tracing->counts->events++;
  if (trace_writer_event(tracing->writer, thread, event) != 0)
    return -1;
  if (!tracing->accesses)
    return 0;
  const struct access_item call = {.kind = ACCESS_EVENT,
                                   .thread = thread,
                                   .acquires = event->acquired != 0,
                                   .stack_pointer = tracing->stack_pointer};
  tracing->acquired += call.acquires;
  return trace_writer_access(tracing->writer, &call);
}

/* Takes the items before the op in the stream of accesses, and its call. */
static int take_accesses(struct tracing *tracing) {
  const struct workload_trace_wanted *wanted = tracing->wanted;
  bool plays = wanted->plays(wanted->context, tracing->ops.op.position);
  struct access_item item;
  int got;
  while ((got = accesses_reader_before_call(tracing->accesses, tracing->workload->header.slots, &item,
                                            tracing->error)) > 0) {
    if (item.kind == ACCESS_OBJECT) {
      const struct traced_slot *slot = &tracing->slots[item.object];
      item.object = slot->number;
      if (!slot->address)
        continue;
    }
    if (plays && trace_writer_access(tracing->writer, &item) < 0)
      return -1;
  }
  tracing->stack_pointer = item.stack_pointer;
  return got;
}

static uint64_t new_address(struct tracing *tracing, const struct trace_event *event) {
  return made_addresses_next(&tracing->made, tracing->ops.op.thread, trace_event_request_bytes(event));
}

/* Takes an op that acts on an object or makes one. */
static int take_object(struct tracing *tracing, struct trace_event *event) {
  const struct workload_ops_op *op = &tracing->ops.op;
  const struct call_info *info = &call_table[op->call & CALL_ID_MASK];
  bool given = info->released != NOTHING && !(op->call & CALL_NULL_IN);
  if (op->slot >= tracing->workload->header.slots || tracing->slots[op->slot].full != given)
    return wrong(tracing, "its slot is not in the state that the call needs");
  struct traced_slot *slot = &tracing->slots[op->slot];
  if (!given)
    *slot = (struct traced_slot){.full = true, .address = next_is_wanted(tracing) ? new_address(tracing, event) : 0};
  uint64_t before = given ? slot->address : 0, after = slot->address;
  bool releases = trace_event_releases(event);
  if (releases) {
    slot->full = trace_event_acquires(event);
    slot->address = slot->full && before ? new_address(tracing, event) : 0;
    event->touched_os_pages = slot->touched_os_pages;
    after = slot->address;
  }
  if (info->acquires || releases)
    slot->touched_os_pages = (uint32_t)op->touched;
  event->released = before;
  event->acquired = trace_event_acquires(event) ? after : 0;
  if (event->acquired)
    slot->number = tracing->acquired;
  return before || event->acquired ? put(tracing, event) : 0;
}

static int take_op(struct tracing *tracing) {
  const struct workload_ops_op *op = &tracing->ops.op;
  const struct call_info *info = &call_table[op->call & CALL_ID_MASK];
  struct trace_event event = {.call = op->call,
                              .size_bytes = info->has_size ? op->size_bytes : 0,
                              .param = info->param != NONE ? op->param : 0};
  if (op->region)
    return wrong(tracing, "is served by memory apart, which a trace can't record");
  if (op->slot != WORKLOAD_NO_SLOT)
    return take_object(tracing, &event);
  if (!(op->call & CALL_NULL_IN) || trace_event_acquires(&event))
    return wrong(tracing, "has no slot, though it acts on an object");
  return next_is_wanted(tracing) ? put(tracing, &event) : 0;
}

static int take_ops(struct tracing *tracing) {
  int got = 0;
  while (tracing->ops.op.position + 1 < tracing->wanted->end &&
         (got = workload_ops_next(&tracing->ops, tracing->error)) > 0)
    if ((tracing->accesses && take_accesses(tracing) != 0) || take_op(tracing) != 0)
      return -1;
  for (uint32_t i = 0; got >= 0 && i < tracing->workload->header.slots; i++)
    if (tracing->slots[i].address && tracing->slots[i].touched_os_pages)
      trace_writer_touched(tracing->writer, tracing->slots[i].address, tracing->slots[i].touched_os_pages - 1);
  return got < 0 ? -1 : 0;
}

/* Has the workload times? They are 0 throughout its time line if not. */
static bool has_times(const struct workload *workload) {
  struct workload_stream line;
  uint64_t word, number = 0;
  workload_stream_open(&line, workload, workload->header.threads + 1);
  while (workload_stream_next(&line, &word))
    if (number++ % 4 == 1 && word > 0)
      return true;
  return false;
}

/* INFO: keeps what is known of the program. */
static char *info_text(const struct tracing *tracing) {
  static const char *const kept[] = {"program", "allocator", "os_page_bytes", "libraries", "synthetic"};
  static const char *const lost[] = {"addresses", "failures", "times"};
  size_t bytes;
  bool timed = tracing->timed;
  json_t *distilled = tracing->wanted->distilled;
  const char *text = workload_info(tracing->workload, &bytes);
  json_t *source = json_loadb(text, bytes, 0, NULL);
  json_t *info =
      json_pack("{s{ss si si} ss ss}", "clock", "kind", timed ? "nanoseconds" : "ordinal", "hz", timed ? 1000000000 : 0,
                "origin_stamp", 1, "order", "file", "source", "heaptape, of a workload");
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    json_object_set(info, kept[i], json_object_get(source, kept[i]));
  json_object_del(json_object_get(info, "synthetic"), "expected"); /* holds for the whole only */
  json_t *lacks = json_object_get(source, "lacks");
  lacks = json_is_array(lacks) ? json_copy(lacks) : json_array();
  for (size_t i = 0; i < sizeof lost / sizeof *lost - timed; i++)
    json_array_append_new(lacks, json_string(lost[i]));
  json_object_set_new(info, "lacks", lacks);
  if (tracing->accesses)
    json_object_set_new(info, "accesses",
                        json_pack("{si sI}", "granule_bytes", ACCESS_GRANULE_BYTES, "filter_bytes",
                                  (json_int_t)tracing->accesses->filter_bytes));
  if (distilled)
    json_object_set(info, "distilled", distilled);
  char *result = json_dumps(info, JSON_COMPACT | JSON_REAL_PRECISION(12));
  json_decref(info);
  json_decref(source);
  return result;
}

/* reader: storage for it. */
static int open_accesses(struct tracing *tracing, struct accesses_reader *reader) {
  if (!tracing->wanted->accesses)
    return 0;
  tracing->accesses = reader;
  return accesses_reader_open(reader, tracing->wanted->accesses, tracing->error);
}

static int begin(struct tracing *tracing, const char *path) {
  const struct workload_header *header = &tracing->workload->header;
  /* Mapped: slots that no op uses cost no memory, whatever the header claims. */
  tracing->slots_bytes = ((size_t)header->slots + 1) * sizeof *tracing->slots;
  tracing->slots = os_map(tracing->slots_bytes, false);
  tracing->threads = malloc((header->threads + 1u) * sizeof *tracing->threads);
  tracing->joined = calloc(header->threads + 1u, sizeof *tracing->joined);
  tracing->timed = has_times(tracing->workload);
  char *info = info_text(tracing);
  bool ready = made_addresses_init(&tracing->made, header->threads) && tracing->slots && tracing->threads &&
               tracing->joined && info;
  int result = ready ? trace_writer_open(&tracing->writer, path, info, NULL, tracing->error)
                     : error_set(tracing->error, tracing->workload->path, "out of memory");
  free(info);
  if (result == 0 && tracing->accesses)
    result = trace_writer_accesses_begin(tracing->writer);
  for (uint32_t i = 0; ready && i < header->threads; i++)
    tracing->threads[i] = THREAD_NONE;
  for (size_t i = 0; ready && i < tracing->wanted->joined_count; i++) {
    uint32_t thread = tracing->wanted->joined[i];
    if (thread >= header->threads)
      return error_set(tracing->error, tracing->workload->path, "has no thread %" PRIu32, thread);
    tracing->joined[thread] = true;
  }
  return result;
}

static void end(struct tracing *tracing) {
  workload_ops_close(&tracing->ops);
  made_addresses_free(&tracing->made);
  if (tracing->slots)
    os_unmap(tracing->slots, tracing->slots_bytes);
  free(tracing->threads);
  free(tracing->joined);
}

int workload_trace_write(const struct workload *workload, const struct workload_trace_wanted *wanted, const char *path,
                         struct workload_trace_counts *counts, struct error *error) {
  struct error written = {""};
  struct accesses_reader reader = {.file = NULL};
  struct tracing tracing = {
      .workload = workload, .wanted = wanted, .counts = counts, .error = error, .last_thread = THREAD_NONE};
  *counts = (struct workload_trace_counts){0};
  int result = open_accesses(&tracing, &reader);
  if (result == 0)
    result = begin(&tracing, path);
  if (result == 0)
    result = workload_ops_open(&tracing.ops, workload, error);
  if (result == 0)
    result = take_ops(&tracing);
  if (result == 0 && wanted->objects && wanted->end >= workload->header.ops && counts->objects != wanted->object_count)
    result = error_set(error, workload->path, "has %" PRIu64 " objects, the list has %" PRIu64, counts->objects,
                       wanted->object_count);
  /* A full disk shows as a refused event; the writer has the reason. */
  if (tracing.writer && trace_writer_close(tracing.writer, "exit", 0, &written) != 0) {
    *error = written;
    result = -1;
  }
  accesses_reader_close(&reader);
  end(&tracing);
  return result;
}

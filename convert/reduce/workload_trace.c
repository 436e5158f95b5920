/* SPDX-License-Identifier: MIT */
#include "convert/reduce/workload_trace.h"

#include "convert/copy/op_sink.h"
#include "convert/history/history.h"
#include "core/base/os.h"
#include "core/trace/write/trace_write.h"
#include "core/workload/workload_ops.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- a workload's ops, walked in their total order as a history hands on those of a trace --- */

/* Objects are numbered from 0 in the order of their births; a call that is given NULL and acquires nothing counts as an
   object that is born and ends there. The slot of each op is in the state that the op needs. */
struct op_walk {
  struct workload_ops ops; /* ops.op: the current op as in the file */
  struct history_op op;    /* the same for users of histories; its touched_os_pages, stamp and event are not set */
  uint64_t objects;        /* begun so far, including those of HISTORY_NOTHING */
  uint8_t *full;           /* by slot */
  uint64_t full_bytes;
};

static int wrong(const struct op_walk *walk, struct error *error, const char *what) {
  return error_set(error, walk->ops.workload->path, "op at position %" PRIu64 ": %s", walk->ops.op.position, what);
}

/* It can be closed even if that fails. */
static int op_walk_open(struct op_walk *walk, const struct workload *workload, struct error *error) {
  *walk = (struct op_walk){.full_bytes = workload->header.slots + 1ull};
  /* Mapped: slots that no op uses cost no memory, whatever the header claims. */
  walk->full = os_map(walk->full_bytes, false);
  if (!walk->full)
    return error_set(error, workload->path, "out of memory");
  return workload_ops_open(&walk->ops, workload, error);
}

static void op_walk_close(struct op_walk *walk) {
  workload_ops_close(&walk->ops);
  if (walk->full)
    os_unmap(walk->full, walk->full_bytes);
}

static int take_object(struct op_walk *walk, const struct trace_event *event, struct error *error) {
  struct history_op *op = &walk->op;
  bool given = trace_event_takes(event), releases = trace_event_releases(event), acquires = trace_event_acquires(event);
  if (op->slot >= walk->ops.workload->header.slots || walk->full[op->slot] != given || (!given && !acquires))
    return wrong(walk, error, "its slot is not in the state that the call needs");
  op->kind = !given ? HISTORY_ACQUIRE : !releases ? HISTORY_TOUCH : acquires ? HISTORY_MOVE : HISTORY_RELEASE;
  if (op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE)
    op->request_bytes = trace_event_request_bytes(event);
  walk->full[op->slot] = op->kind != HISTORY_RELEASE;
  walk->objects += !given;
  return 1;
}

/* Moves to the next op. Returns 1; 0 at the end; -1 with error: the workload is not legal. */
static int op_walk_next(struct op_walk *walk, struct error *error) {
  int got = workload_ops_next(&walk->ops, error);
  if (got <= 0)
    return got;
  const struct workload_ops_op *at = &walk->ops.op;
  const uint8_t traits = call_traits[at->call];
  const struct trace_event event = {.call = at->call,
                                    .size_bytes = traits & CALL_HAS_SIZE ? at->size_bytes : 0,
                                    .param = traits & CALL_HAS_PARAM ? at->param : 0};
  walk->op = (struct history_op){.kind = HISTORY_NOTHING,
                                 .call = at->call,
                                 .region = (uint8_t)at->region,
                                 .thread = at->thread,
                                 .slot = SLOTS_NONE,
                                 .size_bytes = event.size_bytes,
                                 .param = event.param};
  if (at->slot != WORKLOAD_NO_SLOT) {
    walk->op.slot = at->slot;
    return take_object(walk, &event, error);
  }
  if (traits & (EVENT_TAKES | EVENT_ACQUIRES))
    return wrong(walk, error, "has no slot, though it acts on an object");
  walk->objects++;
  return 1;
}

/* --- the trace --- */

struct traced_slot {
  uint64_t address;          /* of the object in it; 0: none, or an object left out */
  uint32_t touched_os_pages; /* plus 1; 0: not known */
  uint32_t touched_parts;
};

struct tracing {
  const struct workload *workload;
  const struct workload_trace_selection *wanted;
  struct workload_trace_counts *counts;
  struct error *error;
  struct op_walk walk;
  struct trace_out *out;
  struct op_sink sink;
  struct traced_slot *slots;
  size_t slots_bytes;
  bool *joined; /* by thread of the workload */
  bool timed;
};

/* Is the object that the op begins wanted? */
static bool begins_wanted(const struct tracing *tracing) {
  uint64_t number = tracing->walk.objects - 1;
  const struct workload_trace_selection *wanted = tracing->wanted;
  return !wanted->objects || (number < wanted->object_count && wanted->objects[number]);
}

static int put(struct tracing *tracing, uint64_t *address) {
  const struct history_op *op = &tracing->walk.op;
  uint32_t thread = tracing->joined[op->thread] ? 0 : op->thread;
  uint64_t stamp = tracing->timed ? tracing->walk.ops.op.time_ns + 1 : 0;
  tracing->counts->events++;
  return op_sink_put(&tracing->sink, op, thread, stamp, address);
}

static int take_op(struct tracing *tracing) {
  struct history_op *op = &tracing->walk.op;
  if (op->region)
    return error_set(tracing->error, tracing->workload->path,
                     "op at position %" PRIu64 ": is served by an isolated heap, which a trace can't record",
                     tracing->walk.ops.op.position);
  if (op->kind == HISTORY_NOTHING)
    return begins_wanted(tracing) ? put(tracing, NULL) : 0;
  struct traced_slot *slot = &tracing->slots[op->slot];
  if (op->kind == HISTORY_ACQUIRE ? !begins_wanted(tracing) : slot->address == 0) {
    slot->address = 0;
    return 0;
  }
  if (op->kind == HISTORY_RELEASE || op->kind == HISTORY_MOVE) {
    op->touched_os_pages = slot->touched_os_pages;
    op->touched_parts = slot->touched_parts;
  }
  if (put(tracing, &slot->address) != 0)
    return -1;
  if (op->kind == HISTORY_RELEASE)
    slot->address = 0;
  if (op->kind != HISTORY_TOUCH) {
    uint32_t had = slot->touched_os_pages;
    slot->touched_os_pages = touched_word_os_pages(tracing->walk.ops.op.touched);
    slot->touched_parts = touched_word_parts(tracing->walk.ops.op.touched);
    if (op->kind == HISTORY_MOVE && had && slot->touched_os_pages && op->request_bytes >= TOUCHED_PARTS_MIN_BYTES &&
        !(slot->touched_parts & 1)) /* those since the resize (core/workload/WORKLOAD.md) */
      slot->touched_os_pages += had - 1;
  }
  return 0;
}

static int take_ops(struct tracing *tracing) {
  int got = 0;
  while (tracing->walk.ops.op.position + 1 < tracing->wanted->end &&
         (got = op_walk_next(&tracing->walk, tracing->error)) > 0)
    if (take_op(tracing) != 0)
      return -1;
  tracing->counts->objects = tracing->walk.objects;
  for (uint32_t i = 0; got >= 0 && i < tracing->workload->header.slots; i++)
    if (tracing->slots[i].address && tracing->slots[i].touched_os_pages)
      trace_writer_touched(trace_out_writer(tracing->out), tracing->slots[i].address,
                           (struct touched){tracing->slots[i].touched_os_pages - 1, tracing->slots[i].touched_parts});
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

static json_t *info_of(const struct tracing *tracing) {
  static const char *const kept[] = {"program",           "allocator",          "linked",
                                     "allocator_version", "allocator_build_id", "os_page_bytes",
                                     "libraries",         "settings",           "transparent_huge_pages"};
  static const char *const lost[] = {"addresses", "failures", "times"};
  size_t bytes;
  bool timed = tracing->timed;
  const char *text = workload_info(tracing->workload, &bytes);
  json_t *source = json_loadb(text, bytes, 0, NULL);
  json_t *info =
      json_pack("{s{ss si si} ss ss}", "clock", "kind", timed ? "nanoseconds" : "ordinal", "hz", timed ? 1000000000 : 0,
                "origin_stamp", 1, "order", "file", "source", "heaptape, of a workload");
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    json_object_set(info, kept[i], json_object_get(source, kept[i]));
  json_t *lacks = json_object_get(source, "lacks");
  lacks = json_is_array(lacks) ? json_copy(lacks) : json_array();
  for (size_t i = 0; i < sizeof lost / sizeof *lost - timed; i++)
    json_array_append_new(lacks, json_string(lost[i]));
  json_object_set_new(info, "lacks", lacks);
  json_decref(source);
  return info;
}

static int begin(struct tracing *tracing, const char *path) {
  const struct workload_header *header = &tracing->workload->header;
  const struct trace_options options = {.info_flags = JSON_COMPACT | JSON_REAL_PRECISION(12)};
  /* Mapped: slots that no op uses cost no memory, whatever the header claims. */
  tracing->slots_bytes = ((size_t)header->slots + 1) * sizeof *tracing->slots;
  tracing->slots = os_map(tracing->slots_bytes, false);
  tracing->joined = calloc(header->threads + 1u, sizeof *tracing->joined);
  tracing->timed = has_times(tracing->workload);
  if (!tracing->slots || !tracing->joined)
    return error_set(tracing->error, tracing->workload->path, "out of memory");
  for (size_t i = 0; i < tracing->wanted->joined_count; i++) {
    uint32_t thread = tracing->wanted->joined[i];
    if (thread >= header->threads)
      return error_set(tracing->error, tracing->workload->path, "has no thread %" PRIu32, thread);
    tracing->joined[thread] = true;
  }
  json_t *info = info_of(tracing);
  tracing->out = trace_out_open(path, info, &options, header->threads, tracing->error);
  json_decref(info);
  if (!tracing->out)
    return -1;
  if (!op_sink_init(&tracing->sink, tracing->out, header->threads))
    return error_set(tracing->error, tracing->workload->path, "out of memory");
  return 0;
}

static void end(struct tracing *tracing) {
  op_walk_close(&tracing->walk);
  op_sink_free(&tracing->sink);
  if (tracing->slots)
    os_unmap(tracing->slots, tracing->slots_bytes);
  free(tracing->joined);
}

int workload_trace_write(const struct workload *workload, const struct workload_trace_selection *wanted,
                         const char *path, struct workload_trace_counts *counts, struct error *error) {
  struct error written = {0};
  struct tracing tracing = {.workload = workload, .wanted = wanted, .counts = counts, .error = error};
  *counts = (struct workload_trace_counts){0};
  int result = begin(&tracing, path);
  if (result == 0)
    result = op_walk_open(&tracing.walk, workload, error);
  if (result == 0)
    result = take_ops(&tracing);
  if (result == 0 && wanted->objects && wanted->end >= workload->header.ops && counts->objects != wanted->object_count)
    result = error_set(error, workload->path, "has %" PRIu64 " objects, the list has %" PRIu64, counts->objects,
                       wanted->object_count);
  /* A full disk shows as a refused event; the writer has the reason. */
  const struct trace_summary footer = {.footer_json = "{\"end\": \"exit\"}"};
  if (tracing.out && trace_out_close(tracing.out, &footer, result != 0, &written) != 0) {
    if (written.text[0])
      *error = written;
    result = -1;
  }
  end(&tracing);
  return result;
}

/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/rewrite.h"

#include "convert/history/trace_info.h"
#include "convert/rewrite/trace_out.h"
#include "core/base/vector.h"

#include <stdlib.h>
#include <string.h>

/* Address bits below this, including the page colour, stay as they are: caches are indexed by them. */
enum { REGION_SHIFT = 20 };

/* Accesses in the order of the history. Regions of 1 MiB of other memory, including stacks, are numbered in the order
   in which they occur. Page colours, and which addresses are in one MiB, stay as they were. Memory is that of
   access_order plus O(slots + regions). */
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

static void anonymous_accesses_free(struct anonymous_accesses *accesses) {
  if (!accesses)
    return;
  access_order_close(accesses->order);
  address_map_free(&accesses->regions);
  free(accesses->objects.at);
  free(accesses);
}

static int accesses_no_memory(const struct anonymous_accesses *accesses) {
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

static int put_access(void *context, const struct access_item *item) {
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
    return accesses_no_memory(accesses);
  return trace_writer_access(trace_out_writer(accesses->out), &anonymous) == 0 ? 0 : -1;
}

static int anonymous_accesses_open(struct anonymous_accesses **out, struct trace_reader *reader,
                                   struct trace_out *trace, struct error *error) {
  *out = NULL;
  if (!trace_reader_summary(reader)->accesses.recorded)
    return 0;
  struct anonymous_accesses *accesses = calloc(1, sizeof *accesses);
  if (!accesses)
    return error_set(error, trace_reader_path(reader), "out of memory");
  *accesses = (struct anonymous_accesses){.reader = reader, .out = trace, .error = error};
  const struct access_sink sink = {put_access, accesses};
  int result = address_map_init(&accesses->regions) ? 0 : accesses_no_memory(accesses);
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

static int anonymous_accesses_op(struct anonymous_accesses *accesses, const struct history_op *op) {
  if (!accesses)
    return 0;
  if (access_order_op(accesses->order, op) != 0)
    return -1;
  if (op->kind != HISTORY_ACQUIRE && op->kind != HISTORY_MOVE)
    return 0;
  uint64_t *object = vector_reach(&accesses->objects, op->slot);
  if (!object)
    return accesses_no_memory(accesses);
  *object = accesses->acquired - 1;
  return 0;
}

static int anonymous_accesses_left_out(struct anonymous_accesses *accesses, const struct merge_step *step,
                                       bool wanted) {
  return accesses ? access_order_left_out(accesses->order, step, wanted) : 0;
}

static int anonymous_accesses_finish(struct anonymous_accesses *accesses) {
  if (!accesses)
    return 0;
  if (access_order_finish(accesses->order) != 0)
    return -1;
  trace_writer_totals(trace_out_writer(accesses->out))->accesses.lost += access_order_counts(accesses->order)->lost;
  trace_copy_access_totals(accesses->reader, accesses->out);
  return 0;
}

struct anonymiser {
  struct trace_out *out;
  struct op_sink sink;
  VECTOR(uint64_t) addresses; /* of the object in each slot */
  struct recorded_samples samples;
  struct anonymous_accesses *accesses; /* NULL: there are none */
  const char *path;
  struct error *error;
};

/* Samples taken up to that time come before the next event: they get the stamp of the run that this event begins. */
static void place_samples(struct anonymiser *anonymiser, uint64_t stamp, bool all) {
  struct recorded_samples *samples = &anonymiser->samples;
  bool any = false;
  while (samples->placed < samples->count && (all || samples->rows[samples->placed].stamp <= stamp)) {
    if (!any)
      anonymiser->sink.stamp++;
    any = true;
    samples->rows[samples->placed++].stamp = anonymiser->sink.stamp;
  }
  if (any)
    anonymiser->sink.last_thread = UINT32_MAX; /* a new run */
}

static int take_op(void *context, const struct history_op *op, const struct history_state *before,
                   struct slots *slots) {
  (void)before;
  struct anonymiser *anonymiser = context;
  /* One more, as there may be no slot yet: the first op may be free(NULL). */
  if (!vector_reserve(&anonymiser->addresses, slots->room + 1))
    return error_set(anonymiser->error, anonymiser->path, "out of memory");
  if (anonymous_accesses_op(anonymiser->accesses, op) != 0)
    return -1;
  place_samples(anonymiser, op->stamp, false);
  uint64_t *address = op->kind == HISTORY_NOTHING ? NULL : &anonymiser->addresses.at[op->slot];
  return op_sink_put(&anonymiser->sink, op, op->thread, 0, address);
}

/* Failed calls are not ops, but the program made them: they stay. */
static int take_left_out(void *context, const struct merge_step *step, uint32_t slot) {
  struct anonymiser *anonymiser = context;
  bool stays = !(step->traits & EVENT_TAKES) || slot != SLOTS_NONE;
  if (anonymous_accesses_left_out(anonymiser->accesses, step, stays) != 0)
    return -1;
  if (!stays)
    return 0;
  struct trace_event event = {
      .call = step->event->call, .size_bytes = step->event->size_bytes, .param = step->event->param};
  if (slot != SLOTS_NONE)
    event.released = anonymiser->addresses.at[slot];
  place_samples(anonymiser, step->stamp, false);
  return op_sink_event(&anonymiser->sink, &event, step->thread, 0);
}

static void end_thread(void *context, uint32_t thread) {
  struct anonymiser *anonymiser = context;
  trace_out_end_thread(anonymiser->out, thread);
}

static void touched_at_end(void *context, uint32_t slot, uint32_t os_pages) {
  struct anonymiser *anonymiser = context;
  trace_writer_touched(trace_out_writer(anonymiser->out), anonymiser->addresses.at[slot], os_pages);
}

static void write_samples(struct anonymiser *anonymiser) {
  place_samples(anonymiser, 0, true);
  for (uint32_t i = 0; i < anonymiser->samples.count; i++) {
    const struct recorded_sample *row = &anonymiser->samples.rows[i];
    struct trace_sample sample;
    memset(&sample, 0xff, sizeof sample); /* TRACE_SAMPLE_MISSING */
    sample.stamp = row->stamp;
    sample.rss_anon_bytes = row->rss_anon_bytes;
    sample.vm_size_bytes = row->vm_size_bytes;
    trace_writer_sample(trace_out_writer(anonymiser->out), &sample);
  }
}

/* What is kept of the source's INFO: OS page size, allocator, what it lacks, and accesses and distilled without
   names. */
static json_t *anonymous_info(const struct trace_summary *summary) {
  static const char *const kept[] = {"alignment", "failures", "operators", "threads", "usable_size"};
  struct trace_info source;
  trace_info_read(&source, summary->info_json);
  json_t *lacks = json_pack("[s]", "times"), *item;
  size_t i;
  json_array_foreach(source.lacks, i, item) {
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
      if (json_is_string(item) && strcmp(json_string_value(item), kept[k]) == 0)
        json_array_append(lacks, item);
  }
  json_t *info = json_pack("{s{sssisi} ss ss sI so sb}", "clock", "kind", "ordinal", "hz", 0, "origin_stamp", 1,
                           "order", "file", "source", "heaptape, anonymised", "os_page_bytes",
                           (json_int_t)source.os_page_bytes, "lacks", lacks, "anonymised", 1);
  json_t *accesses = json_object_get(source.json, "accesses");
  json_t *bursts = json_object_get(accesses, "bursts");
  if (json_is_object(bursts)) /* the names of the marks are the program's */
    json_object_clear(bursts);
  if (json_is_object(accesses))
    json_object_set(info, "accesses", accesses);
  json_t *distilled = json_object_get(source.json, "distilled");
  json_object_del(json_object_get(distilled, "whole"), "name"); /* it may be the program's name */
  if (json_is_object(distilled))
    json_object_set(info, "distilled", distilled);
  if (source.allocator[0])
    json_object_set_new(info, "allocator", json_string(source.allocator));
  trace_info_free(&source);
  return info;
}

static int anonymise(struct anonymiser *anonymiser, struct trace_reader *reader, const struct history_options *history,
                     struct error *error) {
  const struct history_consumer consumer = {.context = anonymiser,
                                            .op = take_op,
                                            .thread_end = end_thread,
                                            .touched_at_end = touched_at_end,
                                            .left_out = take_left_out};
  struct witness witness;
  struct error written = {""};
  const struct trace_summary *source = trace_reader_summary(reader);
  struct error wrong = {""};
  anonymiser->error = &wrong;
  bool ready = op_sink_init(&anonymiser->sink, anonymiser->out, source->threads);
  int result = ready ? recorded_samples_load(&anonymiser->samples, reader, &wrong)
                     : error_set(&wrong, anonymiser->path, "out of memory");
  if (result == 0)
    result = anonymous_accesses_open(&anonymiser->accesses, reader, anonymiser->out, &wrong);
  if (result == 0)
    result = history_run(reader, history, &consumer, &witness, &wrong);
  if (result == 0)
    result = anonymous_accesses_finish(anonymiser->accesses);
  if (result == 0)
    write_samples(anonymiser);
  /* Not the source's footer: its clock and its calls in flight do not hold for this trace. */
  struct trace_summary footer = *source;
  footer.footer_json = "{\"end\": \"exit\"}";
  /* A full disk shows as a refused op; the writer has the reason. */
  result = trace_out_close(anonymiser->out, &footer, result != 0, &written);
  if (result != 0)
    *error = written.text[0] ? written : wrong;
  return result;
}

int trace_anonymise(struct trace_reader *reader, const char *path, const struct trace_options *options,
                    struct error *error) {
  struct anonymiser *anonymiser = calloc(1, sizeof *anonymiser);
  if (!anonymiser)
    return error_set(error, path, "out of memory");
  anonymiser->path = path;
  json_t *info = anonymous_info(trace_reader_summary(reader));
  anonymiser->out = trace_out_open(path, info, options, trace_reader_summary(reader)->threads, error);
  json_decref(info);
  int result = anonymiser->out ? anonymise(anonymiser, reader, options->history, error) : -1;
  op_sink_free(&anonymiser->sink);
  free(anonymiser->addresses.at);
  anonymous_accesses_free(anonymiser->accesses);
  free(anonymiser);
  return result;
}

/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/rewrite.h"

#include "convert/copy/op_sink.h"
#include "convert/copy/trace_copy.h"
#include "convert/history/orderer.h"
#include "convert/history/trace_info.h"
#include "core/base/vector.h"

#include <stdlib.h>
#include <string.h>

/* Address bits below this, including the page colour, stay as they are: caches are indexed by them. */
enum { REGION_SHIFT = 20 };

/* The object in a slot. */
struct anonymous_slot {
  uint64_t address;
  uint64_t number; /* of the object in the trace; used if there are accesses */
};

struct anonymiser {
  struct trace_reader *reader;
  struct trace_out *out;
  struct op_sink sink;
  VECTOR(struct anonymous_slot) slots;
  struct recorded_samples samples;
  struct access_order *order; /* of the data accesses; NULL: there are none */
  uint64_t acquired;          /* objects so far, in the stream of accesses */
  struct address_map
      regions; /* of other memory: new numbers, in the order in which they occur, by the old ones plus 1 */
  uint32_t region_count;
  struct error *error;
};

static int no_memory(const struct anonymiser *anonymiser) {
  return error_set(anonymiser->error, trace_reader_path(anonymiser->reader), "out of memory");
}

/* The address that replaces this one; 0: no memory. */
static uint64_t anonymous_address(struct anonymiser *anonymiser, uint64_t address) {
  uint64_t region = (address >> REGION_SHIFT) + 1;
  struct address_entry *entry = address_map_find(&anonymiser->regions, region);
  uint32_t number = entry->slot;
  if (!entry->address) {
    number = ++anonymiser->region_count;
    if (!address_map_add(&anonymiser->regions, entry, region, number, false))
      return 0;
  }
  return (uint64_t)number << REGION_SHIFT | (address & ((1u << REGION_SHIFT) - 1));
}

static int put_access(void *context, const struct access_item *item) {
  struct anonymiser *anonymiser = context;
  struct access_item anonymous = *item;
  uint64_t address = 1;
  switch (item->kind) {
  case ACCESS_EVENT:
    anonymous.thread = trace_out_add_thread(anonymiser->out, item->thread);
    anonymous.stack_pointer = address = anonymous_address(anonymiser, item->stack_pointer);
    anonymiser->acquired += item->acquires;
    break;
  case ACCESS_OBJECT:
    anonymous.object = anonymiser->slots.at[item->object].number;
    break;
  case ACCESS_BURST:
    break;
  default:
    address = anonymous_address(anonymiser, (uint64_t)item->granule << ACCESS_GRANULE_SHIFT);
    anonymous.granule = (int64_t)(address >> ACCESS_GRANULE_SHIFT);
  }
  if (address == 0)
    return no_memory(anonymiser);
  return trace_writer_access(trace_out_writer(anonymiser->out), &anonymous) == 0 ? 0 : -1;
}

static int begin_accesses(struct anonymiser *anonymiser) {
  const struct access_sink sink = {put_access, anonymiser};
  if (!trace_reader_summary(anonymiser->reader)->accesses.recorded)
    return 0;
  if (!orderer()) {
    trace_out_drop_accesses(anonymiser->out);
    return 0;
  }
  if (!address_map_init(&anonymiser->regions))
    return no_memory(anonymiser);
  if (orderer()->open(&anonymiser->order, anonymiser->reader, &sink, anonymiser->error) != 0)
    return -1;
  return trace_writer_accesses_begin(trace_out_writer(anonymiser->out));
}

static int finish_accesses(struct anonymiser *anonymiser) {
  if (!anonymiser->order)
    return 0;
  uint64_t lost;
  if (orderer()->finish(anonymiser->order, &lost) != 0)
    return -1;
  trace_writer_totals(trace_out_writer(anonymiser->out))->accesses.lost += lost;
  trace_copy_access_totals(anonymiser->reader, anonymiser->out);
  return 0;
}

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

static int take_op(void *context, const struct history_op *op, struct slots *slots) {
  struct anonymiser *anonymiser = context;
  /* One more, as there may be no slot yet: the first op may be free(NULL). */
  if (!vector_reserve(&anonymiser->slots, slots->room + 1))
    return no_memory(anonymiser);
  if (anonymiser->order && orderer()->op(anonymiser->order, op) != 0)
    return -1;
  struct anonymous_slot *slot = op->kind == HISTORY_NOTHING ? NULL : &anonymiser->slots.at[op->slot];
  if (op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE)
    slot->number = anonymiser->acquired - 1;
  place_samples(anonymiser, op->stamp, false);
  return op_sink_put(&anonymiser->sink, op, op->thread, 0, slot ? &slot->address : NULL);
}

/* Failed calls are not ops, but the program made them: they stay. */
static int take_left_out(void *context, const struct merge_step *step, uint32_t slot) {
  struct anonymiser *anonymiser = context;
  bool stays = !(step->traits & EVENT_TAKES) || slot != SLOTS_NONE;
  if (anonymiser->order && orderer()->left_out(anonymiser->order, step, stays) != 0)
    return -1;
  if (!stays)
    return 0;
  struct trace_event event = {
      .call = step->event->call, .size_bytes = step->event->size_bytes, .param = step->event->param};
  if (slot != SLOTS_NONE)
    event.released = anonymiser->slots.at[slot].address;
  place_samples(anonymiser, step->stamp, false);
  return op_sink_event(&anonymiser->sink, &event, step->thread, 0);
}

static void end_thread(void *context, uint32_t thread) {
  struct anonymiser *anonymiser = context;
  trace_out_end_thread(anonymiser->out, thread);
}

static void touched_at_end(void *context, uint32_t slot, struct touched touched) {
  struct anonymiser *anonymiser = context;
  trace_writer_touched(trace_out_writer(anonymiser->out), anonymiser->slots.at[slot].address, touched);
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

/* Without values that have a path. NULL: they are not known. */
static json_t *anonymous_settings(const json_t *settings) {
  json_t *kept = json_is_object(settings) ? json_object() : NULL, *value;
  const char *name;
  json_object_foreach((json_t *)settings, name, value)
    if (json_is_string(value) && !strchr(json_string_value(value), '/'))
      json_object_set(kept, name, value);
  return kept;
}

/* What is kept of the source's INFO: OS page size, allocator and its settings, what it lacks, and accesses without
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
  if (json_is_object(accesses) && orderer())
    json_object_set(info, "accesses", accesses);
  if (source.allocator[0])
    json_object_set_new(info, "allocator", json_string(source.allocator));
  json_object_set(info, "touched_parts", json_object_get(source.json, "touched_parts"));
  json_object_set(info, "linked", json_object_get(source.json, "linked"));
  json_object_set(info, "allocator_version", json_object_get(source.json, "allocator_version"));
  json_object_set(info, "allocator_build_id", json_object_get(source.json, "allocator_build_id"));
  json_object_set(info, "transparent_huge_pages", json_object_get(source.json, "transparent_huge_pages"));
  json_object_set_new(info, "settings", anonymous_settings(json_object_get(source.json, "settings")));
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
  struct error written = {0};
  const struct trace_summary *source = trace_reader_summary(reader);
  struct error wrong = {0};
  anonymiser->error = &wrong;
  bool ready = op_sink_init(&anonymiser->sink, anonymiser->out, source->threads);
  int result = ready ? recorded_samples_load(&anonymiser->samples, reader, &wrong) : no_memory(anonymiser);
  if (result == 0)
    result = begin_accesses(anonymiser);
  if (result == 0)
    result = history_run(reader, history, &consumer, &witness, &wrong);
  if (result == 0)
    result = finish_accesses(anonymiser);
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
  anonymiser->reader = reader;
  json_t *info = anonymous_info(trace_reader_summary(reader));
  anonymiser->out = trace_out_open(path, info, options, trace_reader_summary(reader)->threads, error);
  json_decref(info);
  int result = anonymiser->out ? anonymise(anonymiser, reader, options->history, error) : -1;
  op_sink_free(&anonymiser->sink);
  free(anonymiser->slots.at);
  if (anonymiser->order)
    orderer()->close(anonymiser->order);
  address_map_free(&anonymiser->regions);
  free(anonymiser);
  return result;
}

/* SPDX-License-Identifier: MIT */
#include "workloads/synthetic/compose.h"

#include "core/base/json.h"
#include "core/base/vector.h"
#include "core/trace/summary.h"
#include "core/workload/slots.h"
#include "core/workload/statistics.h"
#include "core/workload/waits.h"
#include "core/workload/witness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREAD_NONE UINT32_MAX

struct composed_thread {
  uint32_t number; /* in the workload; THREAD_NONE until its first op */
  struct waits waits;
};

struct composition {
  struct workload_writer *writer;
  VECTOR(struct composed_thread) threads;
  uint32_t threads_seen; /* threads that have made a call */
  struct slots slots;
  struct time_line time_line;
  struct size_histogram sizes;
  uint64_t os_page_bytes;
  uint64_t live_os_page_bytes; /* live bytes, objects of an OS page or more rounded up */
  struct witness witness;      /* its live_at_end and live_bytes_at_end are the present ones */
  bool failed;                 /* no memory; the writer keeps its own failures */
  char *path;
};

int composition_open(struct composition **out, const char *path, struct error *error) {
  *out = NULL;
  struct composition *composition = calloc(1, sizeof *composition);
  if (!composition || !slots_init(&composition->slots, 0) || !(composition->path = strdup(path))) {
    if (composition)
      slots_free(&composition->slots);
    free(composition);
    return error_set(error, path, "out of memory");
  }
  if (workload_writer_open(&composition->writer, path, error) != 0) {
    slots_free(&composition->slots);
    free(composition->path);
    free(composition);
    return -1;
  }
  composition->time_line.interval = 1;
  composition->os_page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
  *out = composition;
  return 0;
}

static bool more_threads(struct composition *composition) {
  uint32_t before = (uint32_t)composition->threads.room;
  return vector_reserve(&composition->threads, before + 1) &&
         slots_add_threads(&composition->slots, before, (uint32_t)composition->threads.room - before);
}

uint32_t composition_add_thread(struct composition *composition) {
  if (composition->failed || (composition->threads.count == composition->threads.room && !more_threads(composition))) {
    composition->failed = true;
    return 0;
  }
  composition->threads.at[composition->threads.count] = (struct composed_thread){.number = THREAD_NONE};
  return (uint32_t)composition->threads.count++;
}

void composition_end_thread(struct composition *composition, uint32_t thread) {
  if (composition->failed)
    return;
  slots_end_thread(&composition->slots, thread);
  if (composition->threads.at[thread].number != THREAD_NONE)
    workload_end_thread(composition->writer, composition->threads.at[thread].number);
}

static uint64_t request_of(const struct compose_call *call) {
  return call_table[call->call].param == COUNT ? call->size_bytes * call->param : call->size_bytes;
}

static uint64_t os_pages_of(const struct composition *composition, uint64_t bytes) {
  uint64_t mask = composition->os_page_bytes - 1;
  return bytes <= mask ? bytes : (bytes + mask) & ~mask;
}

static void count_acquire(struct composition *composition, uint64_t bytes) {
  struct witness *witness = &composition->witness;
  size_histogram_add(&composition->sizes, bytes);
  witness->live_at_end++;
  witness->live_bytes_at_end += bytes;
  composition->live_os_page_bytes += os_pages_of(composition, bytes);
  if (witness->live_at_end > witness->peak_live_objects)
    witness->peak_live_objects = witness->live_at_end;
  if (composition->live_os_page_bytes > witness->peak_live_os_page_bytes)
    witness->peak_live_os_page_bytes = composition->live_os_page_bytes;
  if (witness->live_bytes_at_end > witness->peak_live_bytes) {
    witness->peak_live_bytes = witness->live_bytes_at_end;
    witness->peak_position = witness->ops - 1; /* the op that is just written */
  }
}

static void count_release(struct composition *composition, uint64_t bytes) {
  composition->witness.live_at_end--;
  composition->witness.live_bytes_at_end -= bytes;
  composition->live_os_page_bytes -= os_pages_of(composition, bytes);
}

/* Points of the time line are rare, and so are new peaks. */
static inline void note_state(struct composition *composition, uint64_t position) {
  const uint64_t live_bytes = composition->witness.live_bytes_at_end;
  if (position != composition->time_line.next_point && live_bytes <= composition->time_line.peak.live_bytes)
    return;
  const struct workload_time_point now = {
      .position = position, .live_bytes = live_bytes, .live_objects = composition->witness.live_at_end};
  time_line_op(&composition->time_line, &now);
}

/* Writes an op; the caller updates the slot's size and the live bytes. */
static inline void put(struct composition *composition, uint32_t thread, const struct compose_call *call, uint8_t flags,
                       uint32_t slot) {
  struct composed_thread *of = &composition->threads.at[thread];
  struct workload_writer *writer = composition->writer;
  if (__builtin_expect(of->number == THREAD_NONE, 0))
    of->number = composition->threads_seen++;
  note_state(composition, composition->witness.ops++);
  if (workload_begin_op(writer, of->number) != 0) {
    composition->failed = true;
    return;
  }
  if (slot != WORKLOAD_NO_SLOT)
    waits_put(&of->waits, writer, of->number, composition->slots.at[slot].last);
  if (__builtin_expect(call->size_bytes >= TOUCHED_MIN_BYTES && call->touched_os_pages, 0))
    workload_patch_touched(writer, of->number, workload_put_touched(writer, of->number),
                           touched_payload(call->touched_os_pages + 1ull, 0));
  struct workload_op op = {
      .call = call->call | flags, .slot = slot, .size_bytes = call->size_bytes, .param = call->param};
  uint64_t ops = workload_put_op(writer, of->number, &op);
  if (slot != WORKLOAD_NO_SLOT)
    composition->slots.at[slot].last = waits_last(of->number, ops);
  composition->witness.calls[call->call]++;
}

uint32_t compose_acquire(struct composition *composition, uint32_t thread, const struct compose_call *call) {
  if (composition->failed)
    return 0;
  uint32_t slot = slots_take(&composition->slots, thread);
  if (slot == SLOTS_NONE) {
    composition->failed = true;
    return 0;
  }
  put(composition, thread, call, call_table[call->call].released == NOTHING ? 0 : CALL_NULL_IN, slot);
  composition->slots.at[slot].size_bytes = request_of(call);
  count_acquire(composition, request_of(call));
  return slot;
}

void compose_resize(struct composition *composition, uint32_t thread, const struct compose_call *call,
                    uint32_t object) {
  if (composition->failed)
    return;
  put(composition, thread, call, 0, object);
  count_release(composition, composition->slots.at[object].size_bytes);
  composition->slots.at[object].size_bytes = request_of(call);
  count_acquire(composition, request_of(call));
}

void compose_release(struct composition *composition, uint32_t thread, const struct compose_call *call,
                     uint32_t object) {
  if (composition->failed)
    return;
  put(composition, thread, call, call_table[call->call].acquires ? CALL_NULL_OUT : 0, object);
  count_release(composition, composition->slots.at[object].size_bytes);
  slots_give(&composition->slots, object, thread);
}

void compose_touch(struct composition *composition, uint32_t thread, const struct compose_call *call, uint32_t object) {
  if (!composition->failed)
    put(composition, thread, call, 0, object);
}

void compose_nothing(struct composition *composition, uint32_t thread, const struct compose_call *call) {
  if (!composition->failed)
    put(composition, thread, call, CALL_NULL_IN, WORKLOAD_NO_SLOT);
}

uint64_t compose_mark(const struct composition *composition, uint32_t thread) {
  uint32_t number = composition->failed ? THREAD_NONE : composition->threads.at[thread].number;
  return number == THREAD_NONE ? 0 : waits_last(number, workload_thread_ops(composition->writer, number));
}

void compose_after(struct composition *composition, uint32_t thread, uint64_t mark) {
  if (mark && !composition->failed)
    waits_note(&composition->threads.at[thread].waits, mark);
}

uint64_t composition_ops(const struct composition *composition) {
  return composition->witness.ops;
}

bool composition_failed(const struct composition *composition) {
  return composition->failed;
}

static char *info_text(struct composition *composition, json_t *info) {
  json_set_count(info, "os_page_bytes", composition->os_page_bytes);
  json_object_set_new(info, "calls", call_counts_json(composition->witness.calls));
  json_object_set_new(info, "witness", witness_json(&composition->witness));
  json_object_set_new(info, "request_sizes", size_histogram_json(&composition->sizes));
  return json_dumps(info, JSON_COMPACT);
}

static int complete(struct composition *composition, json_t *info, struct error *error) {
  struct witness *witness = &composition->witness;
  witness->events = witness->ops;
  witness->threads = composition->threads_seen;
  const struct workload_totals totals = {.slots = composition->slots.count,
                                         .peak_live_bytes = witness->peak_live_bytes,
                                         .peak_live_os_page_bytes = witness->peak_live_os_page_bytes,
                                         .peak_live_objects = witness->peak_live_objects,
                                         .live_at_end = witness->live_at_end,
                                         .peak_position = witness->peak_position};
  const struct workload_time_point end = {
      .position = witness->ops, .live_bytes = witness->live_bytes_at_end, .live_objects = witness->live_at_end};
  size_t points;
  const struct workload_time_point *line = time_line_finish(&composition->time_line, &end, &points);
  char *text = info_text(composition, info);
  workload_writer_fail_reason(composition->writer, error);
  if (error->text[0] || composition->failed || !text) {
    free(text);
    workload_writer_abandon(composition->writer);
    return error->text[0] ? -1 : error_set(error, composition->path, "out of memory, or of slots");
  }
  int result =
      workload_writer_close(composition->writer, &totals, (struct workload_time_points){line, points}, text, error);
  free(text);
  return result;
}

int composition_close(struct composition *composition, json_t *info, struct error *error) {
  int result = complete(composition, info, error);
  json_decref(info);
  slots_free(&composition->slots);
  free(composition->threads.at);
  free(composition->path);
  free(composition);
  return result;
}

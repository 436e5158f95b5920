/* SPDX-License-Identifier: MIT */
#include "capture/host/hooks/steps.h"

#include "capture/host/hooks/inner_calls.h"
#include "capture/host/large.h"
#include "capture/host/stacks/stack.h"

/* A call inside another may be a part of an operator. Where the thread was in no call, nothing is held (inner_calls.h),
   but at the end of an operator new. */
static bool is_inside(struct producer_entry in) {
  return __builtin_expect(in.was - PRODUCER_CALLING <= PRODUCER_RECORDING - PRODUCER_CALLING, 0);
}

/* The latency of the real call that began at `began`, plus 1; 0: not known. */
static uint64_t latency_of(uint64_t began) {
  if (!began)
    return 0;
  uint64_t took = os_stamp() - began;
  return took > host_state.clock_cost ? took - host_state.clock_cost + 1 : 1;
}

/* After the real call. NULL: none are wanted. */
static const struct record_columns *columns_of(struct record_columns *columns, const struct step *step,
                                               uint64_t request_bytes, void *result) {
  if (step->in.was != PRODUCER_SLOW || !(host_state.flags & ATTACH_COLUMNS))
    return NULL;
  *columns = (struct record_columns){.latency = latency_of(step->began),
                                     .stack = stack_settings.area ? step->in.producer->stack : 0};
  if ((host_state.flags & ATTACH_USABLE) && step->usable && result && !real_in_arena(result))
    columns->slack = trace_event_slack(request_bytes, step->usable(result));
  return columns;
}

/* The event of an acquire by that step's call. */
static inline struct hook_call acquire_of(const struct step *step, const void *result) {
  struct hook_call call = call_of_op(step->call, &step->sizes);
  call.op |= result ? 0 : CALL_NULL_OUT;
  return call;
}

/* True: the event is held. */
static __attribute__((noinline, cold)) bool acquired_inside(const struct step *step, const void *result,
                                                            const struct record_columns *columns) {
  inner_settle(step->in, step->call, result);
  return inner_hold(step->in, acquire_of(step, result), result, columns);
}

/* Recording an object that is large, and how long it takes, which is far more than for others. */
struct large {
  uint64_t bytes; /* requested; 0: it is not large */
  uint64_t began; /* 0: it is not timed */
  uint64_t units; /* parts of the work that take about the same time each */
  enum large_work work;
};

enum { LARGE_PUT_TIMED_EACH = 8, LARGE_CALL_PAGES = 64, LARGE_QUICK_PAGES = 2048 };

static uint64_t large_begin(struct producer_entry in) {
  return in.producer->ring && !(host_state.flags & ATTACH_COUNTER) ? os_stamp() : 0;
}

/* Adds the time since large->began to the ring's. At most 8 times what such work took before: else another thread was
   scheduled meanwhile. */
static __attribute__((noinline, cold)) void large_end(struct producer_entry in, const struct large *large) {
  enum { FINE = 16, MOST = 8 };
  uint64_t *usual = &in.producer->large_usual[large->work];
  uint64_t took = os_stamp() - large->began, most = *usual * MOST * large->units / FINE;
  took = *usual && took > most ? most : took;
  uint64_t of_unit = took * FINE / large->units;
  *usual = *usual ? (7 * *usual + of_unit) / 8 + 1 : of_unit;
  took *= large->work == LARGE_PUT ? LARGE_PUT_TIMED_EACH : 1;
  uint64_t all = atomic_load_explicit(&in.producer->ring->large_stamps, memory_order_relaxed);
  atomic_store_explicit(&in.producer->ring->large_stamps, all + took, memory_order_relaxed);
}

static inline void large_is_recorded(struct producer_entry in, const struct large *large) {
  if (__builtin_expect(large->began != 0, 0))
    large_end(in, large);
}

/* After an acquire, before its record. */
static __attribute__((noinline, cold)) struct large acquiring_large(struct producer_entry in, const void *object,
                                                                    uint64_t bytes) {
  bool timed = in.producer->large_acquires++ % LARGE_PUT_TIMED_EACH == 0;
  struct large large = {bytes, timed ? large_begin(in) : 0, 1, LARGE_PUT};
  large_put(object, bytes);
  return large;
}

/* Records how much of the object is resident. */
static struct large touching_large(struct producer_entry in, uint8_t op, const void *object, uint64_t bytes,
                                   bool quick) {
  /* A system call takes as long as some LARGE_CALL_PAGES in it. */
  uint64_t pages = bytes / host_state.os_page_bytes;
  pages = quick && pages > LARGE_QUICK_PAGES ? LARGE_QUICK_PAGES : pages;
  struct large large = {bytes, large_begin(in), LARGE_CALL_PAGES + pages, LARGE_TOUCHED};
  uint64_t touched = large_touched(object, bytes, quick);
  if (touched != LARGE_UNKNOWN)
    producer_note(in, op, object, touched);
  return large;
}

void step_live(struct producer_entry in, const void *object, uint64_t bytes) {
  struct large large = touching_large(in, RECORD_LIVE, object, bytes, false);
  large_is_recorded(in, &large);
}

void step_acquired(const struct step *step, void *result) {
  struct producer_entry in = step->in;
  struct hook_call call = acquire_of(step, result);
  struct record_columns room;
  const struct record_columns *columns = columns_of(&room, step, call.request_bytes, result);
  bool may_hold = is_inside(in) || (call_is_new(step->call) && in.producer->held_count);
  bool held = __builtin_expect(may_hold, 0) && acquired_inside(step, result, columns);
  struct large large = {0};
  if (__builtin_expect(large_is(call.request_bytes), 0) && result)
    large = acquiring_large(in, result, call.request_bytes);
  if (__builtin_expect(!held, 1)) {
    bool recorded = producer_record(in, step_of(call, result), columns);
    producer_report_event(in, recorded, result, call.request_bytes, NULL);
  }
  large_is_recorded(in, &large);
  producer_leave(in);
}

/* Before the record of the release of an object that may be large; new_bytes: of a resize, else 0. One by an eighth or
   more is not quick: such resizes together read fewer than ten times the OS pages of the last object. */
static __attribute__((noinline, cold)) struct large releasing_large(struct producer_entry in, const void *object,
                                                                    uint64_t new_bytes) {
  uint64_t bytes = large_take(object);
  bool quick = new_bytes && (new_bytes > bytes ? new_bytes - bytes : bytes - new_bytes) < bytes / 8;
  return bytes ? touching_large(in, RECORD_TOUCHED, object, bytes, quick) : (struct large){0};
}

void step_releasing(const struct step *step, enum producer_state calling, const void *object) {
  struct producer_entry in = step->in;
  struct hook_call call = call_of_op(step->call, &step->sizes);
  bool part = is_inside(in) && inner_is_part(in, call.op, object);
  if (__builtin_expect(!part, 1)) {
    bool touches = call.op == CALL_malloc_usable_size;
    struct large large = {0};
    if (calling == PRODUCER_DELETE && in.was != PRODUCER_RECORDING)
      inner_deletes(in, object);
    if (!object)
      call.op |= CALL_NULL_IN;
    else if (__builtin_expect(large_may_be(object), 0) && !touches)
      large = releasing_large(in, object, 0);
    struct producer_event event = step_of(call, object);
    event.stamped = !call.has_size;
    bool recorded = producer_record(in, event, NULL);
    producer_report_event(in, recorded, NULL, 0, touches ? NULL : object);
    large_is_recorded(in, &large);
  }
  if (part || in.was != PRODUCER_RECORDING)
    producer_set_state(in.producer, calling);
}

void step_released(const struct step *step, const void *object) {
  if (step->in.was == PRODUCER_DELETE)
    inner_deleted(step->in, object);
  if (step->began)
    producer_note(step->in, RECORD_LATENCY, object, latency_of(step->began));
  producer_leave(step->in);
}

struct resize step_resizing(const struct step *step, const void *object) {
  struct producer_entry in = step->in;
  struct resize resize = {object, true, 0};
  if (is_inside(in))
    inner_is_part(in, CALL_realloc, object);
  if (object) {
    struct large large = {0};
    if (__builtin_expect(large_may_be(object), 0))
      large = releasing_large(in, object, acquire_of(step, object).request_bytes);
    resize.large_bytes = large.bytes;
    resize.begun = producer_record(in, (struct producer_event){RECORD_BEGIN, .stamped = true, .address = object}, NULL);
    in.producer->open += resize.begun;
    large_is_recorded(in, &large);
  }
  if (in.was != PRODUCER_RECORDING)
    producer_set_state(in.producer, PRODUCER_CALLING);
  return resize;
}

static __attribute__((noinline, cold)) bool resized_inside(const struct step *step, const void *result,
                                                           const struct record_columns *columns) {
  struct hook_call call = acquire_of(step, result);
  call.op |= CALL_NULL_IN;
  return inner_hold(step->in, call, result, columns);
}

void step_resized(const struct step *step, struct resize resize, void *result) {
  struct producer_entry in = step->in;
  struct hook_call call = acquire_of(step, result);
  struct record_columns room;
  const struct record_columns *columns = columns_of(&room, step, call.request_bytes, result);
  call.op |= resize.object ? 0 : CALL_NULL_IN;
  if (__builtin_expect(in.was == PRODUCER_NEW, 0) && !resize.object)
    resize.begun = !resized_inside(step, result, columns);
  if (__builtin_expect(large_is(call.request_bytes), 0) && result)
    large_put(result, call.request_bytes);
  else if (__builtin_expect(resize.large_bytes != 0, 0) && !result && call.request_bytes)
    large_put(resize.object, resize.large_bytes); /* it failed: the old object is still live */
  if (resize.begun) {                             /* else it has been counted as dropped, or is held */
    bool recorded = producer_record(in, step_of(call, result), columns);
    producer_report_event(in, recorded, result, call.request_bytes,
                          result || call.request_bytes == 0 ? resize.object : NULL);
  }
  HT_ASSERT(!resize.object || !resize.begun || !in.producer->ring || in.producer->open > 0);
  in.producer->open -= resize.object && resize.begun;
  producer_leave(in);
}

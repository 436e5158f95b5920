/* SPDX-License-Identifier: MIT */
/* The verify pass: does the allocator keep the rules of malloc? Each op is checked instead of measured.

   Job: fill every byte of every object with the object's own pattern, and fail, naming the op, as soon as
     - an object is handed out that overlaps a live object (claims.h),
     - an object is not aligned as requested (calls without an alignment: to 16 bytes; requests below 16 bytes: to the
       greatest power of two that fits in them, as C allows; size classes of 8 bytes are common),
     - malloc_usable_size returns less than was requested,
     - calloc's memory is not zero, or realloc lost contents,
     - a byte of a live object changed: checked before each call that is passed the object, and at the end.
   Not its job: time, memory, leaks. Invariants: an object's pattern depends on its slot and on the op that made it, so
   that neighbours and predecessors have different patterns; up to FILLED_BYTES every byte is filled, of larger objects
   the first and the last FILLED_BYTES / 2 (verified_partly counts them). Works under any order: an object is checked by
   the thread that is about to pass it, and no other thread touches it meanwhile. */
#include "core/base/os.h"
#include "replay/engine/loop.h"
#include "replay/parent/run.h"
#include "replay/passes/claims.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FILLED_BYTES = 64 << 20 };

/* Of the run, and of each worker. partly: objects */
struct verified {
  uint64_t objects, bytes, partly, at_end;
};

static const uint64_t STEP = 0x9e3779b97f4a7c15u; /* odd: consecutive words of a pattern differ in most bytes */

/* The call that acquired an object, by slot. */
struct acquisition {
  uint64_t pattern;
  uint64_t op; /* of the thread, from 0 */
  uint32_t thread;
  uint8_t call;
};

static struct acquisition *acquisitions;

/* Where an op is, for messages and patterns. */
struct place {
  const struct replay_thread *thread;
  const struct op *op; /* NULL: after the last one */
  uint64_t number;     /* of the thread's op, from 0 */
  uint32_t slot;       /* of the object that is checked */
};

static void setup(void) {
  acquisitions = os_map((engine.workload.header.slots + 1ull) * sizeof *acquisitions, true);
  if (!acquisitions || claims_setup() != 0)
    engine_fail(NULL, "no memory to verify with: %s", strerror(errno));
}

static const char *call_name(uint8_t call) {
  return call_table[call & CALL_ID_MASK].name;
}

/* Position in the recorded order: exact under that order, else known from the thread's last MARK to 64 ops. */
static void describe_position(const struct replay_thread *self, char *text, size_t bytes) {
  if (engine.spec->order == ORDER_RECORDED) {
    uint64_t position = 0;
    for (uint32_t thread = 0; thread < engine.workload.header.threads; thread++)
      position += watermark_value(&engine.completed[thread]);
    snprintf(text, bytes, "position %" PRIu64, position);
  } else {
    uint64_t mark = watermark_value(&self->position);
    snprintf(text, bytes, "position %" PRIu64 " to %" PRIu64, mark, mark + WORKLOAD_MARK_INTERVAL - 1);
  }
}

/* "op 7 of thread 0 (position 12), free(0x5581)", then the fault. Ends the process. */
static __attribute__((noreturn, format(printf, 2, 3))) void broken(const struct place *place, const char *format, ...) {
  const struct op *op = place->op;
  char position[64], address[32] = "", size[40] = "", what[320];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  char *fault = engine.result->fault;
  if (!op) {
    snprintf(fault, sizeof engine.result->fault, "after the last op: %s", what);
    engine_fail(NULL, "the allocator is at fault: %s", fault);
  }
  describe_position(place->thread, position, sizeof position);
  if (op->pointer)
    snprintf(address, sizeof address, "%p", op->pointer);
  if (call_table[op->call & CALL_ID_MASK].acquires)
    snprintf(size, sizeof size, "%s%" PRIu64 " bytes", op->pointer ? ", " : "", op->request_bytes);
  snprintf(fault, sizeof engine.result->fault, "op %" PRIu64 " of thread %" PRIu32 " (%s), %s(%s%s): %s", place->number,
           place->thread->number, position, call_name(op->call), address, size, what);
  engine_fail(NULL, "the allocator is at fault: %s", fault);
}

static void describe_acquisition(uint32_t slot, char *text, size_t bytes) {
  const struct acquisition *acquisition = &acquisitions[slot];
  snprintf(text, bytes, "from %s, op %" PRIu64 " of thread %" PRIu32, call_name(acquisition->call), acquisition->op,
           acquisition->thread);
}

static uint8_t pattern_byte(uint64_t pattern, uint64_t at) {
  return (uint8_t)((pattern + at / 8 * STEP) >> at % 8 * 8);
}

static void fill(uint8_t *object, uint64_t pattern, uint64_t from, uint64_t to) {
  uint64_t at = from;
  for (; at < to && at % 8 != 0; at++)
    object[at] = pattern_byte(pattern, at);
  for (; at + 8 <= to; at += 8) {
    uint64_t word = pattern + at / 8 * STEP;
    memcpy(object + at, &word, sizeof word);
  }
  for (; at < to; at++)
    object[at] = pattern_byte(pattern, at);
}

/* Returns the first byte of [from, to) that differs from the pattern; to if there is none. */
static uint64_t find_change(const uint8_t *object, uint64_t pattern, uint64_t from, uint64_t to) {
  uint64_t at = from;
  for (; at < to && at % 8 != 0; at++) {
    if (object[at] != pattern_byte(pattern, at))
      return at;
  }
  for (; at + 8 <= to; at += 8) {
    uint64_t word;
    memcpy(&word, object + at, sizeof word);
    if (word != pattern + at / 8 * STEP)
      break;
  }
  for (; at < to; at++) {
    if (object[at] != pattern_byte(pattern, at))
      return at;
  }
  return to;
}

/* The two parts of an object that have its pattern; the second is empty except in the largest objects. */
struct parts {
  uint64_t first_end, second_begin, end;
};

static struct parts parts_of(uint64_t bytes) {
  if (bytes <= FILLED_BYTES)
    return (struct parts){bytes, bytes, bytes};
  return (struct parts){FILLED_BYTES / 2, bytes - FILLED_BYTES / 2, bytes};
}

/* Checks that the first `bytes` of an object that was filled with filled_bytes are unchanged. why: the error if not. */
static void check_contents(const struct place *place, const uint8_t *object, uint64_t filled_bytes, uint64_t bytes,
                           const char *why) {
  struct parts parts = parts_of(filled_bytes);
  uint64_t pattern = acquisitions[place->slot].pattern;
  uint64_t first_end = bytes < parts.first_end ? bytes : parts.first_end;
  uint64_t end = bytes < parts.end ? bytes : parts.end;
  uint64_t changed = find_change(object, pattern, 0, first_end);
  if (changed == first_end && parts.second_begin < end)
    changed = find_change(object, pattern, parts.second_begin, end);
  if (changed == first_end || changed == end)
    return;
  uint64_t last = changed < first_end ? first_end : end, wrong = 0;
  for (uint64_t at = changed; at < last; at++)
    wrong += object[at] != pattern_byte(pattern, at);
  char from[96];
  describe_acquisition(place->slot, from, sizeof from);
  broken(place, "%s: byte %" PRIu64 " of %" PRIu64 " at %p is 0x%02x instead of 0x%02x (%" PRIu64 " are wrong); %s",
         why, changed, filled_bytes, (const void *)object, object[changed], pattern_byte(pattern, changed), wrong,
         from);
}

static void fill_new(uint32_t slot, uint8_t *object, uint64_t from, uint64_t bytes) {
  struct parts parts = parts_of(bytes);
  uint64_t pattern = acquisitions[slot].pattern;
  if (bytes > FILLED_BYTES)
    from = 0; /* a realloc may have moved the second part */
  fill(object, pattern, from, parts.first_end);
  fill(object, pattern, parts.second_begin, parts.end);
}

static uint64_t promised_alignment(struct call_dispatch dispatch, const struct op *op) {
  if (op->request_bytes == 0)
    return 1; /* nothing may be stored there, and jemalloc's memalign(64, 0) is aligned to 8 */
  if (call_table[dispatch.entry].param == ALIGN)
    return op->param != 0 && (op->param & (op->param - 1)) == 0 ? op->param : 1;
  if (dispatch.entry == CALL_valloc || dispatch.entry == CALL_pvalloc)
    return os_page_bytes();
  if (op->request_bytes >= 16)
    return 16;
  return (uint64_t)1 << (63 - __builtin_clzll(op->request_bytes));
}

static void check_placement(const struct place *place, struct call_dispatch dispatch, const uint8_t *object) {
  const struct op *op = place->op;
  uint64_t address = (uint64_t)(uintptr_t)object, alignment = promised_alignment(dispatch, op);
  if (address % alignment != 0)
    broken(place, "returned %p, which is not aligned to %" PRIu64 " bytes", (const void *)object, alignment);
  uint64_t usable_bytes = call_usable_size((void *)(uintptr_t)object);
  if (usable_bytes < op->request_bytes)
    broken(place, "returned %p, for which malloc_usable_size returns only %" PRIu64 " bytes", (const void *)object,
           usable_bytes);
}

/* Returns the bytes that an object claims: at least one, as objects of size 0 have separate addresses, too. */
static uint64_t claimed_bytes(uint64_t bytes) {
  return bytes ? bytes : 1;
}

/* Claims the filled parts: not the middle of the largest objects. */
static uint32_t claim(uint8_t *object, uint64_t bytes, uint32_t owner) {
  struct parts parts = parts_of(claimed_bytes(bytes));
  uint64_t address = (uint64_t)(uintptr_t)object;
  uint32_t found = claims_add(address, parts.first_end, owner);
  uint32_t second = claims_add(address + parts.second_begin, parts.end - parts.second_begin, owner);
  return found ? found : second;
}

static void unclaim(uint8_t *object, uint64_t bytes, uint32_t owner) {
  struct parts parts = parts_of(claimed_bytes(bytes));
  uint64_t address = (uint64_t)(uintptr_t)object;
  claims_remove(address, parts.first_end, owner);
  claims_remove(address + parts.second_begin, parts.end - parts.second_begin, owner);
}

static void check_overlap(const struct place *place, const uint8_t *object) {
  const struct op *op = place->op;
  uint32_t other = claim((uint8_t *)(uintptr_t)object, op->request_bytes, op->slot + 1);
  if (other == 0)
    return;
  struct object there = engine.objects[other - 1];
  uint64_t mine = (uint64_t)(uintptr_t)object, theirs = (uint64_t)(uintptr_t)there.pointer;
  /* Objects of less than 8 bytes may be side by side in one piece. */
  if (there.pointer &&
      (mine >= theirs + claimed_bytes(there.size_bytes) || theirs >= mine + claimed_bytes(op->request_bytes)))
    return;
  char from[96];
  describe_acquisition(other - 1, from, sizeof from);
  broken(place, "returned %p, which overlaps the live object of %" PRIu64 " bytes at %p %s", (const void *)object,
         there.size_bytes, there.pointer, from);
}

static void check_zeroes(const struct place *place, const uint8_t *object, uint64_t from, uint64_t to) {
  /* Each byte equals the one before, and the first is 0: libc's comparison is the fast way to check that. */
  if (from == to || (object[from] == 0 && memcmp(object + from, object + from + 1, to - from - 1) == 0))
    return;
  uint64_t at = from;
  while (object[at] == 0)
    at++;
  broken(place, "returned memory that is not zero: byte %" PRIu64 " at %p is 0x%02x", at, (const void *)object,
         object[at]);
}

static void accept(const struct place *place, struct object *object, struct call_dispatch dispatch, uint8_t *answer) {
  const struct op *op = place->op;
  uint64_t old_bytes = op->pointer ? object->size_bytes : 0;
  uint64_t kept_bytes = old_bytes < op->request_bytes ? old_bytes : op->request_bytes;
  struct acquisition *acquisition = &acquisitions[op->slot];
  if (!op->pointer)
    *acquisition =
        (struct acquisition){.pattern = ((uint64_t)op->slot << 32) ^ (place->number + 1) * 0xd6e8feb86659fd93u ^
                                        (uint64_t)place->thread->number << 20,
                             .op = place->number,
                             .thread = place->thread->number,
                             .call = op->call};
  *object = (struct object){answer, op->request_bytes}; /* before the claim: a thread that finds the claim reads this */
  check_placement(place, dispatch, answer);
  check_overlap(place, answer);
  struct parts parts = parts_of(op->request_bytes);
  if (op->pointer) {
    check_contents(place, answer, old_bytes, kept_bytes, "contents were lost");
  } else if (dispatch.entry == CALL_calloc) {
    check_zeroes(place, answer, 0, parts.first_end);
    check_zeroes(place, answer, parts.second_begin, parts.end);
  }
  fill_new(op->slot, answer, kept_bytes, op->request_bytes);
  acquisition->op = place->number;
  acquisition->thread = place->thread->number;
  acquisition->call = op->call;
  struct verified *verified = place->thread->worker->own;
  verified->objects++;
  verified->bytes += op->request_bytes;
  verified->partly += op->request_bytes > FILLED_BYTES;
}

/* Makes the call, checking before and after. Ends the process if a rule is broken. */
static __attribute__((noinline)) void verify_op(struct replay_thread *self, struct object *object,
                                                struct call_dispatch dispatch, const struct op *op) {
  struct place place = {self, op, watermark_value(&engine.completed[self->number]), op->slot};
  struct object old = *object;
  if (op->pointer)
    check_contents(&place, op->pointer, old.size_bytes, old.size_bytes, "a live object was overwritten");
  if (op->pointer && (dispatch.traits & (CALL_RELEASES | CALL_ACQUIRES)))
    unclaim(op->pointer, old.size_bytes, op->slot + 1);
  uint64_t cycles;
  uint8_t *answer = call_entry(dispatch.entry, op, false, &cycles);
  if (dispatch.traits & CALL_ACQUIRES) {
    if (answer) {
      accept(&place, object, dispatch, answer);
    } else if (op->request_bytes == 0) {
      *object = (struct object){NULL, 0};
    } else {
      self->worker->failed_calls++;
      if (op->pointer)
        claim(op->pointer, old.size_bytes, op->slot + 1);
      else
        *object = (struct object){NULL, OBJECT_MISSING};
    }
  } else if (dispatch.traits & CALL_RELEASES) {
    *object = (struct object){NULL, 0};
    if (answer)
      allocator.free(answer);
  }
}

static void end(void) {
  struct verified *verified = engine.figures;
  for (uint32_t slot = 0; slot < engine.workload.header.slots; slot++) {
    struct object object = engine.objects[slot];
    if (!object.pointer || object.size_bytes == OBJECT_MISSING)
      continue;
    struct place place = {.slot = slot};
    check_contents(&place, object.pointer, object.size_bytes, object.size_bytes, "a live object was overwritten");
    verified->at_end++;
  }
}

static void add_worker(const struct worker *worker) {
  struct verified *all = engine.figures;
  const struct verified *own = worker->own;
  all->objects += own->objects;
  all->bytes += own->bytes;
  all->partly += own->partly;
}

static ALWAYS_INLINE void replace_op(const struct step *step) {
  verify_op(step->self, step->object, step->dispatch, step->op);
}

static const struct loop_hooks hooks = {.replace_op = replace_op};
PASS_LOOPS(verify, hooks, hooks)

static void report(json_t *into, const struct run *run) {
  const struct verified *verified = run->figures;
  json_object_set_new(into, "verified",
                      json_pack("{s:o, s:o, s:o, s:o}", "objects", json_unsigned(verified->objects), "bytes",
                                json_unsigned(verified->bytes), "partly_stamped_objects",
                                json_unsigned(verified->partly), "live_objects_at_end",
                                json_unsigned(verified->at_end)));
}

static uint64_t counted(const struct run *run) {
  const struct verified *verified = run->figures;
  return verified->objects + run->result->failed_calls + run->result->skipped;
}

static const struct pass pass_verify = {
    .turn = 50,
    .name = "verify",
    .summary = "whether the allocator keeps the rules of malloc: checks each op, measures nothing",
    .order = ORDER_WINDOW,
    .repeats = ONCE,
    .exact = true,
    .sets_touch = true,
    .touch = TOUCH_ALL,
    .without_null = "--null has no memory to verify",
    .without_as_malloc = "--as-malloc leaves no other entry points to verify",
    .loops = {verify_freely, verify_by_turns},
    .worker_bytes = sizeof(struct verified),
    .figures_bytes = sizeof(struct verified),
    .setup = setup,
    .end = end,
    .add_worker = add_worker,
    .report = report,
    .counts = "verified objects",
    .counted = counted,
};
REGISTER_PASS(pass_verify);

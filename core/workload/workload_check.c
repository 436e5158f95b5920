/* SPDX-License-Identifier: MIT */
#include "core/workload/workload_check.h"

#include "core/base/address_map.h"
#include "core/base/json.h"
#include "core/base/os.h"
#include "core/base/text.h"
#include "core/base/touched.h"
#include "core/base/vector.h"
#include "core/trace/event.h"
#include "core/workload/witness.h"

#include <inttypes.h>
#include <stdlib.h>

#define MAX_LIVE_BYTES (1ull << 62)
#define MAX_SIZE_HIGH ((1ull << 39) - 1)

struct thread_state {
  struct workload_stream stream;
  uint64_t ops, marked, time_ns;
  bool started, marked_once, ended;
};

struct slot_state {
  uint64_t size_bytes;
  uint64_t last; /* ops << 20 | thread; 0: not used yet */
  bool full;
  uint8_t region; /* the isolated heap that its object is in; 0: none */
};

/* How many ops of one thread another has waited for. */
struct pair_waits {
  struct address_map map; /* (waiting << 20 | awaited) + 1 to index */
  VECTOR(uint64_t) ops;
};

struct checker {
  const struct workload *workload;
  const struct workload_header *header;
  struct workload_proof *proof;
  struct error *error;
  struct thread_state *threads;
  struct slot_state *slots;
  size_t slots_bytes;
  struct pair_waits waits;
  uint64_t position, live_bytes, live_objects;
};

/* The words before an op that change it. */
struct op_words {
  uint64_t size_high, param, region, touched;
  bool has_size_high, has_param, has_touched, has_region;
};

static int wrong(struct checker *checker, const struct thread_state *thread, const char *what) {
  return error_at(checker->error, checker->workload->path, workload_stream_offset(&thread->stream),
                  "thread %td, op %" PRIu64 ": %s", thread - checker->threads, thread->ops, what);
}

/* The file offset for the thread's errors: the word it took last, or, if it has none, the table that shows it. */
static uint64_t end_of_words(const struct checker *checker, const struct thread_state *thread) {
  return thread->stream.at ? workload_stream_offset(&thread->stream) : checker->header->extents_offset;
}

static int take_wait(struct checker *checker, struct thread_state *thread, uint64_t word) {
  uint32_t awaited = word_wait_thread(word);
  uint64_t ops = word_wait_ops(word), self = (uint64_t)(thread - checker->threads);
  if (awaited >= checker->header->threads || awaited == self || ops == 0)
    return wrong(checker, thread, "WAIT for itself, for nothing or for a thread that does not exist");
  if (ops > checker->threads[awaited].ops)
    return wrong(checker, thread, "WAIT for an op that comes later in the total order");
  checker->proof->waits++;
  struct pair_waits *waits = &checker->waits;
  uint64_t key = (self << 20 | awaited) + 1;
  struct address_entry *entry = address_map_find(&waits->map, key);
  if (!entry->address) {
    uint32_t index = (uint32_t)waits->map.count;
    uint64_t *added = vector_add(&waits->ops);
    if (!added)
      return wrong(checker, thread, "out of memory");
    *added = ops;
    return address_map_add(&waits->map, entry, key, index, false) ? 0 : wrong(checker, thread, "out of memory");
  }
  if (ops > waits->ops.at[entry->slot])
    waits->ops.at[entry->slot] = ops;
  return 0;
}

static int take_mark(struct checker *checker, struct thread_state *thread, uint64_t word) {
  thread->marked = word_payload(word);
  thread->marked_once = true;
  return thread->marked >= checker->position ? 0 : wrong(checker, thread, "MARK of an earlier position");
}

static int take_time(struct checker *checker, struct thread_state *thread, uint64_t word) {
  uint64_t before_ns = thread->time_ns;
  thread->time_ns = word_payload(word);
  return thread->time_ns > before_ns ? 0 : wrong(checker, thread, "TIME does not rise");
}

static int take_start(struct checker *checker, struct thread_state *thread, uint64_t word) {
  uint32_t started = word_wait_thread(word);
  if (started >= checker->header->threads || started == 0 || checker->threads[started].started)
    return wrong(checker, thread, "START of a thread that does not exist or runs already");
  checker->threads[started].started = true;
  checker->proof->starts++;
  return 0;
}

/* START words right after an op are executed with it; a later one would come too late if it were behind a WAIT. */
static int take_prompt_words(struct checker *checker, struct thread_state *thread) {
  struct workload_stream *stream = &thread->stream;
  while (stream->at != stream->end || workload_stream_refill(stream)) {
    uint64_t word = *stream->at;
    if (word_code(word) != WORD_START)
      return 0;
    stream->at++;
    if (take_start(checker, thread, word) != 0)
      return -1;
  }
  return 0;
}

static bool is_ordered(const struct checker *checker, const struct thread_state *thread, uint64_t last) {
  uint64_t self = (uint64_t)(thread - checker->threads), awaited = last & ((1u << 20) - 1);
  if (last == 0 || awaited == self)
    return true;
  const struct address_entry *entry = address_map_find(&checker->waits.map, (self << 20 | awaited) + 1);
  return entry->address && checker->waits.ops.at[entry->slot] >= last >> 20;
}

static int acquire(struct checker *checker, struct thread_state *thread, struct slot_state *slot,
                   uint64_t request_bytes) {
  if (slot->full)
    return wrong(checker, thread, "the slot of a new object is taken");
  slot->full = true;
  slot->size_bytes = 0;
  if (++checker->live_objects > checker->proof->peak_live_objects)
    checker->proof->peak_live_objects = checker->live_objects;
  if (request_bytes >= MAX_LIVE_BYTES - checker->live_bytes)
    return wrong(checker, thread, "requests more memory than any machine has");
  return 0;
}

static int resize(struct checker *checker, struct thread_state *thread, struct slot_state *slot,
                  uint64_t request_bytes) {
  checker->live_bytes -= slot->size_bytes;
  if (request_bytes >= MAX_LIVE_BYTES - checker->live_bytes)
    return wrong(checker, thread, "requests more memory than any machine has");
  slot->size_bytes = request_bytes;
  checker->live_bytes += request_bytes;
  if (checker->live_bytes > checker->proof->peak_live_bytes) {
    checker->proof->peak_live_bytes = checker->live_bytes;
    checker->proof->objects_at_peak = checker->live_objects;
  }
  return 0;
}

static int check_words(struct checker *checker, struct thread_state *thread, const struct call_info *info,
                       const struct op_words *words) {
  if (words->has_size_high && (!info->has_size || words->size_high > MAX_SIZE_HIGH))
    return wrong(checker, thread, "SIZE_HIGH of a call without a size, or too high");
  if (words->has_param && info->param == NONE)
    return wrong(checker, thread, "PARAM of a call without one");
  if (words->has_param && info->param == ALIGN && (words->param == 0 || (words->param & (words->param - 1)) != 0))
    return wrong(checker, thread, "an alignment that is not a power of two");
  if (words->has_touched && !info->acquires)
    return wrong(checker, thread, "TOUCHED of a call that hands out nothing");
  if (words->has_region && (words->region == 0 || words->region > checker->header->regions))
    return wrong(checker, thread, "REGION of a number that the header does not allow");
  return 0;
}

static int take_op(struct checker *checker, struct thread_state *thread, uint64_t word, const struct op_words *words) {
  uint8_t call = word_code(word);
  const struct call_info *info = &call_table[call & CALL_ID_MASK];
  bool null_in = call & CALL_NULL_IN, null_out = call & CALL_NULL_OUT;
  if (!trace_call_is_legal(call) || (null_out && (info->released != RELEASES || null_in)))
    return wrong(checker, thread, "not an op");
  if (check_words(checker, thread, info, words) != 0)
    return -1;
  if (!thread->marked_once || checker->position < thread->marked ||
      checker->position - thread->marked >= WORKLOAD_MARK_INTERVAL)
    return wrong(checker, thread, "no MARK where one is due, or one for a later op");
  uint32_t number = word_slot(word);
  bool has_object = info->acquires || (info->released != NOTHING && !null_in);
  if (!has_object && words->has_region)
    return wrong(checker, thread, "REGION of an op without an object");
  if (!has_object)
    return number == WORKLOAD_NO_SLOT ? 0 : wrong(checker, thread, "a slot where no object is passed in");
  if (number >= checker->header->slots)
    return wrong(checker, thread, "slot number is too high");
  struct slot_state *slot = &checker->slots[number];
  if (!is_ordered(checker, thread, slot->last))
    return wrong(checker, thread, "no WAIT for the op that used the slot last");
  slot->last = (thread->ops + 1) << 20 | (uint64_t)(thread - checker->threads);
  struct trace_event event = {.size_bytes = words->size_high << 24 | word_size_low(word),
                              .param = words->has_param ? words->param : 1,
                              .call = call};
  bool begins = info->acquires && (info->released == NOTHING || null_in);
  uint64_t request_bytes = info->acquires && !null_out ? trace_event_request_bytes(&event) : 0;
  uint32_t os_pages = touched_word_os_pages(words->touched);
  struct touched touched = {os_pages - (os_pages != 0), touched_word_parts(words->touched)};
  if (!touched_is_possible(request_bytes, touched))
    return wrong(checker, thread, "TOUCHED names parts that the object does not have, or more than its OS pages");
  if (begins && acquire(checker, thread, slot, request_bytes) != 0)
    return -1;
  if (!slot->full)
    return wrong(checker, thread, "the slot holds no object");
  if (call_states_size(call) && event.size_bytes != slot->size_bytes)
    return wrong(checker, thread, "states another size than its object has");
  if (begins)
    slot->region = (uint8_t)words->region;
  if (slot->region != words->region)
    return wrong(checker, thread, "not where the object was acquired: REGION is missing, or of another number");
  if (info->acquires || info->released == RELEASES) {
    if (resize(checker, thread, slot, request_bytes) != 0)
      return -1;
  }
  if (info->released == RELEASES && (!info->acquires || null_out)) {
    slot->full = false;
    checker->live_objects--;
  }
  return 0;
}

static bool note_word(struct op_words *words, uint64_t word) {
  bool *seen = word_code(word) == WORD_SIZE_HIGH ? &words->has_size_high
               : word_code(word) == WORD_PARAM   ? &words->has_param
               : word_code(word) == WORD_REGION  ? &words->has_region
                                                 : &words->has_touched;
  if (*seen)
    return false;
  *seen = true;
  if (word_code(word) == WORD_SIZE_HIGH)
    words->size_high = word_payload(word);
  if (word_code(word) == WORD_PARAM)
    words->param = word_payload(word);
  if (word_code(word) == WORD_REGION)
    words->region = word_payload(word);
  if (word_code(word) == WORD_TOUCHED)
    words->touched = word_payload(word);
  return true;
}

static int run_op(struct checker *checker, struct thread_state *thread) {
  struct op_words words = {0};
  uint64_t word;
  while (workload_stream_next(&thread->stream, &word)) {
    bool own = words.has_size_high || words.has_param || words.has_touched || words.has_region;
    int result = 0;
    switch (word_code(word)) {
    case WORD_SIZE_HIGH:
    case WORD_PARAM:
    case WORD_TOUCHED:
    case WORD_REGION:
      if (!note_word(&words, word))
        return wrong(checker, thread, "a word that changes the op occurs twice");
      continue;
    case WORD_WAIT:
      result = take_wait(checker, thread, word);
      break;
    case WORD_MARK:
      result = take_mark(checker, thread, word);
      break;
    case WORD_TIME:
      result = take_time(checker, thread, word);
      break;
    case WORD_START:
      result = take_start(checker, thread, word);
      break;
    case WORD_END:
      return wrong(checker, thread, "the stream ends before the schedule does");
    default:
      if (take_op(checker, thread, word, &words) != 0)
        return -1;
      thread->ops++;
      checker->position++;
      return take_prompt_words(checker, thread);
    }
    if (own)
      return wrong(checker, thread, "a word of order between an op and the words that change it");
    if (result != 0)
      return -1;
  }
  return error_at(checker->error, checker->workload->path, end_of_words(checker, thread), "thread %td ends without END",
                  thread - checker->threads);
}

static int run_schedule(struct checker *checker) {
  struct workload_stream schedule;
  uint64_t word;
  workload_stream_open(&schedule, checker->workload, checker->header->threads);
  while (workload_stream_next(&schedule, &word)) {
    uint32_t number = (uint32_t)word;
    uint64_t ops = word >> 32;
    if (number >= checker->header->threads || ops == 0)
      return error_at(checker->error, checker->workload->path, workload_stream_offset(&schedule),
                      "schedule names a thread that does not exist, or no ops");
    struct thread_state *thread = &checker->threads[number];
    for (; ops > 0; ops--) {
      if (!thread->started)
        return error_at(checker->error, checker->workload->path, workload_stream_offset(&schedule),
                        "thread %" PRIu32 " runs before it is started", number);
      if (run_op(checker, thread) != 0)
        return -1;
    }
  }
  return 0;
}

static int check_ends(struct checker *checker) {
  const struct workload_header *header = checker->header;
  const char *path = checker->workload->path;
  for (uint32_t i = 0; i < header->threads; i++) {
    struct thread_state *thread = &checker->threads[i];
    uint64_t word;
    if (!workload_stream_next(&thread->stream, &word) || word_code(word) != WORD_END)
      return error_at(checker->error, path, end_of_words(checker, thread),
                      "thread %" PRIu32 " has words left, or no END, when the schedule ends", i);
    if (workload_stream_next(&thread->stream, &word))
      return wrong(checker, thread, "words follow END");
    if (thread->ops != checker->workload->op_counts[i])
      return error_at(checker->error, path, header->op_counts_offset + i * sizeof(uint64_t),
                      "thread %" PRIu32 " has %" PRIu64 " ops, its op count says %" PRIu64, i, thread->ops,
                      checker->workload->op_counts[i]);
  }
  checker->proof->live_at_end = checker->live_objects;
  if (checker->position != header->ops || checker->live_objects != header->live_at_end ||
      checker->proof->peak_live_bytes != header->peak_live_bytes ||
      checker->proof->peak_live_objects != header->peak_live_objects)
    return error_at(checker->error, path, 24,
                    "header's totals (%" PRIu64 " ops, %" PRIu64 " live at the end, peak %" PRIu64 " bytes, %" PRIu64
                    " objects) differ from the streams' (%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ")",
                    header->ops, header->live_at_end, header->peak_live_bytes, header->peak_live_objects,
                    checker->position, checker->live_objects, checker->proof->peak_live_bytes,
                    checker->proof->peak_live_objects);
  return 0;
}

static int check_time_line(struct checker *checker) {
  struct workload_stream stream;
  uint64_t word, column = 0, groups = 0, position = 0;
  workload_stream_open(&stream, checker->workload, checker->header->threads + 1);
  while (workload_stream_next(&stream, &word)) {
    if (column == 0) {
      if (groups == 0 ? word != 0 : word <= position)
        return error_at(checker->error, checker->workload->path, workload_stream_offset(&stream),
                        "the time line's positions do not rise from 0");
      position = word;
      groups++;
    }
    column = (column + 1) % 4;
  }
  if (column != 0 || groups == 0 || position != checker->header->ops)
    return error_at(checker->error, checker->workload->path, checker->header->extents_offset,
                    "the time line does not end with the last op");
  return 0;
}

int workload_check(const struct workload *workload, struct workload_proof *proof, struct error *error) {
  const struct workload_header *header = &workload->header;
  *proof = (struct workload_proof){.words = header->words, .threads = header->threads, .slots = header->slots};
  struct checker checker = {.workload = workload, .header = header, .proof = proof, .error = error};
  checker.threads = calloc(header->threads + 1u, sizeof *checker.threads);
  /* Mapped, not allocated: slots that no op uses cost nothing, whatever the header claims. */
  checker.slots_bytes = ((size_t)header->slots + 1) * sizeof *checker.slots;
  checker.slots = os_map(checker.slots_bytes, false);
  int result = -1;
  if (!checker.threads || !checker.slots || !address_map_init(&checker.waits.map)) {
    error_set(error, workload->path, "out of memory");
  } else {
    for (uint32_t i = 0; i < header->threads; i++)
      workload_stream_open(&checker.threads[i].stream, workload, i);
    checker.threads[0].started = true;
    if (run_schedule(&checker) == 0 && check_ends(&checker) == 0)
      result = check_time_line(&checker);
    proof->ops = checker.position;
  }
  os_unmap(checker.slots, checker.slots_bytes);
  address_map_free(&checker.waits.map);
  free(checker.waits.ops.at);
  free(checker.threads);
  return result;
}

json_t *workload_proof_json(const struct workload_proof *proof) {
  return json_pack("{sb sI sI sI sI sI sI sI sI sI sI}", "ok", 1, "events", (json_int_t)proof->ops, "ops",
                   (json_int_t)proof->ops, "words", (json_int_t)proof->words, "waits", (json_int_t)proof->waits,
                   "starts", (json_int_t)proof->starts, "threads", (json_int_t)proof->threads, "slots",
                   (json_int_t)proof->slots, "live_at_end", (json_int_t)proof->live_at_end, "peak_live_bytes",
                   (json_int_t)proof->peak_live_bytes, "peak_live_objects", (json_int_t)proof->peak_live_objects);
}

/* Two lines: what the history has, and its peak. */
static void print_history(FILE *out, const char *verdict, const struct witness *witness, const char *noun) {
  char text[512], events[TEXT_NUMBER_BYTES], threads[TEXT_NUMBER_BYTES], live[TEXT_NUMBER_BYTES];
  size_t width = text_width(fileno(out));
  snprintf(text, sizeof text, "%s: %s of %s, %s live at the end", verdict, text_counted(events, witness->events, noun),
           text_counted(threads, witness->threads, "thread"), text_counted(live, witness->live_at_end, "object"));
  text_print(out, text, width, 0, 2);
  int used =
      snprintf(text, sizeof text, "at the peak %s live in %s", text_size(events, (double)witness->peak_live_bytes),
               text_counted(live, witness->objects_at_peak, "object"));
  if (witness->peak_live_objects != witness->objects_at_peak)
    snprintf(text + used, sizeof text - (size_t)used, "; at another time %s",
             text_counted(live, witness->peak_live_objects, "object"));
  fputs("  ", out);
  text_print(out, text, width, 2, 2);
}

void workload_proof_print(const struct workload_proof *proof, FILE *out) {
  char waits[TEXT_NUMBER_BYTES], slots[TEXT_NUMBER_BYTES], text[256];
  print_history(out, "a legal workload",
                &(struct witness){.events = proof->ops,
                                  .threads = proof->threads,
                                  .live_at_end = proof->live_at_end,
                                  .peak_live_bytes = proof->peak_live_bytes,
                                  .objects_at_peak = proof->objects_at_peak,
                                  .peak_live_objects = proof->peak_live_objects},
                "op");
  snprintf(text, sizeof text, "%s, %s", text_counted(waits, proof->waits, "wait"),
           text_counted(slots, proof->slots, "slot"));
  fputs("  ", out);
  text_print(out, text, text_width(fileno(out)), 2, 2);
}

bool witness_ok(const struct witness *witness) {
  /* A trace cut before its first event proves nothing. It had an event: an empty recording is never truncated. */
  if (witness->truncated && witness->events == 0)
    return false;
  /* Events that are known to be missing can explain every contradiction. */
  if (witness->dropped || witness->truncated || witness->lacks_calls)
    return true;
  if (witness->double_frees > (witness->lacks_in_flight ? witness->threads : 0) ||
      witness->overlapping_acquires > witness->in_flight)
    return false;
  if (witness->overlapping_ranges && witness->ranges_ordered)
    return false;
  return witness->lacks_start || (witness->unseen_frees == 0 && witness->unseen_touches == 0);
}

json_t *witness_json(const struct witness *witness) {
  json_t *object = json_object();
  const struct {
    const char *key;
    uint64_t value;
  } counts[] = {
      {"events", witness->events},
      {"ops", witness->ops},
      {"unseen_frees", witness->unseen_frees},
      {"double_frees", witness->double_frees},
      {"unseen_touches", witness->unseen_touches},
      {"overlapping_acquires", witness->overlapping_acquires},
      {"inversions_repaired", witness->inversions_repaired},
      {"max_inversion_depth", witness->max_inversion_depth},
      {"failed_calls", witness->failed_calls},
      {"live_at_end", witness->live_at_end},
      {"live_bytes_at_end", witness->live_bytes_at_end},
      {"peak_live_bytes", witness->peak_live_bytes},
      {"peak_live_os_page_bytes", witness->peak_live_os_page_bytes},
      {"peak_live_objects", witness->peak_live_objects},
      {"threads", witness->threads},
      {"dropped", witness->dropped},
  };
  json_object_set_new(object, "ok", json_boolean(witness_ok(witness)));
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    json_set_count(object, counts[i].key, counts[i].value);
  if (witness->arguments_changed)
    json_set_count(object, "arguments_changed", witness->arguments_changed);
  if (witness->untold_bytes_at_end)
    json_set_count(object, "untold_bytes_at_end", witness->untold_bytes_at_end);
  json_t *controls = control_counts_json(&witness->controls);
  if (controls)
    json_object_set_new(object, "controls", controls);
  if (witness->ranges_checked)
    json_set_count(object, "overlapping_ranges", witness->overlapping_ranges);
  json_object_set_new(object, "truncated", json_boolean(witness->truncated));
  json_object_set_new(object, "lacks_start", json_boolean(witness->lacks_start));
  json_object_set_new(object, "lacks_calls", json_boolean(witness->lacks_calls));
  return object;
}

static void print_count(FILE *out, uint64_t count, const char *what) {
  char number[TEXT_NUMBER_BYTES];
  if (count)
    fprintf(out, "  %s: %s\n", what, text_count(number, count));
}

void witness_print(const struct witness *witness, FILE *out) {
  uint64_t wrong =
      witness->unseen_frees + witness->double_frees + witness->unseen_touches + witness->overlapping_acquires;
  print_history(out,
                !witness_ok(witness) ? "NOT a legal history"
                : wrong              ? "legal except for what the trace reports missing"
                                     : "a legal history",
                witness, "call");
  print_count(out, witness->unseen_frees, "frees of objects never seen");
  print_count(out, witness->double_frees, "double frees");
  print_count(out, witness->unseen_touches, "other calls on objects that were not live");
  print_count(out, witness->overlapping_acquires, "objects handed out at an address where another lived");
  print_count(out, witness->overlapping_ranges, "objects handed out inside the bytes of another");
  print_count(out, witness->inversions_repaired, "steps recorded in the wrong order, corrected");
  print_count(out, witness->max_inversion_depth, "steps moved before one of them, at most");
  print_count(out, witness->failed_calls, "failed calls");
  print_count(out, witness->dropped, "calls dropped by the recorder");
  if (witness->truncated)
    fprintf(out, witness->events ? "  the file is truncated\n"
                                 : "  the file ends before its first call: there is nothing to prove\n");
  if (witness->lacks_start)
    fprintf(out, "  the recording began after the program did\n");
  if (witness->lacks_calls)
    fprintf(out, "  the recorder did not see all calls\n");
}

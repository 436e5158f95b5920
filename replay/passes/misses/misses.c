/* SPDX-License-Identifier: MIT */
/* The misses pass: it runs under our Valgrind tool (observe/valgrind, mode replay), which simulates caches and TLBs for
   the accesses that the program made when it was recorded, at the addresses that this allocator returned.

   Job: report to the tool where the table of objects is, and announce each op before it is made; check the recorded
   accesses, start the engine under the tool, read its result. Not its job: the accesses (the tool reads their stream
   itself, so that the engine's accesses do not enter the caches), the model (observe/valgrind/simulate/simulate.h).
   Invariants: the order is the recorded one; each op of the workload is announced exactly once, skipped ones too;
   nothing is written to objects, as the program's own writes are in the stream. */
#include "core/command/cli.h"
#include "core/system/valgrind.h"
#include "core/system/valgrind_requests.h"
#include "core/workload/workload_read.h"
#include "replay/engine/loop.h"
#include "replay/parent/run.h"
#include "replay/passes/misses/accesses_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Between two ops, all of the program's accesses meanwhile are simulated: about 10 million accesses/s. */
#define MISSES_HANG_NS 3600000000000u

enum { LINE_BYTES = 64, LEVEL_LIMIT = 9 };

/* The parent's. caches, tlbs: in the tool's syntax; NULL: its defaults. */
static struct { const char *accesses, *caches, *tlbs; } settings;

/* "CAPACITY:WAYS,...", of blocks of that size. The tool checks the same (observe/valgrind/simulate/simulate.c), but its
   message would not be one line. */
static bool are_levels(const char *text, uint64_t block_bytes) {
  for (unsigned count = 1; count <= LEVEL_LIMIT; count++) {
    char *end;
    errno = 0;
    uint64_t capacity = *text >= '1' && *text <= '9' ? strtoull(text, &end, 10) : 0, blocks = capacity / block_bytes;
    uint64_t ways = capacity > 0 && *end == ':' && end[1] >= '1' && end[1] <= '9' ? strtoull(end + 1, &end, 10) : 0;
    if (errno != 0 || capacity > 1ull << 40 || capacity % block_bytes != 0 || ways == 0 || ways > 65536 ||
        blocks % ways != 0 || __builtin_popcountll(blocks / ways) != 1)
      return false;
    if (*end != ',')
      return *end == '\0';
    text = end + 1;
  }
  return false;
}

static const char *take_accesses(void *spec, const char *value) {
  (void)spec;
  settings.accesses = value;
  return *value && strlen(value) < PATH_MAX ? NULL : "is not a file's path";
}

static const char *take_caches(void *spec, const char *value) {
  (void)spec;
  settings.caches = value;
  return are_levels(value, LINE_BYTES) ? NULL : "is not BYTES:WAYS,...";
}

static const char *take_tlbs(void *spec, const char *value) {
  (void)spec;
  settings.tlbs = value;
  return are_levels(value, 1) ? NULL : "is not ENTRIES:WAYS,...";
}

static const struct cli_option options[] = {
    {"accesses", 0, "FILE", take_accesses, 0, .help = "the recorded data accesses", .group = "of some passes"},
    {"caches", 0, "BYTES:WAYS,...", take_caches, 0, .help = "the simulated caches", .group = "of some passes"},
    {"tlbs", 0, "ENTRIES:WAYS,...", take_tlbs, 0, .help = "the simulated TLBs", .group = "of some passes"},
    {.name = NULL},
};
CLI_ADD(replay, options);

static bool is_given(void) {
  return settings.accesses || settings.caches || settings.tlbs;
}

static const char *missing(void) {
  return settings.accesses ? NULL : "--accesses";
}

/* The layout in which the tool reads the table. */
_Static_assert(sizeof(struct object) == 2 * sizeof(uint64_t) && offsetof(struct object, pointer) == 0,
               "an entry is two words, the first the object's address");

/* Here the tool plays the stream. The assembly keeps the compiler from leaving the call out. */
static __attribute__((noinline)) void announce_op(void) {
  __asm__ volatile("" ::: "memory");
}

static void process_begins(void) {
  valgrind_request(VALGRIND_REQUEST_STARTED, (const unsigned long[VALGRIND_ARGUMENTS]){0});
}

static void setup(void) {
  valgrind_request(VALGRIND_REQUEST_CALLS,
                   (const unsigned long[VALGRIND_ARGUMENTS]){(unsigned long)announce_op, (unsigned long)engine.objects,
                                                             engine.workload.header.slots});
}

static ALWAYS_INLINE int64_t before_op(const struct step *step) {
  (void)step;
  announce_op();
  return 0;
}

static const struct loop_hooks hooks = {.before_op = before_op};
PASS_LOOP(misses_by_turns, hooks, LOOP_BY_TURNS)

/* The stream of recorded accesses, checked against its workload before it is replayed: each item is whole and legal,
   there are as many EVENT items as ops, and the slots are the workload's. The tool that plays it does not check again.
 */
struct access_stream {
  uint32_t filter_bytes;
  uint64_t events, accesses; /* numbers of items */
  bool has_bursts;           /* only bursts have recorded accesses */
  bool in_burst;             /* while the stream is read */
  uint64_t bursts;           /* number that begin */
  uint32_t totals_known;     /* bit i: enum access_total i */
  uint64_t totals[ACCESS_TOTAL_LIMIT];
};

static int take_total(struct accesses_reader *reader, struct access_stream *stream, const struct access_item *item,
                      struct error *error) {
  if (item->total >= ACCESS_TOTAL_LIMIT || stream->totals_known >> item->total & 1)
    return error_at(error, reader->path, reader->offset, "total %" PRIu32 " is unknown, or there twice", item->total);
  stream->totals_known |= 1u << item->total;
  stream->totals[item->total] = item->value;
  return 0;
}

/* Bursts begin and end alternately, except the first item, which marks that there are bursts. */
static int take_burst(struct accesses_reader *reader, struct access_stream *stream, const struct access_item *item,
                      struct error *error) {
  bool is_first = stream->events + stream->accesses == 0 && !stream->has_bursts;
  if (item->value > 1 || (is_first ? item->value != 0 : !stream->has_bursts || stream->in_burst == item->value))
    return error_at(error, reader->path, reader->offset, "a burst begins or ends twice");
  stream->has_bursts = true;
  stream->in_burst = item->value;
  stream->bursts += item->value;
  return 0;
}

static int take(struct accesses_reader *reader, struct access_stream *stream, const struct access_item *item,
                uint64_t slots, struct error *error) {
  if (item->kind == ACCESS_TOTAL)
    return take_total(reader, stream, item, error);
  if (stream->totals_known)
    return error_at(error, reader->path, reader->offset, "an item behind the totals");
  if (item->kind == ACCESS_BURST)
    return take_burst(reader, stream, item, error);
  if (item->kind != ACCESS_EVENT && stream->has_bursts && !stream->in_burst)
    return error_at(error, reader->path, reader->offset, "an access outside of a burst");
  if (item->kind == ACCESS_OBJECT && item->object >= slots)
    return error_at(error, reader->path, reader->offset,
                    "slot %" PRIu64 ", and the workload has %" PRIu64 ": the stream is damaged, or another workload's",
                    item->object, slots);
  if (item->kind == ACCESS_EVENT)
    stream->events++;
  else
    stream->accesses++;
  return 0;
}

static int access_stream_check(struct access_stream *stream, const char *path, uint64_t ops, uint64_t slots,
                               struct error *error) {
  static struct accesses_reader reader;
  *stream = (struct access_stream){0};
  struct access_item item = {.kind = ACCESS_EVENT};
  int status = accesses_reader_open(&reader, path, error) == 0 ? 1 : -1;
  stream->filter_bytes = reader.filter_bytes;
  while (status > 0 && (status = accesses_reader_next(&reader, &item, error)) > 0) {
    if (take(&reader, stream, &item, slots, error) != 0)
      status = -1;
  }
  accesses_reader_close(&reader);
  if (status == 0 && stream->events != ops)
    return error_set(error, path,
                     "%" PRIu64 " calls, and the workload has %" PRIu64 ": the stream belongs to another workload",
                     stream->events, ops);
  if (status == 0 && stream->has_bursts && stream->bursts == 0)
    return error_set(error, path, "the program was recorded in bursts, and none began: there are no accesses");
  return status;
}

static void add_arguments(struct valgrind_command *command, const struct run_spec *spec) {
  valgrind_command_add_tool(command, "replay", spec->threads);
  valgrind_command_add(command, "--out-file=%s", command->output);
  valgrind_command_add(command, "--accesses=%s", settings.accesses);
  if (settings.caches)
    valgrind_command_add(command, "--caches=%s", settings.caches);
  if (settings.tlbs)
    valgrind_command_add(command, "--tlbs=%s", settings.tlbs);
}

static int read_result(struct run *run, const struct run_spec *spec, const char *path, struct error *error) {
  json_error_t what;
  run->counted = json_load_file(path, 0, &what);
  if (!run->counted)
    return error_set(error, path, "the Valgrind tool left no result");
  uint64_t events = (uint64_t)json_integer_value(json_object_get(run->counted, "events"));
  if (events != spec->ops)
    return error_set(error, settings.accesses,
                     "calls played: %" PRIu64 " of %" PRIu64 "; the file was changed meanwhile", events, spec->ops);
  return 0;
}

static int launch(struct run *run, const struct run_spec *spec, struct error *error) {
  struct access_stream *stream = run->own = calloc(1, sizeof *stream);
  struct valgrind_command command = {0};
  char why[sizeof error->text - 128];
  if (!stream)
    return error_set(error, spec->path, "out of memory");
  if (valgrind_find(&command.valgrind, why, sizeof why) != 0)
    return error_set(error, spec->path, "misses can't be counted here: %s", why);
  if (access_stream_check(stream, settings.accesses, spec->ops, spec->slots, error) != 0)
    return -1;
  int status = valgrind_command_open(&command, error);
  if (status == 0) {
    add_arguments(&command, spec);
    status = run_process(run, spec, &command, error);
  }
  if (status == 0)
    status = read_result(run, spec, command.output, error);
  valgrind_command_close(&command);
  return status;
}

/* Totals of the program are from its recording: the replay executes nothing of it. NULL: not in the recording. */
static json_t *total_json(const struct access_stream *stream, enum access_total total) {
  return stream->totals_known >> total & 1 ? json_unsigned(stream->totals[total]) : json_null();
}

static json_t *sum_json(const json_t *left, const json_t *right) {
  if (!json_is_integer(left) || !json_is_integer(right))
    return json_null();
  return json_integer(json_integer_value(left) + json_integer_value(right));
}

/* The recording begins after the dynamic linker's work: that of the engine's process is used for the program's. It is
   outside of all bursts. */
static void set_with_startup(json_t *program, const char *key, const struct access_stream *stream,
                             enum access_total total, const json_t *startup) {
  json_t *recorded = total_json(stream, total);
  if (json_is_integer(recorded) && !stream->has_bursts)
    json_integer_set(recorded, json_integer_value(recorded) + json_integer_value(startup));
  json_object_set_new(program, key, recorded);
}

static json_t *levels_json(const json_t *levels, const char *size) {
  json_t *rows = json_array();
  size_t index;
  json_t *level;
  json_array_foreach(levels, index, level) {
    json_t *row = json_object();
    const char *const keys[] = {size, "ways", "misses", "sequential_misses", "first_misses"};
    for (size_t key = 0; key < sizeof keys / sizeof *keys; key++)
      if (json_object_get(level, keys[key]))
        json_object_set(row, keys[key], json_object_get(level, keys[key]));
    json_array_append_new(rows, row);
  }
  return rows;
}

static json_t *simulated_json(const json_t *from) {
  json_t *out = json_object();
  for (const char *const *key = (const char *const[]){"instructions", "string_instructions", "string_bytes",
                                                      "data_accesses", "page_faults", "syscalls", NULL};
       *key; key++)
    json_object_set_new(out, *key,
                        json_is_integer(json_object_get(from, *key)) ? json_incref(json_object_get(from, *key))
                                                                     : json_null());
  if (json_object_get(from, "unsure_page_faults"))
    json_object_set(out, "unsure_page_faults", json_object_get(from, "unsure_page_faults"));
  json_object_set_new(out, "caches", levels_json(json_object_get(from, "caches"), "bytes"));
  json_object_set_new(out, "tlbs", levels_json(json_object_get(from, "tlbs"), "entries"));
  return out;
}

/* What is known of a recording in bursts; all other figures are of the bursts only. */
static json_t *bursts_json(const struct access_stream *stream, const json_t *simulated) {
  json_t *bursts = json_object();
  json_set_count(bursts, "count", stream->bursts);
  for (const char *const *key = (const char *const[]){"first_lines", "first_pages", "unsure_page_faults", NULL}; *key;
       key++)
    json_object_set(bursts, *key, json_object_get(simulated, *key));
  json_object_set_new(bursts, "outside_program_instructions",
                      total_json(stream, ACCESS_TOTAL_OUTSIDE_PROGRAM_INSTRUCTIONS));
  json_object_set(bursts, "outside_allocator_instructions",
                  json_object_get(json_object_get(simulated, "outside"), "allocator_instructions"));
  return bursts;
}

static void report(json_t *into, const struct run *run) {
  const struct access_stream *stream = run->own;
  json_t *out = simulated_json(run->counted);
  json_t *allocator = simulated_json(json_object_get(run->counted, "allocator"));
  json_t *program = simulated_json(json_object_get(run->counted, "program"));
  json_t *startup = json_object_get(run->counted, "startup");
  json_t *startup_accesses = json_object_get(run->counted, "startup_accesses");
  const struct {
    const char *key;
    enum access_total total;
  } executed[] = {
      {"instructions", ACCESS_TOTAL_PROGRAM_INSTRUCTIONS},
      {"string_instructions", ACCESS_TOTAL_STRING_INSTRUCTIONS},
      {"string_bytes", ACCESS_TOTAL_STRING_BYTES},
  };
  for (size_t at = 0; at < sizeof executed / sizeof *executed; at++)
    set_with_startup(program, executed[at].key, stream, executed[at].total, json_object_get(startup, executed[at].key));
  set_with_startup(program, "data_accesses", stream, ACCESS_TOTAL_PROGRAM_ACCESSES, startup_accesses);
  json_object_set_new(program, "syscalls", total_json(stream, ACCESS_TOTAL_SYSCALLS));
  const char *const sums[] = {"string_instructions", "string_bytes", "data_accesses", "syscalls", NULL};
  for (const char *const *key = sums; *key; key++)
    json_object_set_new(out, *key, sum_json(json_object_get(allocator, *key), json_object_get(program, *key)));
  json_object_del(out, "instructions");
  json_object_set(out, "program_instructions", json_object_get(program, "instructions"));
  json_object_set(out, "allocator_instructions", json_object_get(allocator, "instructions"));
  /* The recording doesn't say which the program's were. */
  if (json_object_get(json_object_get(run->counted, "allocator"), "syscalls_by_kind"))
    json_object_set(allocator, "syscalls_by_kind",
                    json_object_get(json_object_get(run->counted, "allocator"), "syscalls_by_kind"));
  json_object_set_new(out, "allocator", allocator);
  json_object_set_new(out, "program", program);
  json_object_del(out, "unsure_page_faults"); /* they are among those of bursts */
  if (stream->has_bursts)
    json_object_set_new(out, "bursts", bursts_json(stream, run->counted));
  json_object_set(out, "startup_instructions", json_object_get(startup, "instructions"));
  json_object_set(out, "startup_accesses", startup_accesses);
  json_set_count(out, "simulated_accesses", stream->accesses);
  json_object_set(out, "lost_accesses", json_object_get(run->counted, "lost_accesses"));
  json_set_count(out, "filter_bytes", stream->filter_bytes);
  json_object_set_new(into, "misses", out);
}
/* Bursts may have no calls. */
static uint64_t counted(const struct run *run) {
  const struct access_stream *stream = run->own;
  const json_t *allocator = json_object_get(run->counted, "allocator");
  return stream->has_bursts || json_integer_value(json_object_get(allocator, "instructions")) > 0;
}

static const struct pass pass_misses = {
    .turn = 70,
    .name = "misses",
    .summary = "misses of simulated caches and TLBs, the program's recorded data accesses included",
    .order = ORDER_RECORDED,
    .recorded_only = true,
    .repeats = ONCE,
    .exact = true,
    .counts_startup = true,
    .needs_accesses = true,
    .own_names = "--accesses, --caches and --tlbs",
    .own_given = is_given,
    .own_missing = missing,
    .sets_touch = true,
    .touch = TOUCH_NONE,
    .without_as_malloc = "--as-malloc leaves out accesses that the misses pass counts",
    .hang_ns = MISSES_HANG_NS,
    .loops = {NULL, misses_by_turns},
    .process_begins = process_begins,
    .setup = setup,
    .launch = launch,
    .report = report,
    .counts = "instructions of the allocator",
    .counted = counted,
};
REGISTER_PASS(pass_misses);

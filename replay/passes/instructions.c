/* SPDX-License-Identifier: MIT */
/* The instructions pass: it runs under our Valgrind tool (observe/valgrind, mode count), which counts the instructions
   of each call exactly and repeatably.

   Job: make each kind of call from a separate function, so that the figures can be attributed by caller; start the
   engine under the tool, and read what it counted. Not its job: subtracting anything: a call's cost is what is executed
   below its call instruction, which is the allocator's code only. Threads take turns under Valgrind, so spinning and
   waiting differ from a normal run. */
#include "core/system/valgrind.h"
#include "core/system/valgrind_requests.h"
#include "replay/engine/loop.h"
#include "replay/parent/run.h"

#include <stdio.h>
#include <stdlib.h>

struct instruction_figures {
  uint64_t calls[CALL_LIMIT]; /* by the call recorded */
};

/* The tool distinguishes callers by address: one function for each kind of call, in its own section,
   whose first and last address the linker defines. The text in the assembly keeps the compiler from merging these
   functions, and is behind the call so that the call does not become a jump. */
#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  static __attribute__((noinline, section("heaptape_code_" #ident))) void *heaptape_calls_##ident(                     \
      uint8_t entry, const struct op *op) {                                                                            \
    uint64_t cycles;                                                                                                   \
    void *object = call_entry(entry, op, false, &cycles);                                                              \
    __asm__ volatile("# " #ident ::: "memory");                                                                        \
    return object;                                                                                                     \
  }
#include "core/trace/calls.def"

/* Makes the call of op, and counts it under its kind. Returns the object, or NULL. */
static __attribute__((noinline)) void *call_counted(uint64_t calls[CALL_LIMIT], uint8_t entry, const struct op *op) {
  static void *(*const callers[CALL_LIMIT])(uint8_t, const struct op *) = {
#define CALL(id, ident, name, acquires, released, size, param) [id] = heaptape_calls_##ident,
#include "core/trace/calls.def"
  };
  uint8_t id = op->call & CALL_ID_MASK;
  calls[id]++;
  return callers[id](entry, op);
}

#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  extern const char __start_heaptape_code_##ident[], __stop_heaptape_code_##ident[];
#include "core/trace/calls.def"

static void setup(void) {
  static const struct {
    unsigned long kind;
    const char *first, *end;
  } callers[] = {
#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  {id, __start_heaptape_code_##ident, __stop_heaptape_code_##ident},
#include "core/trace/calls.def"
  };
  for (size_t index = 0; index < sizeof callers / sizeof *callers; index++)
    valgrind_request(VALGRIND_REQUEST_CALLER,
                     (const unsigned long[VALGRIND_ARGUMENTS]){callers[index].kind, (unsigned long)callers[index].first,
                                                               (unsigned long)callers[index].end});
}

/* Reports to the tool that the allocator's start-up is over. Warm rounds are no part of it, nor of any call. */
static void begin(void) {
  valgrind_request(VALGRIND_REQUEST_STARTED, (const unsigned long[VALGRIND_ARGUMENTS]){0});
}

static void add_worker(const struct worker *worker) {
  struct instruction_figures *figures = engine.figures;
  const uint64_t *calls = worker->own;
  for (int id = 0; id < CALL_LIMIT; id++)
    figures->calls[id] += calls[id];
}

static ALWAYS_INLINE void *call(const struct step *step) {
  return call_counted(step->own, step->dispatch.entry, step->op);
}

static const struct loop_hooks hooks = {.call = call};
PASS_LOOPS(instructions, hooks, hooks)

/* As a processor's counter has them: a repeated string instruction is one. strings: those of them that are such;
   string_bytes: what these moved or compared. */
struct executed_count {
  uint64_t instructions, strings, string_bytes;
};

/* Instructions counted below each kind of call, and before the first op. */
struct instruction_counts {
  struct executed_count calls[CALL_LIMIT];
  struct executed_count startup; /* while the allocator ran: its constructors, and calls of the dynamic linker's and the
                                    libraries' constructors */
  struct executed_count startup_process; /* with what the dynamic linker and the libraries' constructors executed until
                                            main began; not the engine's own, which examines each loaded library */
  json_t *startup_syscalls;              /* by kind, as of startup_process; until report */
};

static struct executed_count read_executed(const json_t *from) {
  return (struct executed_count){(uint64_t)json_integer_value(json_object_get(from, "instructions")),
                                 (uint64_t)json_integer_value(json_object_get(from, "string_instructions")),
                                 (uint64_t)json_integer_value(json_object_get(from, "string_bytes"))};
}

static void add_executed(struct executed_count *to, const struct executed_count *more) {
  to->instructions += more->instructions;
  to->strings += more->strings;
  to->string_bytes += more->string_bytes;
}

/* A kind is the call's id (setup). */
static int read_ours(const char *path, struct instruction_counts *counts, struct error *error) {
  json_error_t what;
  json_t *result = json_load_file(path, 0, &what);
  json_t *kinds = json_object_get(result, "kinds"), *entry;
  size_t index;
  json_array_foreach(kinds, index, entry) {
    json_int_t kind = json_integer_value(json_object_get(entry, "kind"));
    if (kind >= 0 && kind < CALL_LIMIT)
      counts->calls[kind] = read_executed(entry);
  }
  const json_t *startup = json_object_get(result, "startup");
  counts->startup = read_executed(json_object_get(startup, "allocator"));
  counts->startup_process = read_executed(json_object_get(startup, "loading"));
  add_executed(&counts->startup_process, &counts->startup);
  int status = json_is_array(kinds) ? 0 : error_set(error, path, "the Valgrind tool left no result");
  if (status == 0)
    counts->startup_syscalls = json_incref(json_object_get(startup, "syscalls_by_kind"));
  json_decref(result);
  return status;
}

static int launch(struct run *run, const struct run_spec *spec, struct error *error) {
  struct valgrind_command command = {0};
  char why[sizeof error->text - 128];
  if (valgrind_find(&command.valgrind, why, sizeof why) != 0)
    return error_set(error, spec->path, "instructions can't be counted here: %s", why);
  struct instruction_counts *counts = run->own = calloc(1, sizeof *counts);
  if (!counts)
    return error_set(error, spec->path, "out of memory");
  int status = valgrind_command_open(&command, error);
  if (status == 0) {
    valgrind_command_add_tool(&command, "count", spec->threads);
    valgrind_command_add(&command, "--out-file=%s", command.output);
    status = run_process(run, spec, &command, error);
  }
  if (status == 0)
    status = read_ours(command.output, counts, error);
  valgrind_command_close(&command);
  return status;
}

/* Sets the keys "string_instructions" and "string_bytes", each behind the prefix. */
static void set_strings(json_t *into, const char *prefix, const struct executed_count *executed) {
  char key[64];
  snprintf(key, sizeof key, "%sstring_instructions", prefix);
  json_set_count(into, key, executed->strings);
  snprintf(key, sizeof key, "%sstring_bytes", prefix);
  json_set_count(into, key, executed->string_bytes);
}

/* Instructions are the allocator's only, as counted under Valgrind; numbers of calls are counted by the engine. */
static void report(json_t *into, const struct run *run) {
  const struct instruction_figures *figures = run->figures;
  const struct instruction_counts *counted = run->own;
  json_t *calls = json_object();
  struct executed_count total = {0};
  for (int id = 0; id < CALL_LIMIT; id++) {
    uint64_t count = figures->calls[id];
    const struct executed_count *executed = &counted->calls[id];
    if (count == 0)
      continue;
    json_t *call = json_pack("{s:o, s:o, s:f}", "count", json_unsigned(count), "instructions_total",
                             json_unsigned(executed->instructions), "instructions_mean",
                             (double)executed->instructions / (double)count);
    set_strings(call, "", executed);
    json_object_set_new(calls, call_table[id].name, call);
    add_executed(&total, executed);
  }
  json_object_set_new(into, "calls", calls);
  json_set_count(into, "instructions_total", total.instructions);
  set_strings(into, "", &total);
  json_set_count(into, "startup_instructions", counted->startup.instructions);
  json_set_count(into, "startup_process_instructions", counted->startup_process.instructions);
  set_strings(into, "startup_process_", &counted->startup_process);
  if (counted->startup_syscalls)
    json_object_set_new(into, "startup_syscalls", counted->startup_syscalls);
}

/* 0 if there are no instructions below one kind of call. */
static uint64_t counted(const struct run *run) {
  const struct instruction_figures *figures = run->figures;
  const struct instruction_counts *counts = run->own;
  for (int id = 0; id < CALL_LIMIT; id++)
    if (figures->calls[id] > 0 && counts->calls[id].instructions == 0)
      return 0;
  return 1;
}

static const struct pass pass_instructions = {
    .turn = 10,
    .name = "instructions",
    .summary = "instructions per call, counted exactly by our Valgrind tool",
    .order = ORDER_RECORDED,
    .repeats = TWICE,
    .by_default = true,
    .exact = true,
    .counts_startup = true,
    .takes = TAKES_WARM,
    .loops = {instructions_freely, instructions_by_turns},
    .worker_bytes = CALL_LIMIT * sizeof(uint64_t),
    .figures_bytes = sizeof(struct instruction_figures),
    .setup = setup,
    .begin = begin,
    .add_worker = add_worker,
    .launch = launch,
    .report = report,
    .counts = "instructions",
    .counted = counted,
};
REGISTER_PASS(pass_instructions);

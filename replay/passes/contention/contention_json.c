/* SPDX-License-Identifier: MIT */
#include "core/base/vector.h"
#include "replay/parent/run.h"
#include "replay/passes/contention/contention.h"
#include "replay/passes/contention/elf_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OVERFLOW_ROWS = WAIT_KINDS * CALL_LIMIT * WAIT_CLASSES };

/* One row of the engine's tables. */
struct wait {
  uint64_t address; /* 0: unknown */
  enum wait_kind kind;
  uint8_t call;
  unsigned size_class;
  uint64_t count, at_once, time_ns, max_ns;
};

struct waits {
  struct wait *rows;
  size_t count;
};

static const char *const kind_names[WAIT_KINDS] = {"futex", "yield", "sleep"};

static void add_row(struct waits *waits, struct wait row, const struct wait_sums *sums) {
  row.count = sums->count;
  row.at_once = sums->at_once;
  row.time_ns = sums->time_ns;
  row.max_ns = sums->max_ns;
  if (row.count > 0)
    waits->rows[waits->count++] = row;
}

static int collect(struct waits *waits, const struct contention *contention) {
  waits->count = 0;
  waits->rows = malloc((WAIT_ROWS + OVERFLOW_ROWS) * sizeof *waits->rows);
  if (!waits->rows)
    return -1;
  for (unsigned index = 0; index < WAIT_ROWS; index++) {
    uint64_t key = contention->rows[index].key;
    struct wait row = {.address = wait_key_address(key),
                       .kind = wait_key_kind(key),
                       .call = wait_key_call(key),
                       .size_class = wait_key_size_class(key)};
    add_row(waits, row, &contention->rows[index].sums);
  }
  for (unsigned index = 0; index < OVERFLOW_ROWS; index++) {
    struct wait row = {.kind = (enum wait_kind)(index / (CALL_LIMIT * WAIT_CLASSES)),
                       .call = (uint8_t)(index / WAIT_CLASSES % CALL_LIMIT),
                       .size_class = index % WAIT_CLASSES};
    add_row(waits, row, &contention->overflow[row.kind][row.call][row.size_class]);
  }
  return 0;
}

static void add(struct wait *into, const struct wait *row) {
  into->count += row->count;
  into->at_once += row->at_once;
  into->time_ns += row->time_ns;
  into->max_ns = row->max_ns > into->max_ns ? row->max_ns : into->max_ns;
}

static json_t *sums_json(const struct wait *sums) {
  return json_pack("{s:o, s:o, s:o, s:o}", "count", json_unsigned(sums->count), "at_once", json_unsigned(sums->at_once),
                   "time_ns", json_unsigned(sums->time_ns), "max_ns", json_unsigned(sums->max_ns));
}

static const char *call_name(uint8_t call) {
  return call == WAIT_CALL_THREAD_END ? "thread end" : call_table[call].name;
}

static json_t *sizes_json(const struct wait classes[WAIT_CLASSES]) {
  json_t *sizes = json_array();
  for (unsigned class = 0; class < SIZE_CLASSES; class ++) {
    if (classes[class].count == 0)
      continue;
    json_t *size = sums_json(&classes[class]);
    uint64_t last = size_class_last(class);
    json_object_set_new(size, "up_to_bytes", last == UINT64_MAX ? json_null() : json_unsigned(last));
    json_array_append_new(sizes, size);
  }
  return sizes;
}

/* Calls in which a thread waited or was off its processor, by name. */
static json_t *calls_json(const struct waits *waits, const struct contention *contention) {
  json_t *calls = json_object();
  for (int id = 0; id < CALL_LIMIT; id++) {
    struct wait classes[WAIT_CLASSES] = {{0}}, all = {0};
    for (size_t index = 0; index < waits->count; index++) {
      if (waits->rows[index].call != id)
        continue;
      add(&classes[waits->rows[index].size_class], &waits->rows[index]);
      add(&all, &waits->rows[index]);
    }
    if (all.count + contention->voluntary[id] + contention->involuntary[id] == 0)
      continue;
    json_t *call = sums_json(&all);
    json_set_count(call, "voluntary_switches", contention->voluntary[id]);
    json_set_count(call, "involuntary_switches", contention->involuntary[id]);
    if (id != WAIT_CALL_THREAD_END)
      json_object_set_new(call, "sizes", sizes_json(classes));
    json_object_set_new(calls, call_name((uint8_t)id), call);
  }
  return calls;
}

static int by_lock(const void *left, const void *right) {
  const struct wait *a = left, *b = right;
  return COMPARE(a->kind, b->kind) ?: COMPARE(a->address, b->address);
}

static bool same_lock(const struct wait *a, const struct wait *b) {
  return a->kind == b->kind && a->address == b->address;
}

static const struct loaded_object *object_of(const struct contention *contention, uint64_t address) {
  for (uint32_t index = 0; index < contention->object_count; index++)
    if (address >= contention->objects[index].first && address < contention->objects[index].last)
      return &contention->objects[index];
  return NULL;
}

static bool is_arena(const struct contention *contention, uint64_t address) {
  for (uint32_t index = 0; index < contention->arena_count; index++)
    if (contention->arenas[index] == address)
      return true;
  return false;
}

/* "object" and "offset" of an address in a loaded file, "symbol" where it has a name. */
static void add_place(json_t *lock, const struct contention *contention, uint64_t address) {
  const struct loaded_object *object = object_of(contention, address);
  bool arena = is_arena(contention, address);
  char name[512] = "";
  uint64_t offset = 0;
  if (object) {
    json_object_set_new(lock, "object", json_string(basename(object->path)));
    json_set_count(lock, "offset", address - object->bias);
  }
  if (object && elf_name_of(object->path, address - object->bias, name, sizeof name, &offset)) {
    json_object_set_new(lock, "symbol", json_string(name));
    json_set_count(lock, "symbol_offset", offset);
  } else if (arena) {
    json_object_set_new(lock, "symbol", json_string(object ? "main_arena" : "arena"));
    json_set_count(lock, "symbol_offset", 0);
  }
}

/* The waits on one lock, which begin at first; *next: behind them. */
static json_t *lock_json(const struct contention *contention, const struct waits *waits, size_t first, size_t *next) {
  struct wait all = {0}, calls[CALL_LIMIT] = {{0}};
  const struct wait *lock = &waits->rows[first];
  for (*next = first; *next < waits->count && same_lock(&waits->rows[*next], lock); (*next)++) {
    add(&all, &waits->rows[*next]);
    add(&calls[waits->rows[*next].call], &waits->rows[*next]);
  }
  json_t *json = sums_json(&all), *counts = json_object();
  char address[24];
  snprintf(address, sizeof address, "0x%" PRIx64, lock->address);
  json_object_set_new(json, "wait", json_string(kind_names[lock->kind]));
  json_object_set_new(json, "address", lock->address ? json_string(address) : json_null());
  if (lock->address)
    add_place(json, contention, lock->address);
  for (int id = 0; id < CALL_LIMIT; id++)
    if (calls[id].count > 0)
      json_set_count(counts, call_name((uint8_t)id), calls[id].count);
  json_object_set_new(json, "calls", counts);
  return json;
}

static int longest_first(const void *left, const void *right) {
  json_int_t a = json_integer_value(json_object_get(*(json_t *const *)left, "time_ns"));
  json_int_t b = json_integer_value(json_object_get(*(json_t *const *)right, "time_ns"));
  return a > b ? -1 : a < b;
}

static json_t *locks_json(const struct contention *contention, const struct waits *waits) {
  json_t *array = json_array();
  json_t **locks = malloc((waits->count + 1) * sizeof *locks);
  size_t count = 0;
  if (waits->count > 0)
    qsort(waits->rows, waits->count, sizeof *waits->rows, by_lock);
  for (size_t index = 0; locks && index < waits->count;)
    locks[count++] = lock_json(contention, waits, index, &index);
  if (count > 0)
    qsort(locks, count, sizeof *locks, longest_first);
  for (size_t index = 0; index < count; index++)
    json_array_append_new(array, locks[index]);
  free(locks);
  return array;
}

/* The ns of all threads from their first word to their last, minus waits for the order. */
static uint64_t thread_ns(const struct run *run) {
  const struct replay_result *result = run->result;
  return (uint64_t)((double)above(result->life_cycles, result->wait_cycles) * 1e9 / run_cycles_hz());
}

static void add_switches(json_t *into, const struct contention *contention) {
  uint64_t voluntary = 0, involuntary = 0;
  for (int id = 0; id < CALL_LIMIT; id++) {
    voluntary += contention->voluntary[id];
    involuntary += contention->involuntary[id];
  }
  if (!contention->switches_known) {
    json_object_set_new(into, "switches_missing_because", json_string("kernel or libc has no restartable sequences"));
    return;
  }
  json_set_count(into, "voluntary_switches", voluntary);
  json_set_count(into, "involuntary_switches", involuntary);
}

static json_t *contention_json(const struct run *run) {
  const struct contention *contention = run->figures;
  struct waits waits;
  if (collect(&waits, contention) != 0)
    return NULL;
  struct wait all = {0};
  for (size_t index = 0; index < waits.count; index++)
    add(&all, &waits.rows[index]);
  json_t *json = sums_json(&all);
  json_set_count(json, "thread_ns", thread_ns(run));
  add_switches(json, contention);
  json_set_count(json, "outside", contention->outside);
  json_set_count(json, "trap_ns", contention->trap_ns);
  json_object_set_new(json, "calls", calls_json(&waits, contention));
  json_object_set_new(json, "locks", locks_json(contention, &waits));
  free(waits.rows);
  return json;
}

void contention_report(json_t *into, const struct run *run) {
  json_object_set_new(into, "contention", contention_json(run));
}

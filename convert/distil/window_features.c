/* SPDX-License-Identifier: MIT */
#include "convert/distil/distil.h"

#include "core/base/os.h"
#include "core/trace/event.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Classes of ages, one per power of two; the last has no upper limit. */
enum { AGE_CLASSES = 40 };

enum single {
  SINGLE_OPS,
  SINGLE_THREADS,        /* that made a call */
  SINGLE_TURNS,          /* changes from one thread to another, including one at its beginning */
  SINGLE_REMOTE_FREES,   /* releases by another thread than the one that acquired */
  SINGLE_REUSING,        /* acquires of a size class in which more objects were released than acquired since */
  SINGLE_ACQUIRED_BYTES, /* requests */
  SINGLE_LIVE_OBJECTS,   /* at its beginning */
  SINGLE_LIVE_BYTES,
  SINGLE_LIVE_OBJECTS_HIGHEST, /* in it, including its beginning */
  SINGLE_LIVE_BYTES_HIGHEST,
  SINGLE_NEW_HIGH_BYTES, /* by how much live bytes rose above their earlier maximum */
  SINGLES
};

static const char *const single_names[SINGLES] = {"ops",
                                                  "threads",
                                                  "turns",
                                                  "remote_frees",
                                                  "reusing",
                                                  "acquired_bytes",
                                                  "live_objects",
                                                  "live_bytes",
                                                  "live_objects_highest",
                                                  "live_bytes_highest",
                                                  "new_high_bytes"};

struct row {
  uint64_t singles[SINGLES], calls[CALL_LIMIT], acquires[SIZE_CLASSES], deaths[AGE_CLASSES];
};

struct measured_slot {
  uint64_t born, bytes;
  uint32_t thread;
};

struct measuring {
  struct op_walk walk;
  struct row row;
  struct measured_slot *slots;
  uint64_t slots_bytes;
  uint64_t *thread_windows; /* by thread: number of the last window that it was seen in, plus 1 */
  uint64_t window, live_objects, live_bytes, highest_ever_bytes;
  uint64_t stock[SIZE_CLASSES]; /* released and not acquired again */
  uint32_t last_thread;
};

static unsigned age_class(uint64_t ops) {
  unsigned class = 63 - (unsigned)__builtin_clzll(ops | 1);
  return class < AGE_CLASSES ? class : AGE_CLASSES - 1;
}

static void begin_row(struct measuring *measuring) {
  uint64_t *singles = measuring->row.singles;
  memset(&measuring->row, 0, sizeof measuring->row);
  singles[SINGLE_LIVE_OBJECTS] = singles[SINGLE_LIVE_OBJECTS_HIGHEST] = measuring->live_objects;
  singles[SINGLE_LIVE_BYTES] = singles[SINGLE_LIVE_BYTES_HIGHEST] = measuring->live_bytes;
}

static void take_release(struct measuring *measuring, const struct measured_slot *slot) {
  measuring->live_objects--;
  measuring->live_bytes -= slot->bytes;
  measuring->stock[size_class(slot->bytes)]++;
  measuring->row.singles[SINGLE_REMOTE_FREES] += slot->thread != measuring->walk.ops.op.thread;
}

static void raise(uint64_t *highest, uint64_t value) {
  *highest = value > *highest ? value : *highest;
}

static void take_acquire(struct measuring *measuring, struct measured_slot *slot) {
  uint64_t *singles = measuring->row.singles;
  slot->bytes = measuring->walk.op.request_bytes;
  slot->thread = measuring->walk.ops.op.thread;
  unsigned class = size_class(slot->bytes);
  bool reuses = measuring->stock[class] > 0;
  measuring->stock[class] -= reuses;
  measuring->live_objects++;
  measuring->live_bytes += slot->bytes;
  measuring->row.acquires[class]++;
  singles[SINGLE_REUSING] += reuses;
  singles[SINGLE_ACQUIRED_BYTES] += slot->bytes;
  raise(&singles[SINGLE_LIVE_OBJECTS_HIGHEST], measuring->live_objects);
  raise(&singles[SINGLE_LIVE_BYTES_HIGHEST], measuring->live_bytes);
  if (measuring->live_bytes > measuring->highest_ever_bytes) {
    singles[SINGLE_NEW_HIGH_BYTES] += measuring->live_bytes - measuring->highest_ever_bytes;
    measuring->highest_ever_bytes = measuring->live_bytes;
  }
}

static void take_thread(struct measuring *measuring) {
  uint32_t thread = measuring->walk.ops.op.thread;
  uint64_t *singles = measuring->row.singles;
  singles[SINGLE_OPS]++;
  singles[SINGLE_TURNS] += thread != measuring->last_thread;
  singles[SINGLE_THREADS] += measuring->thread_windows[thread] != measuring->window + 1;
  measuring->thread_windows[thread] = measuring->window + 1;
  measuring->last_thread = thread;
}

static void take_op(struct measuring *measuring) {
  const struct op_walk *walk = &measuring->walk;
  const struct workload_ops_op *op = &walk->ops.op;
  take_thread(measuring);
  measuring->row.calls[op->call & CALL_ID_MASK]++;
  if (walk->op.kind == HISTORY_NOTHING)
    return;
  struct measured_slot *slot = &measuring->slots[op->slot];
  if (walk->op.kind == HISTORY_ACQUIRE)
    slot->born = op->position;
  else if (op_walk_releases(walk))
    take_release(measuring, slot);
  if (walk->op.kind == HISTORY_ACQUIRE || (walk->op.kind == HISTORY_MOVE))
    take_acquire(measuring, slot);
  if (walk->op.kind == HISTORY_RELEASE)
    measuring->row.deaths[age_class(op->position - slot->born)]++;
}

static json_t *columns_json(void) {
  json_t *columns = json_array();
  for (int single = 0; single < SINGLES; single++)
    json_array_append_new(columns, json_string(single_names[single]));
  for (int id = 0; id < CALL_LIMIT; id++)
    if (call_table[id].name)
      json_array_append_new(columns, json_sprintf("calls:%s", call_table[id].name));
  for (unsigned class = 0; class < SIZE_CLASSES; class ++)
    json_array_append_new(columns,
                          json_sprintf("acquires:%" JSON_INTEGER_FORMAT, (json_int_t)size_bucket_lower(class)));
  for (unsigned class = 0; class < AGE_CLASSES; class ++)
    json_array_append_new(columns, json_sprintf("deaths:%" JSON_INTEGER_FORMAT, (json_int_t)(1ull << class)));
  return columns;
}

static int write_header(const struct workload *workload, uint64_t window_ops, FILE *out) {
  uint64_t ops = workload->header.ops;
  json_t *header = json_pack("{sI sI sI so}", "ops", (json_int_t)ops, "window_ops", (json_int_t)window_ops, "windows",
                             (json_int_t)(ops / window_ops + (ops % window_ops != 0)), "columns", columns_json());
  int result = json_dumpf(header, out, JSON_COMPACT);
  json_decref(header);
  return result == 0 && fputc('\n', out) != EOF ? 0 : -1;
}

static bool write_row(const struct row *row, FILE *out) {
  bool good = fwrite(row->singles, sizeof row->singles, 1, out) == 1;
  for (int id = 0; id < CALL_LIMIT; id++)
    if (call_table[id].name)
      good &= fwrite(&row->calls[id], sizeof row->calls[id], 1, out) == 1;
  good &= fwrite(row->acquires, sizeof row->acquires, 1, out) == 1;
  return good & (fwrite(row->deaths, sizeof row->deaths, 1, out) == 1);
}

/* Returns 0, or -1 with error; 1: the output can't be written. */
static int measure(struct measuring *measuring, uint64_t window_ops, FILE *out, struct error *error) {
  int got;
  begin_row(measuring);
  while ((got = op_walk_next(&measuring->walk, error)) > 0) {
    take_op(measuring);
    if (measuring->row.singles[SINGLE_OPS] < window_ops)
      continue;
    if (!write_row(&measuring->row, out))
      return 1;
    measuring->window++;
    begin_row(measuring);
  }
  return got == 0 && measuring->row.singles[SINGLE_OPS] > 0 ? !write_row(&measuring->row, out) : got;
}

static int begin(struct measuring *measuring, const struct workload *workload, struct error *error) {
  *measuring = (struct measuring){.last_thread = UINT32_MAX,
                                  .slots_bytes = (workload->header.slots + 1ull) * sizeof *measuring->slots};
  int result = op_walk_open(&measuring->walk, workload, error);
  measuring->slots = os_map(measuring->slots_bytes, false);
  measuring->thread_windows = calloc(workload->header.threads + 1u, sizeof *measuring->thread_windows);
  if (result == 0 && (!measuring->slots || !measuring->thread_windows))
    result = error_set(error, workload->path, "out of memory");
  return result;
}

int window_features_write(const struct workload *workload, uint64_t window_ops, struct output_stream out,
                          struct error *error) {
  struct measuring measuring;
  int result = begin(&measuring, workload, error);
  if (result == 0)
    result = write_header(workload, window_ops, out.file) != 0 ? 1 : measure(&measuring, window_ops, out.file, error);
  if (result > 0 || (result == 0 && fflush(out.file) != 0))
    result = error_errno(error, out.name, "can't write");
  op_walk_close(&measuring.walk);
  os_unmap(measuring.slots, measuring.slots_bytes);
  free(measuring.thread_windows);
  return result;
}

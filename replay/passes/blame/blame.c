/* SPDX-License-Identifier: MIT */
#include "replay/passes/blame/blame.h"
#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/system/process.h"
#include "core/workload/origins.h"
#include "replay/engine/loaded.h"
#include "replay/engine/loop.h"
#include "replay/memory/fragmentation.h"
#include "replay/passes/blame/attribution.h"
#include "replay/passes/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  FOLD_SHARE = 1000,
  PEAK_STEP = 32,    /* attributes at once where RSS exceeds the highest attributed RSS by 1/32 */
  PEAK_PATIENCE = 2, /* or where it exceeds that at all, and 1/2 of an interval has passed since the last attribution */
  PEAK_NEAR = 8,     /* neither below 7/8 of the peak of live bytes, until that peak has passed */
};

static struct {
  uint64_t next_position; /* at which to attribute */
  uint64_t rows;          /* of the time line, when last read */
} blame_watch;

static struct {
  uint64_t interval, next_even; /* UINT64_MAX: no more */
  uint32_t next_requested;
  uint64_t last_position;       /* attributed */
  uint64_t peak_rss_anon_bytes; /* the highest attributed */
} due;

static struct blame_figures *blame(void) {
  return engine.figures;
}

static struct memory_figures *memory(void) {
  return &blame()->memory;
}

static const struct blame_request *request(void) {
  return &blame()->request;
}

static void set_next_position(void) {
  uint64_t requested =
      due.next_requested < request()->requested_count ? request()->requested[due.next_requested].position : UINT64_MAX;
  blame_watch.next_position = requested < due.next_even ? requested : due.next_even;
}

static void setup(void) {
  memory_setup(false);
  blame()->measured = memory()->map_residency != 0;
  blame_watch.next_position = UINT64_MAX;
  births_setup(request()->origins_fd);
  if (blame()->measured && attribution_setup() != 0)
    engine_fail(NULL, "no memory for the blame pass: %s", strerror(errno));
  uint64_t ops = engine.workload.header.ops;
  due.interval = request()->even == 0 ? UINT64_MAX : ops / request()->even + 1;
  due.next_even = due.interval;
  if (blame()->measured)
    set_next_position();
  memory_read_start();
}

/* Returns the reasons to attribute here, and advances past them. */
static uint32_t reasons_at(uint64_t position) {
  uint32_t why = 0;
  if (position >= due.next_even) {
    why |= BLAME_BECAUSE_EVEN;
    uint64_t left = UINT64_MAX - position;
    due.next_even = due.interval < left ? position - position % due.interval + due.interval : UINT64_MAX;
  }
  for (;
       due.next_requested < request()->requested_count && request()->requested[due.next_requested].position <= position;
       due.next_requested++)
    why |= request()->requested[due.next_requested].why;
  set_next_position();
  return why;
}

/* Where RSS rises far below the peak of live bytes, which the workload file has, the peak of RSS is yet to come:
   attributing there, too, would cost as much as at all evenly spaced positions. */
static bool may_be_peak(uint64_t position, uint64_t rss_anon_bytes) {
  uint64_t live_peak_bytes = engine.workload.header.peak_live_bytes;
  return rss_anon_bytes >= live_peak_bytes - live_peak_bytes / PEAK_NEAR ||
         position > engine.workload.header.peak_position;
}

static bool is_new_peak(uint64_t position, uint64_t rss_anon_bytes) {
  if (rss_anon_bytes <= due.peak_rss_anon_bytes || !may_be_peak(position, rss_anon_bytes))
    return false;
  return rss_anon_bytes - due.peak_rss_anon_bytes >= due.peak_rss_anon_bytes / PEAK_STEP ||
         (due.interval != UINT64_MAX && position - due.last_position >= due.interval / PEAK_PATIENCE);
}

static void put_position(const struct blame_position *position) {
  struct blame_figures *result = blame();
  uint64_t resident_bytes = position->parts.sum.live_bytes + position->parts.sum.rounding_bytes +
                            position->parts.sum.beside_bytes + position->parts.sum.empty_bytes +
                            position->parts.sum.untouched_bytes;
  if (position->why && result->position_count < BLAME_POSITIONS) {
    struct blame_rows rows = {result->rows, result->row_count, BLAME_ROWS, result->rows_lost};
    bool fold = position->why == BLAME_BECAUSE_EVEN;
    groups_put(&rows, result->position_count, fold ? (resident_bytes + FOLD_SHARE - 1) / FOLD_SHARE : 0);
    result->positions[result->position_count++] = *position;
    result->row_count = rows.count;
    result->rows_lost = rows.lost;
  }
  if (position->parts.rss_anon_bytes > due.peak_rss_anon_bytes) {
    struct blame_rows rows = {result->peak_rows, 0, BLAME_PEAK_ROWS, 0};
    groups_put(&rows, 0, 0);
    result->peak = *position;
    result->peak_row_count = rows.count;
    result->peak_rows_lost = rows.lost;
    due.peak_rss_anon_bytes = position->parts.rss_anon_bytes;
  }
}

/* Right after the memory map has sampled the position. */
static void attribute(const struct fragmentation_row *parts, uint32_t why) {
  struct blame_position position = {.parts = *parts, .why = why};
  position.live_objects = attribution_make(parts);
  put_position(&position);
  groups_clear();
  due.last_position = parts->position;
}

static void sample_at(uint64_t position, uint32_t why, uint64_t rss_anon_bytes) {
  struct fragmentation_row parts;
  memory_map_sample(position, rss_anon_bytes, why & (BLAME_BECAUSE_EVEN | BLAME_BECAUSE_END), &parts);
  attribute(&parts, why);
}

/* rss_anon_bytes: 0: not read yet. */
static void attribute_if_due(uint64_t position) {
  const struct memory_figures *result = memory();
  uint32_t why = reasons_at(position);
  uint64_t rss_anon_bytes = 0, vm_size_bytes;
  bool sampled = result->rows != blame_watch.rows;
  blame_watch.rows = result->rows;
  if (sampled && result->rows > 0 && result->timeline[result->rows - 1].position == position)
    rss_anon_bytes = result->timeline[result->rows - 1].rss_anon_bytes;
  if (why == 0 && !is_new_peak(position, rss_anon_bytes))
    return;
  if (position == engine.workload.header.ops) /* attributed when all threads have ended */
    return;
  if (rss_anon_bytes > 0 || memory_read(&rss_anon_bytes, &vm_size_bytes) == 0)
    sample_at(position, why, rss_anon_bytes);
}

static void begin(void) {
  memory_begin();
  if (blame()->measured && request()->requested_count > 0 && request()->requested[0].position == 0)
    attribute_if_due(0);
  file_pages_fault_in();
}

static void attribute_end(void) {
  if (!blame()->measured || memory()->rows == 0)
    return;
  const struct memory_row *row = &memory()->timeline[memory()->rows - 1];
  sample_at(row->position, BLAME_BECAUSE_END | request()->end_why | (request()->even ? BLAME_BECAUSE_EVEN : 0),
            row->rss_anon_bytes);
}

static void end(void) {
  memory_last_row();
  attribute_end();
  memory_held();
}

static __attribute__((noinline)) void blame_sample(struct worker *worker) {
  uint64_t faults = faults_of_thread();
  if (blame()->measured)
    attribute_if_due(atomic_load(&engine.result->done));
  else
    blame_watch.rows = memory()->rows;
  worker->engine_faults += faults_of_thread() - faults;
}

static ALWAYS_INLINE void after_op(const struct step *step, int64_t before) {
  const uint8_t traits = step->dispatch.traits;
  _Atomic uint64_t *done = &engine.result->done;
  if (traits & CALL_ACQUIRES)
    fragmentation_note_acquire(step->op->slot, step->object);
  if ((traits & (CALL_ACQUIRES | CALL_TAKES)) == CALL_ACQUIRES)
    births_note(atomic_load_explicit(done, memory_order_relaxed), step->self->number, step->op->slot);
  memory_after_op(step->worker, memory_before_op(step) - before);
  if (unlikely(atomic_load_explicit(done, memory_order_relaxed) >= blame_watch.next_position ||
               memory()->rows != blame_watch.rows))
    blame_sample(step->worker);
}

static const struct loop_hooks hooks = {.before_op = memory_before_op, .after_op = after_op};
PASS_LOOP(blame_by_turns, hooks, LOOP_BY_TURNS)

static int launch(struct run *run, const struct run_spec *spec, struct error *error) {
  struct blame_figures *figures = run->figures;
  struct origin_names *names = run->own = calloc(1, sizeof *names);
  struct workload workload;
  if (!names)
    return error_set(error, spec->path, "out of memory");
  names->fd = -1;
  if (workload_open_fd(&workload, spec->workload_fd, spec->path, error) != 0)
    return -1;
  int status = blame_request_resolve(&figures->request, names, spec, &workload.header, error);
  workload_close(&workload);
  if (status == 0)
    status = memory_launch(run, spec, error);
  os_close(names->fd);
  if (status != 0)
    json_decref(names->json);
  return status;
}

static void report(json_t *into, const struct run *run) {
  struct origin_names *names = run->own;
  memory_report(into, run);
  if (!run->spec->baseline_only)
    blame_report(into, run, names->json);
  json_decref(names->json);
  names->json = NULL;
}

static const struct pass pass_blame = {
    .turn = 80,
    .name = "blame",
    .summary = "who holds the resident memory: by stack, function, thread, size, phase and age",
    .order = ORDER_RECORDED,
    .recorded_only = true,
    .repeats = ONCE,
    .exact = true,
    .samples_memory = true,
    .takes = TAKES_ORIGINS,
    .loops = {NULL, blame_by_turns},
    .figures_bytes = sizeof(struct blame_figures),
    .setup = setup,
    .begin = begin,
    .time_passes = memory_time_passes,
    .end = end,
    .launch = launch,
    .report = report,
    .counts = "resident bytes",
    .counted = memory_counted,
};
REGISTER_PASS(pass_blame);

enum { DEFAULT_POSITIONS = 64 };

static int load_json(struct origin_names *names, const struct origins *origins, struct error *error) {
  json_error_t wrong;
  uint64_t offset = origins->header.file_bytes - origins->header.json_bytes;
  names->json = json_loadb(origins->json, origins->header.json_bytes, 0, &wrong);
  if (!names->json)
    return error_at(error, origins->path, offset + (wrong.position > 0 ? (uint64_t)wrong.position : 0),
                    "invalid JSON: %s", wrong.text);
  if (json_array_size(json_object_get(names->json, "sites")) != origins->header.sites ||
      json_array_size(json_object_get(names->json, "functions")) != origins->header.functions ||
      json_array_size(json_object_get(names->json, "marks")) != origins->header.marks)
    return error_at(error, origins->path, offset,
                    "its JSON and its tables do not have the same sites, functions or marks");
  return 0;
}

static int origin_names_open(struct origin_names *names, const char *path, const struct workload_header *workload,
                             struct error *error) {
  *names = (struct origin_names){.fd = -1};
  if (!path)
    return 0;
  /* Not closed on exec: the engine maps it. */
  names->fd = open(path, O_RDONLY);
  if (names->fd < 0)
    return error_errno(error, path, "can't open");
  struct origins origins;
  if (origins_open_fd(&origins, names->fd, path, workload, error) != 0)
    return -1;
  int status = origins_check_sites(&origins, error);
  if (status == 0)
    status = load_json(names, &origins, error);
  origins_close(&origins);
  return status;
}

static bool is_position(const char *text, uint64_t *position) {
  char *end;
  errno = 0;
  *position = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

static int find_mark(const char *text, const json_t *marks, uint64_t *position) {
  size_t index;
  const json_t *mark;
  json_array_foreach(marks, index, mark) {
    const char *name = json_string_value(json_object_get(mark, "name"));
    if (!name || strcmp(name, text) != 0)
      continue;
    *position = (uint64_t)json_integer_value(json_object_get(mark, "position"));
    return 0;
  }
  return -1;
}

/* Adds the position in rising order, each once. The end is added elsewhere. */
static void add_requested(struct blame_request *request, struct requested_position added, uint64_t ops) {
  if (added.position == ops) {
    request->end_why |= added.why;
    return;
  }
  uint32_t place = request->requested_count;
  while (place > 0 && request->requested[place - 1].position > added.position)
    place--;
  if (place > 0 && request->requested[place - 1].position == added.position) {
    request->requested[place - 1].why |= added.why;
    return;
  }
  memmove(&request->requested[place + 1], &request->requested[place],
          (request->requested_count - place) * sizeof *request->requested);
  request->requested[place] = added;
  request->requested_count++;
}

static int resolve_positions(struct blame_request *request, const struct run_spec *spec,
                             const struct workload_header *workload, const json_t *marks, struct error *error) {
  for (uint32_t index = 0; index < spec->at.count; index++) {
    const char *text = spec->at.texts[index];
    struct requested_position added = {.why = BLAME_BECAUSE_REQUESTED};
    if (strcmp(text, "peak") == 0)
      continue;
    if (strcmp(text, "end") == 0)
      added.position = workload->ops;
    else if (strcmp(text, "live-peak") == 0) /* the op that reaches it is in the header */
      added = (struct requested_position){workload->ops ? workload->peak_position + 1 : 0, BLAME_BECAUSE_LIVE_PEAK};
    else if (strncmp(text, "mark=", 5) == 0 && find_mark(text + 5, marks, &added.position) != 0)
      return error_set(error, spec->path, "no mark \"%s\"%s", text + 5, marks ? "" : ": marks need --origins");
    else if (strncmp(text, "mark=", 5) != 0)
      is_position(text, &added.position);
    if (added.position > workload->ops)
      return error_set(error, spec->path, "position %" PRIu64 " is beyond the end, %" PRIu64, added.position,
                       workload->ops);
    add_requested(request, added, workload->ops);
  }
  return 0;
}

int blame_request_resolve(struct blame_request *request, struct origin_names *names, const struct run_spec *spec,
                          const struct workload_header *workload, struct error *error) {
  request->even = spec->positions == UINT64_MAX ? DEFAULT_POSITIONS : (uint32_t)spec->positions;
  int status = origin_names_open(names, spec->origins, workload, error);
  request->origins_fd = names->fd;
  if (status == 0)
    status = resolve_positions(request, spec, workload, json_object_get(names->json, "marks"), error);
  return status;
}

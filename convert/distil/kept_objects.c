/* SPDX-License-Identifier: MIT */
#include "convert/distil/distil.h"

#include "core/base/os.h"
#include "core/base/split_mix.h"
#include "core/base/vector.h"
#include "core/trace/event.h"
#include "core/workload/workload_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Finds where the live bytes of each size class are highest: one position in each of a number of equal parts of a
   workload; and once where all live bytes are highest.

   A position is that of the op after which they are highest. An object is in the size class of its last request. A part
   in which a class does not change has no position for it. One walk; memory is O(slots + parts). Not thread-safe. */

enum { HIGH_OF_ALL = SIZE_CLASSES };

struct local_peak {
  uint64_t position;
  unsigned class; /* HIGH_OF_ALL: all live bytes */
};

struct local_peaks {
  VECTOR(struct local_peak) at; /* by position */
};

/* Bytes of a class in the current part. */
struct class_bytes {
  uint64_t live, highest, position;
  bool changed;
};

struct finding {
  struct local_peaks *highs;
  struct op_walk walk;
  uint64_t *slot_bytes;
  uint64_t slots_bytes, ops, parts, part;
  struct class_bytes classes[SIZE_CLASSES], all;
};

static int add_local_peak(struct finding *finding, struct class_bytes *of, unsigned class) {
  if (!of->changed)
    return 0;
  struct local_peak *high = vector_add(&finding->highs->at);
  if (!high)
    return -1;
  *high = (struct local_peak){of->position, class};
  of->changed = false;
  return 0;
}

static int end_part(struct finding *finding) {
  int result = 0;
  for (unsigned class = 0; class < SIZE_CLASSES && result == 0; class ++)
    result = add_local_peak(finding, &finding->classes[class], class);
  return result;
}

static void note(struct class_bytes *of, uint64_t position) {
  if (of->changed && of->live <= of->highest)
    return;
  *of = (struct class_bytes){of->live, of->live, position, true};
}

static void take_highs_op(struct finding *finding) {
  const struct op_walk *walk = &finding->walk;
  const struct workload_ops_op *op = &walk->ops.op;
  bool releases = walk->op.kind != HISTORY_ACQUIRE && op_walk_releases(walk);
  if (walk->op.kind == HISTORY_NOTHING || (walk->op.kind != HISTORY_ACQUIRE && !releases))
    return;
  uint64_t *bytes = &finding->slot_bytes[op->slot];
  struct class_bytes *before = &finding->classes[size_class(*bytes)], *after = before;
  if (releases) {
    before->live -= *bytes;
    finding->all.live -= *bytes;
  }
  if (walk->op.kind != HISTORY_RELEASE) {
    *bytes = walk->op.request_bytes;
    after = &finding->classes[size_class(*bytes)];
    after->live += *bytes;
    finding->all.live += *bytes;
  }
  if (releases)
    note(before, op->position);
  note(after, op->position);
  note(&finding->all, op->position);
}

static int compare(const void *left, const void *right) {
  const struct local_peak *a = left, *b = right;
  return COMPARE(a->position, b->position);
}

static uint64_t part_of(const struct finding *finding, uint64_t position) {
  return (uint64_t)((unsigned __int128)position * finding->parts / finding->ops);
}

static int find(struct finding *finding, struct error *error) {
  int got, added = 0;
  while (added == 0 && (got = op_walk_next(&finding->walk, error)) > 0) {
    uint64_t part = part_of(finding, finding->walk.ops.op.position);
    if (part != finding->part)
      added = end_part(finding);
    finding->part = part;
    take_highs_op(finding);
  }
  if (added == 0 && got < 0)
    return -1;
  if (added != 0 || end_part(finding) != 0 || add_local_peak(finding, &finding->all, HIGH_OF_ALL) != 0)
    return error_set(error, finding->walk.ops.workload->path, "out of memory");
  vector_sort(&finding->highs->at, compare);
  return 0;
}

/* parts: at least 1. Returns 0, or -1 with error. To be freed with free(highs.at.at) in either case. */
static int local_peaks_find(struct local_peaks *highs, const struct workload *workload, uint64_t parts,
                            struct error *error) {
  struct finding finding = {.highs = highs,
                            .ops = workload->header.ops ? workload->header.ops : 1,
                            .parts = parts,
                            .slots_bytes = (workload->header.slots + 1ull) * sizeof *finding.slot_bytes};
  *highs = (struct local_peaks){0};
  finding.slot_bytes = os_map(finding.slots_bytes, false);
  int result = op_walk_open(&finding.walk, workload, error);
  if (result == 0 && !finding.slot_bytes)
    result = error_set(error, workload->path, "out of memory");
  if (result == 0)
    result = find(&finding, error);
  op_walk_close(&finding.walk);
  os_unmap(finding.slot_bytes, finding.slots_bytes);
  return result;
}

/* A live object. It waits, in the list of its size class, until a rule selects it. Links are slots plus 1. */
struct waiting_slot {
  uint64_t number;
  uint32_t before, after;
  uint8_t class;
  bool waits;
};

struct choosing {
  struct kept_objects *kept;
  struct op_walk walk;
  struct local_peaks highs;
  struct waiting_slot *slots;
  uint64_t slots_bytes, waiting;
  uint32_t first[SIZE_CLASSES];
  size_t window; /* number in the plan: the first window that does not end before the op */
  size_t high;   /* the next one */
  struct accesses_reader accesses;
};

static uint64_t mixed(uint64_t value) {
  return split_mix(value + SPLIT_MIX_STEP);
}

/* For objects that no other rule selects: is it in their share? */
static bool is_in_share(const struct distil_plan *plan, uint64_t number, uint64_t request_bytes) {
  double share = request_bytes >= plan->large_bytes ? plan->large_share : plan->churn;
  return (double)(mixed(number ^ mixed(plan->seed)) >> 11) < share * 0x1p53;
}

static void mark(struct choosing *choosing, uint64_t number) {
  if (number / 8 < choosing->kept->marks_bytes)
    choosing->kept->marks[number / 8] |= (uint8_t)(1 << number % 8);
}

static void wait_in_class(struct choosing *choosing, uint32_t slot, unsigned class) {
  struct waiting_slot *waiting = &choosing->slots[slot];
  uint32_t *first = &choosing->first[class];
  waiting->class = (uint8_t) class;
  waiting->waits = true;
  waiting->before = 0;
  waiting->after = *first;
  if (*first)
    choosing->slots[*first - 1].before = slot + 1;
  *first = slot + 1;
  choosing->waiting++;
}

static void stop_waiting(struct choosing *choosing, uint32_t slot) {
  struct waiting_slot *waiting = &choosing->slots[slot];
  if (!waiting->waits)
    return;
  *(waiting->before ? &choosing->slots[waiting->before - 1].after : &choosing->first[waiting->class]) = waiting->after;
  if (waiting->after)
    choosing->slots[waiting->after - 1].before = waiting->before;
  waiting->waits = false;
  choosing->waiting--;
}

static void keep(struct choosing *choosing, uint32_t slot) {
  if (!choosing->slots[slot].waits)
    return;
  stop_waiting(choosing, slot);
  mark(choosing, choosing->slots[slot].number);
}

static void keep_class(struct choosing *choosing, unsigned class) {
  while (choosing->first[class])
    keep(choosing, choosing->first[class] - 1);
}

static void keep_all(struct choosing *choosing) {
  for (unsigned class = 0; class < SIZE_CLASSES && choosing->waiting > 0; class ++)
    keep_class(choosing, class);
}

/* The op gives the object a size; a new object is not in a list yet. */
static void take_size(struct choosing *choosing, bool wanted) {
  const struct op_walk *walk = &choosing->walk;
  uint32_t slot = walk->ops.op.slot;
  uint64_t bytes = walk->op.request_bytes, number = choosing->slots[slot].number;
  stop_waiting(choosing, slot);
  if (wanted || is_in_share(choosing->kept->plan, number, bytes))
    mark(choosing, number);
  else
    wait_in_class(choosing, slot, size_class(bytes));
}

static void take_op(struct choosing *choosing, bool in_window) {
  const struct op_walk *walk = &choosing->walk;
  uint32_t slot = walk->ops.op.slot;
  switch (walk->op.kind) {
  case HISTORY_NOTHING:
    if (in_window || is_in_share(choosing->kept->plan, walk->objects - 1, 0))
      mark(choosing, walk->objects - 1);
    break;
  case HISTORY_ACQUIRE:
    choosing->slots[slot] = (struct waiting_slot){.number = walk->objects - 1};
    take_size(choosing, in_window);
    break;
  case HISTORY_TOUCH:
  case HISTORY_MOVE:
    if (in_window)
      keep(choosing, slot);
    else if (choosing->slots[slot].waits && op_walk_releases(walk))
      take_size(choosing, false);
    break;
  case HISTORY_RELEASE:
    if (in_window)
      keep(choosing, slot);
    stop_waiting(choosing, slot);
    break;
  }
}

static void keep_at_highs(struct choosing *choosing) {
  const struct local_peaks *highs = &choosing->highs;
  uint64_t position = choosing->walk.ops.op.position;
  for (; choosing->high < highs->at.count && highs->at.at[choosing->high].position == position; choosing->high++) {
    unsigned class = highs->at.at[choosing->high].class;
    if (class == HIGH_OF_ALL)
      keep_all(choosing);
    else
      keep_class(choosing, class);
  }
}

static int keep_accessed(struct choosing *choosing, bool in_window, struct error *error) {
  uint32_t slots = choosing->walk.ops.workload->header.slots;
  struct access_item item;
  int got;
  while ((got = accesses_reader_before_call(&choosing->accesses, slots, &item, error)) > 0)
    if (in_window && item.kind == ACCESS_OBJECT)
      keep(choosing, (uint32_t)item.object);
  return got;
}

static int choose(struct choosing *choosing, const struct workload *workload, struct error *error) {
  const struct distil_plan *plan = choosing->kept->plan;
  if (plan->highs > 0 && local_peaks_find(&choosing->highs, workload, plan->highs, error) != 0)
    return -1;
  choosing->slots_bytes = (workload->header.slots + 1ull) * sizeof *choosing->slots;
  choosing->slots = os_map(choosing->slots_bytes, false);
  if (!choosing->slots)
    return error_set(error, workload->path, "out of memory");
  int got = op_walk_open(&choosing->walk, workload, error);
  if (got != 0)
    return got;
  while ((got = op_walk_next(&choosing->walk, error)) > 0) {
    bool in_window = distil_plan_has(plan, &choosing->window, choosing->walk.ops.op.position);
    if (in_window && plan->heap == HEAP_LIVE)
      keep_all(choosing);
    if (plan->accesses && keep_accessed(choosing, in_window, error) != 0)
      return -1;
    take_op(choosing, in_window);
    keep_at_highs(choosing);
  }
  return got;
}

/* A bit for each object; there are at most as many objects as ops. The space is allocated at once, since writing to a
   mapped file on a full disk raises a signal. */
static int make_marks(struct kept_objects *kept, const struct workload *workload, struct error *error) {
  kept->marks_bytes = workload->header.ops / 8 + 1;
  if (temporary_file_open(&kept->file, error) != 0)
    return -1;
  errno = posix_fallocate(kept->file.fd, 0, (off_t)kept->marks_bytes);
  if (errno != 0)
    return error_errno(error, "temporary file", "no room for a bit for each op");
  void *marks = mmap(NULL, kept->marks_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, kept->file.fd, 0);
  if (marks == MAP_FAILED)
    return error_errno(error, "temporary file", "can't map");
  kept->marks = marks;
  return 0;
}

int kept_objects_choose(struct kept_objects *kept, const struct workload *workload, const struct distil_plan *plan,
                        struct error *error) {
  *kept = (struct kept_objects){.plan = plan, .file.fd = -1};
  struct choosing choosing = {.kept = kept};
  int result = make_marks(kept, workload, error);
  if (result == 0 && plan->accesses)
    result = accesses_reader_open(&choosing.accesses, plan->accesses, error);
  if (result == 0) {
    result = choose(&choosing, workload, error);
    op_walk_close(&choosing.walk);
  }
  accesses_reader_close(&choosing.accesses);
  os_unmap(choosing.slots, choosing.slots_bytes);
  free(choosing.highs.at.at);
  return result;
}

void kept_objects_free(struct kept_objects *kept) {
  if (kept->marks)
    munmap(kept->marks, kept->marks_bytes);
  temporary_file_close(&kept->file);
}

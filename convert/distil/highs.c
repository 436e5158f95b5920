/* SPDX-License-Identifier: MIT */
#include "convert/distil/highs.h"

#include "convert/distil/object_walk.h"
#include "core/base/os.h"

#include <stdlib.h>

/* Bytes of a class in the current part. */
struct class_bytes {
  uint64_t live, highest, position;
  bool changed;
};

struct finding {
  struct highs *highs;
  struct object_walk walk;
  uint64_t *slot_bytes;
  uint64_t slots_bytes, ops, parts, part;
  struct class_bytes classes[SIZE_CLASSES], all;
};

static int add_high(struct finding *finding, struct class_bytes *of, unsigned class) {
  if (!of->changed)
    return 0;
  struct high *high = vector_add(&finding->highs->at);
  if (!high)
    return -1;
  *high = (struct high){of->position, class};
  of->changed = false;
  return 0;
}

static int end_part(struct finding *finding) {
  int result = 0;
  for (unsigned class = 0; class < SIZE_CLASSES && result == 0; class ++)
    result = add_high(finding, &finding->classes[class], class);
  return result;
}

static void note(struct class_bytes *of, uint64_t position) {
  if (of->changed && of->live <= of->highest)
    return;
  *of = (struct class_bytes){of->live, of->live, position, true};
}

static void take_op(struct finding *finding) {
  const struct object_walk *walk = &finding->walk;
  const struct workload_ops_op *op = &walk->ops.op;
  bool releases = walk->effect != OP_BIRTH && object_walk_releases(walk);
  if (walk->effect == OP_ALONE || (walk->effect != OP_BIRTH && !releases))
    return;
  uint64_t *bytes = &finding->slot_bytes[op->slot];
  struct class_bytes *before = &finding->classes[size_class(*bytes)], *after = before;
  if (releases) {
    before->live -= *bytes;
    finding->all.live -= *bytes;
  }
  if (walk->effect != OP_DEATH) {
    *bytes = object_walk_request_bytes(walk);
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
  const struct high *a = left, *b = right;
  return COMPARE(a->position, b->position);
}

static uint64_t part_of(const struct finding *finding, uint64_t position) {
  return (uint64_t)((unsigned __int128)position * finding->parts / finding->ops);
}

static int find(struct finding *finding, struct error *error) {
  int got, added = 0;
  while (added == 0 && (got = object_walk_next(&finding->walk, error)) > 0) {
    uint64_t part = part_of(finding, finding->walk.ops.op.position);
    if (part != finding->part)
      added = end_part(finding);
    finding->part = part;
    take_op(finding);
  }
  if (added == 0 && got < 0)
    return -1;
  if (added != 0 || end_part(finding) != 0 || add_high(finding, &finding->all, HIGH_OF_ALL) != 0)
    return error_set(error, finding->walk.ops.workload->path, "out of memory");
  vector_sort(&finding->highs->at, compare);
  return 0;
}

int highs_find(struct highs *highs, const struct workload *workload, uint64_t parts, struct error *error) {
  struct finding finding = {.highs = highs,
                            .ops = workload->header.ops ? workload->header.ops : 1,
                            .parts = parts,
                            .slots_bytes = (workload->header.slots + 1ull) * sizeof *finding.slot_bytes};
  *highs = (struct highs){0};
  finding.slot_bytes = os_map(finding.slots_bytes, false);
  int result = object_walk_open(&finding.walk, workload, error);
  if (result == 0 && !finding.slot_bytes)
    result = error_set(error, workload->path, "out of memory");
  if (result == 0)
    result = find(&finding, error);
  object_walk_close(&finding.walk);
  os_unmap(finding.slot_bytes, finding.slots_bytes);
  return result;
}

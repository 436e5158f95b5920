#include "convert/distil/kept_objects.h"

#include "convert/distil/object_walk.h"
#include "core/base/os.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* SplitMix64's mixing of its counter. */
static uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

/* Of the objects that need not be there. */
static bool is_of_the_share(const struct distil_plan *plan, uint64_t number, uint64_t request_bytes) {
  double share = request_bytes >= plan->large_bytes ? plan->large_share : plan->churn;
  return (double)(mixed(number ^ mixed(plan->seed)) >> 11) < share * 0x1p53;
}

/* Of an object born at position, or an op there, does a window or its warm-up have it by that alone? Positions rise. */
static bool is_in_window(struct kept_objects *kept, uint64_t position) {
  const struct distil_plan *plan = kept->plan;
  while (kept->window < plan->windows.count && position >= plan->windows.at[kept->window].end)
    kept->window++;
  return kept->window < plan->windows.count && position >= plan->windows.at[kept->window].begin;
}

static bool is_wanted_anyway(struct kept_objects *kept, uint64_t number, uint64_t position, uint64_t request_bytes) {
  return is_in_window(kept, position) || is_of_the_share(kept->plan, number, request_bytes);
}

static void next_number(struct kept_objects *kept) {
  if (fread(&kept->spanning, sizeof kept->spanning, 1, kept->numbers) != 1)
    kept->spanning = UINT64_MAX;
}

int kept_objects_rewind(struct kept_objects *kept) {
  kept->window = 0;
  if (kept->plan->objects)
    return 0;
  if (fflush(kept->numbers) != 0 || fseek(kept->numbers, 0, SEEK_SET) != 0)
    return -1;
  next_number(kept);
  return ferror(kept->numbers) ? -1 : 0;
}

bool kept_objects_wants(struct kept_objects *kept, uint64_t number, uint64_t position, uint64_t request_bytes) {
  if (kept->plan->objects)
    return number < kept->plan->object_count && kept->plan->objects[number];
  if (is_wanted_anyway(kept, number, position, request_bytes))
    return true;
  if (number != kept->spanning)
    return false;
  next_number(kept);
  return true;
}

/* The live objects that no window has yet, as a list in the order of their births; links are slots plus 1. */
struct waiting_slot {
  uint64_t number;
  uint32_t before, after;
  bool waits;
};

struct choosing {
  struct kept_objects *kept;
  struct object_walk walk;
  struct waiting_slot *slots;
  uint64_t slots_bytes;
  uint32_t first, last;
};

static void append(struct choosing *choosing, uint32_t slot, uint64_t number) {
  choosing->slots[slot] = (struct waiting_slot){.number = number, .before = choosing->last, .waits = true};
  if (choosing->last)
    choosing->slots[choosing->last - 1].after = slot + 1;
  else
    choosing->first = slot + 1;
  choosing->last = slot + 1;
}

static void take_out(struct choosing *choosing, uint32_t slot) {
  struct waiting_slot *waiting = &choosing->slots[slot];
  if (!waiting->waits)
    return;
  *(waiting->before ? &choosing->slots[waiting->before - 1].after : &choosing->first) = waiting->after;
  *(waiting->after ? &choosing->slots[waiting->after - 1].before : &choosing->last) = waiting->before;
  waiting->waits = false;
}

/* A window begins: what waits is live in it. A full disk shows when the file is read. */
static void keep_waiting(struct choosing *choosing) {
  for (uint32_t link = choosing->first; link; link = choosing->slots[link - 1].after) {
    choosing->slots[link - 1].waits = false;
    fwrite(&choosing->slots[link - 1].number, sizeof(uint64_t), 1, choosing->kept->numbers);
  }
  choosing->first = choosing->last = 0;
}

static void choose_by_op(struct choosing *choosing) {
  const struct workload_ops_op *op = &choosing->walk.ops.op;
  if (is_in_window(choosing->kept, op->position)) {
    keep_waiting(choosing);
    return;
  }
  uint64_t number = choosing->walk.objects - 1;
  if (choosing->walk.effect == OP_DEATH)
    take_out(choosing, op->slot);
  else if (choosing->walk.effect == OP_BIRTH &&
           !is_of_the_share(choosing->kept->plan, number, object_walk_request_bytes(&choosing->walk)))
    append(choosing, op->slot, number);
}

static int choose(struct choosing *choosing, const struct workload *workload, struct error *error) {
  choosing->slots_bytes = (workload->header.slots + 1ull) * sizeof *choosing->slots;
  choosing->slots = os_map(choosing->slots_bytes, false);
  if (!choosing->slots)
    return error_set(error, workload->path, "out of memory");
  int got = object_walk_open(&choosing->walk, workload, error);
  if (got != 0)
    return got;
  while ((got = object_walk_next(&choosing->walk, error)) > 0)
    choose_by_op(choosing);
  return got;
}

int kept_objects_choose(struct kept_objects *kept, const struct workload *workload, const struct distil_plan *plan,
                        struct error *error) {
  *kept = (struct kept_objects){.plan = plan};
  if (plan->objects)
    return 0;
  if (temporary_file_open(&kept->file, error) != 0)
    return -1;
  kept->numbers = fdopen(dup(kept->file.fd), "r+");
  if (!kept->numbers)
    return error_errno(error, "temporary file", "can't open");
  struct choosing choosing = {.kept = kept};
  int result = choose(&choosing, workload, error);
  object_walk_close(&choosing.walk);
  if (choosing.slots)
    os_unmap(choosing.slots, choosing.slots_bytes);
  if (result == 0 && (fflush(kept->numbers) != 0 || ferror(kept->numbers)))
    return error_errno(error, "temporary file", "can't write");
  return result;
}

void kept_objects_free(struct kept_objects *kept) {
  if (kept->plan->objects)
    return;
  if (kept->numbers)
    fclose(kept->numbers);
  temporary_file_close(&kept->file);
}

/* SPDX-License-Identifier: MIT */
/* Counts the same objects exactly and by samples of OS pages: over many placements, the samples' mean is near the exact
   figure, and everything is 0 once all objects are released. At other addresses the exact figures are the same. */
#include "core/base/split_mix.h"
#include "core/sharing/line_sharing.h"
#include "core/test/usual.h"

enum { OBJECTS = 20000, PLACEMENTS = 200, SAMPLED = 16, THREADS = 3, MOVES = 4 };

struct object {
  uint64_t offset, size_bytes;
  uint32_t thread;
};

static struct object objects[OBJECTS];
static struct line_sharing_counts counts;

static uint64_t random_number(void) {
  static uint64_t counter;
  return split_mix_next(&counter);
}

static void add_all(struct line_sharing *sharing, uint64_t base) {
  for (uint32_t i = 0; i < OBJECTS; i++) {
    if (line_sharing_add(sharing, i, base + objects[i].offset, objects[i].size_bytes, objects[i].thread) != 0)
      exit(1);
    line_sharing_after_op(sharing);
  }
}

static void remove_all(struct line_sharing *sharing) {
  for (uint32_t i = 0; i < OBJECTS; i++) {
    line_sharing_remove(sharing, i, objects[i].thread);
    line_sharing_after_op(sharing);
  }
}

/* Returns the counts after all objects were added; full: after they were removed again. */
static void run(uint64_t base, uint64_t sampled, struct line_sharing_counts *full) {
  counts = (struct line_sharing_counts){0};
  struct line_sharing *sharing = line_sharing_begin(&counts, 2 * OBJECTS, sampled);
  if (!sharing)
    exit(1);
  add_all(sharing, base);
  *full = counts;
  remove_all(sharing);
  line_sharing_end(sharing);
}

/* The lines of one move are empty before the next: the index drops them, and grows no further. */
static int moves(const struct line_sharing_counts *full) {
  int wrong = 0;
  counts = (struct line_sharing_counts){0};
  struct line_sharing *sharing = line_sharing_begin(&counts, (uint64_t)2 * MOVES * OBJECTS, 1);
  for (uint64_t i = 1; sharing && i <= MOVES; i++) {
    add_all(sharing, i << 40);
    wrong |= counts.shared_lines.now != full->shared_lines.now || counts.live_lines.now != full->live_lines.now ||
             counts.object_pairs.now != full->object_pairs.now || counts.pairs != i * full->pairs;
    remove_all(sharing);
    wrong |= counts.shared_lines.now || counts.live_lines.now || counts.object_pairs.now;
  }
  if (sharing)
    line_sharing_end(sharing);
  if (wrong)
    fprintf(stderr, "other addresses have other figures\n");
  return wrong | !sharing;
}

static int near(const char *what, double mean, double exact) {
  if (mean > 0.93 * exact && mean < 1.07 * exact)
    return 0;
  fprintf(stderr, "%s: %.0f on average by samples, %.0f exactly\n", what, mean, exact);
  return 1;
}

int main(void) {
  uint64_t offset = 0;
  for (uint32_t i = 0; i < OBJECTS; i++) {
    uint64_t size_bytes = random_number() % 100 == 0 ? random_number() % 9000 : 8 + random_number() % 120;
    objects[i] = (struct object){offset, size_bytes, (uint32_t)(random_number() % THREADS)};
    offset += (size_bytes + 15) / 16 * 16 + (random_number() % 6 ? 0 : 4096);
  }
  static struct line_sharing_counts full, sample;
  run(1 << 30, 1, &full);
  int moved = moves(&full);
  run(1 << 30, 1, &full);
  double shared_lines = 0, live_lines = 0, pairs = 0, shared_objects = 0;
  int failed = moved || counts.shared_lines.now || counts.live_lines.now || counts.object_pairs.now;
  for (uint64_t i = 0; i < PLACEMENTS; i++) {
    run((i + 1) << 30, SAMPLED, &sample);
    failed |= counts.shared_lines.now || counts.live_lines.now || counts.object_pairs.now;
    failed |= sample.objects != full.objects || counts.used_pairs != counts.pairs;
    shared_lines += (double)sample.shared_lines.now / PLACEMENTS;
    live_lines += (double)sample.live_lines.now / PLACEMENTS;
    pairs += (double)sample.pairs / PLACEMENTS;
    shared_objects += (double)sample.shared_objects / PLACEMENTS;
  }
  if (failed)
    fprintf(stderr, "something is left, or was counted differently\n");
  failed |= near("shared lines", shared_lines, (double)full.shared_lines.now);
  failed |= near("live lines", live_lines, (double)full.live_lines.now);
  failed |= near("pairs", pairs, (double)full.pairs);
  return failed | near("shared objects", shared_objects, (double)full.shared_objects);
}

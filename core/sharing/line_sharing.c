/* SPDX-License-Identifier: MIT */
#include "core/sharing/line_sharing.h"

#include "core/base/json.h"
#include "core/base/os.h"
#include "core/base/vector.h"

#include <stdlib.h>

enum {
  GROUP_LINES = 16, /* lines next to each other are looked up as one: allocators keep neighbours' objects close */
  CHUNK_BITS = 14,
  CHUNK_ITEMS = 1 << CHUNK_BITS,
  CHUNKS = 1 << 17,
  LEAST_INDEX = 1 << 12,
  PAIR_PROBES = 16,
  OS_PAGE_LINES = 64,   /* the unit of sampling: most objects are on one OS page */
  ALWAYS_FOLLOWED = 64, /* lines filled: larger objects are too few and too different to be sampled */
};
#define OBJECTS                                                                                                        \
  (((uint32_t)CHUNKS << CHUNK_BITS) - 1) /* numbers of objects are below that; a place fits in 32 bits                 \
                                          */

enum end_line { FIRST_LINE, LAST_LINE, END_LINES };

/* A live object. It is in the list of its first line and in that of its last, unless it fills them. The place of those
   lines is kept, so that a release needs no lookup: a group does not move while it has any object. */
struct resident {
  uint64_t filled;           /* lines that it fills, which are only counted */
  uint32_t group[END_LINES]; /* plus 1; 0: it is not on that line */
  uint32_t next[END_LINES];  /* on that line: a place, see below */
  uint32_t owner;
  uint32_t used_partners; /* objects of others that shared a line with it and were released by their owners */
  uint8_t line[END_LINES], size_class;
  bool shared;
};

/* Which objects are followed is stored separately: where OS pages are sampled, most objects are not followed, and need
   no access to the other data. */
struct chunk {
  uint64_t followed[CHUNK_ITEMS / 64];
  struct resident residents[CHUNK_ITEMS];
};

/* The objects on a line. first: a place, which is 2 x object + which of its lines this is + 1; 0: nothing. */
struct line {
  uint32_t first, owner; /* owner: of all residents, unless mixed */
  uint8_t residents;
  bool mixed;
};

struct group {
  uint64_t number;
  uint32_t lines_lived_on; /* while free: the next free group, plus 1 */
  struct line lines[GROUP_LINES];
};

struct line_sharing {
  struct line_sharing_counts *counts;
  struct chunk **chunks;            /* by object */
  struct group **groups;            /* in chunks */
  uint32_t group_count, free_group; /* free_group: plus 1 */
  uint32_t *index;                  /* of groups, by hash: plus 1 */
  uint32_t index_size, index_used;
  uint64_t row_peak, row_ops_left;
};

static inline struct resident *resident_at(const struct line_sharing *sharing, uint32_t object) {
  return &sharing->chunks[object >> CHUNK_BITS]->residents[object & (CHUNK_ITEMS - 1)];
}

static inline bool is_followed(const struct line_sharing *sharing, uint32_t object) {
  const struct chunk *chunk = sharing->chunks[object >> CHUNK_BITS];
  return chunk && (chunk->followed[object % CHUNK_ITEMS / 64] >> object % 64 & 1);
}

static inline void set_followed(struct line_sharing *sharing, uint32_t object, bool followed) {
  uint64_t *word = &sharing->chunks[object >> CHUNK_BITS]->followed[object % CHUNK_ITEMS / 64];
  *word = (*word & ~(1ull << object % 64)) | (uint64_t)followed << object % 64;
}

static inline struct group *group_at(const struct line_sharing *sharing, uint32_t number) {
  return &sharing->groups[(number - 1) >> CHUNK_BITS][(number - 1) & (CHUNK_ITEMS - 1)];
}

static inline struct resident *resident_in(const struct line_sharing *sharing, uint32_t place) {
  return resident_at(sharing, (place - 1) >> 1);
}

static inline uint32_t after(const struct line_sharing *sharing, uint32_t place) {
  return resident_in(sharing, place)->next[(place - 1) & 1];
}

static inline uint32_t hash(uint64_t group, uint32_t size) {
  return (uint32_t)(group * 0x9e3779b97f4a7c15u >> 32) & (size - 1);
}

static void index_put(struct line_sharing *sharing, uint32_t number) {
  uint32_t at = hash(group_at(sharing, number)->number, sharing->index_size);
  while (sharing->index[at])
    at = (at + 1) & (sharing->index_size - 1);
  sharing->index[at] = number;
  sharing->index_used++;
}

/* Drops the groups that have become empty. Until then they are left in the index: most fill again soon. */
static bool index_rebuild(struct line_sharing *sharing) {
  uint32_t *old = sharing->index, old_size = sharing->index_size, kept = 0;
  for (uint32_t at = 0; at < old_size; at++)
    kept += old[at] && group_at(sharing, old[at])->lines_lived_on > 0;
  uint32_t size = LEAST_INDEX;
  while (size < 1u << 31 && size / 4 < kept + 1)
    size *= 2;
  uint32_t *index = os_map((size_t)size * sizeof *index, false);
  if (!index)
    return false;
  sharing->index = index;
  sharing->index_size = size;
  sharing->index_used = 0;
  for (uint32_t at = 0; at < old_size; at++) {
    if (!old[at])
      continue;
    struct group *group = group_at(sharing, old[at]);
    if (group->lines_lived_on > 0) {
      index_put(sharing, old[at]);
    } else {
      group->lines_lived_on = sharing->free_group;
      sharing->free_group = old[at];
    }
  }
  if (old)
    os_unmap(old, (size_t)old_size * sizeof *old);
  return true;
}

/* Plus 1; 0: there is none. */
static inline uint32_t find_group(struct line_sharing *sharing, uint64_t number) {
  uint32_t at = hash(number, sharing->index_size), found;
  while ((found = sharing->index[at]) && group_at(sharing, found)->number != number)
    at = (at + 1) & (sharing->index_size - 1);
  return found;
}

/* Returns the number of an unused group; 0: no memory. */
static uint32_t take_group(struct line_sharing *sharing) {
  uint32_t taken = sharing->free_group;
  if (taken) {
    sharing->free_group = group_at(sharing, taken)->lines_lived_on;
    return taken;
  }
  uint32_t chunk = sharing->group_count >> CHUNK_BITS;
  if (chunk == CHUNKS)
    return 0;
  if (!sharing->groups[chunk])
    sharing->groups[chunk] = os_map(CHUNK_ITEMS * sizeof **sharing->groups, false);
  return sharing->groups[chunk] ? ++sharing->group_count : 0;
}

/* Plus 1; 0: no memory. */
static __attribute__((noinline)) uint32_t make_group(struct line_sharing *sharing, uint64_t number) {
  if (sharing->index_used >= sharing->index_size / 2 && !index_rebuild(sharing))
    return 0;
  uint32_t taken = take_group(sharing);
  if (!taken)
    return 0;
  *group_at(sharing, taken) = (struct group){.number = number};
  index_put(sharing, taken);
  return taken;
}

/* Searches only a few places: with more pairs than places a full search each time would cost more than all other work.
   Entries are never removed, so that a pair is either found each time or left out each time. */
static struct line_sharing_threads *threads_of(struct line_sharing_counts *counts, uint32_t a, uint32_t b) {
  uint32_t first = a < b ? a : b, second = a < b ? b : a;
  uint64_t home = ((uint64_t)first << 32 | second) * 0x9e3779b97f4a7c15u >> 40;
  for (unsigned probe = 0; probe < PAIR_PROBES; probe++) {
    struct line_sharing_threads *found = &counts->threads[(home + probe) % LINE_SHARING_PAIRS];
    if (found->pairs == 0)
      *found = (struct line_sharing_threads){.first = first, .second = second};
    if (found->first == first && found->second == second)
      return found;
  }
  return NULL;
}

static void pair_begins(struct line_sharing_counts *counts, uint32_t a, uint32_t b) {
  counts->pairs += counts->sampled;
  counts->object_pairs.now += counts->sampled;
  struct line_sharing_threads *threads = threads_of(counts, a, b);
  if (!threads) {
    counts->threads_left_out += counts->sampled;
    return;
  }
  threads->pairs += counts->sampled;
  threads->now += counts->sampled;
  threads->sum -= counts->sampled * counts->ops;
}

static void pair_ends(struct line_sharing_counts *counts, uint32_t a, uint32_t b) {
  counts->object_pairs.now -= counts->sampled;
  struct line_sharing_threads *threads = threads_of(counts, a, b);
  if (threads && threads->now > 0) {
    threads->now -= counts->sampled;
    threads->sum += counts->sampled * counts->ops;
  }
}

/* The resident shares a line with one more object of another thread. */
static void mark_shared(struct line_sharing_counts *counts, struct resident *resident) {
  struct line_sharing_size *size = &counts->sizes[resident->size_class];
  size->pairs += counts->sampled;
  if (!resident->shared) {
    size->shared_objects += counts->sampled;
    counts->shared_objects += counts->sampled;
    resident->shared = true;
  }
}

/* The newcomer joins a line that has objects of other threads. */
static void join(struct line_sharing *sharing, struct line *line, struct resident *newcomer) {
  struct line_sharing_counts *counts = sharing->counts;
  counts->shared_lines.now += line->mixed ? 0 : counts->sampled;
  line->mixed = true;
  for (uint32_t place = line->first; place; place = after(sharing, place)) {
    struct resident *neighbour = resident_in(sharing, place);
    if (neighbour->owner != newcomer->owner) {
      pair_begins(counts, newcomer->owner, neighbour->owner);
      mark_shared(counts, newcomer);
      mark_shared(counts, neighbour);
    }
  }
}

static int enter(struct line_sharing *sharing, uint64_t number, uint32_t object, enum end_line end) {
  uint32_t place = find_group(sharing, number / GROUP_LINES);
  if (!place && !(place = make_group(sharing, number / GROUP_LINES)))
    return -1;
  struct group *group = group_at(sharing, place);
  struct resident *resident = resident_at(sharing, object);
  struct line *line = &group->lines[number % GROUP_LINES];
  if (line->residents == 0) {
    group->lines_lived_on++;
    sharing->counts->live_lines.now += sharing->counts->sampled;
    line->owner = resident->owner;
  } else if (line->residents == LINE_OBJECTS) {
    sharing->counts->objects_left_out++;
    return 0;
  } else if (line->mixed || line->owner != resident->owner) {
    join(sharing, line, resident);
  }
  resident->group[end] = place;
  resident->line[end] = number % GROUP_LINES;
  resident->next[end] = line->first;
  line->first = 2 * object + end + 1;
  line->residents++;
  return 0;
}

/* Ends the leaver's pairs, and notes in each partner whether the leaver was released by its owner. */
static void part(struct line_sharing *sharing, struct line *line, const struct resident *leaver, bool by_owner) {
  struct line_sharing_counts *counts = sharing->counts;
  line->owner = resident_in(sharing, line->first)->owner;
  line->mixed = false;
  for (uint32_t place = line->first; place; place = after(sharing, place)) {
    struct resident *neighbour = resident_in(sharing, place);
    line->mixed |= neighbour->owner != line->owner;
    if (neighbour->owner != leaver->owner) {
      pair_ends(counts, leaver->owner, neighbour->owner);
      neighbour->used_partners += by_owner;
    }
  }
  counts->shared_lines.now -= line->mixed ? 0 : counts->sampled;
}

static void leave(struct line_sharing *sharing, uint32_t object, enum end_line end, bool by_owner) {
  struct resident *leaver = resident_at(sharing, object);
  struct group *group = group_at(sharing, leaver->group[end]);
  struct line *line = &group->lines[leaver->line[end]];
  uint32_t *link = &line->first;
  for (uint32_t place = 2 * object + end + 1; *link != place;)
    link = &resident_in(sharing, *link)->next[(*link - 1) & 1];
  *link = leaver->next[end];
  if (--line->residents == 0) {
    group->lines_lived_on--;
    sharing->counts->live_lines.now -= sharing->counts->sampled;
  } else if (line->mixed) {
    part(sharing, line, leaver, by_owner);
  }
}

static inline unsigned size_class_of(uint64_t size_bytes) {
  unsigned class = size_bytes <= 8 ? 0 : 61 - (unsigned)__builtin_clzll(size_bytes - 1);
  return class < LINE_SHARING_SIZES ? class : LINE_SHARING_SIZES - 1;
}

static __attribute__((noinline)) bool make_residents(struct line_sharing *sharing, uint32_t chunk) {
  sharing->chunks[chunk] = os_map(sizeof **sharing->chunks, false);
  return sharing->chunks[chunk] != NULL;
}

static inline bool is_sampled(const struct line_sharing *sharing, uint64_t line) {
  return ((line / OS_PAGE_LINES * 0x9e3779b97f4a7c15u) >> 40 & (sharing->counts->sampled - 1)) == 0;
}

/* The lines that an object is on, and which of them it does not fill. */
struct extent {
  uint64_t first, last, filled;
  bool partly_first, partly_last; /* where it is on one line only: partly_first */
};

static inline struct extent extent_of(uint64_t address, uint64_t size_bytes) {
  uint64_t end = address + size_bytes - 1;
  end = end < address ? UINT64_MAX : end;
  struct extent extent = {.first = address / LINE_BYTES, .last = end / LINE_BYTES};
  bool one = extent.first == extent.last, ends_inside = end % LINE_BYTES != LINE_BYTES - 1;
  extent.partly_first = (address % LINE_BYTES != 0) | (one & ends_inside); /* no branches: addresses are random */
  extent.partly_last = !one & ends_inside;
  extent.filled = extent.last - extent.first + 1 - extent.partly_first - extent.partly_last;
  return extent;
}

int line_sharing_add(struct line_sharing *sharing, uint32_t object, uint64_t address, uint64_t size_bytes,
                     uint32_t thread) {
  struct line_sharing_counts *counts = sharing->counts;
  unsigned class = size_class_of(size_bytes);
  counts->objects++;
  counts->sizes[class].objects++;
  if (object >= OBJECTS) {
    counts->objects_left_out++;
    return 0;
  }
  if (is_followed(sharing, object))
    line_sharing_remove(sharing, object, thread);
  if (size_bytes == 0)
    return 0; /* has no bytes that could be written to */
  struct extent extent = extent_of(address, size_bytes);
  bool first = is_sampled(sharing, extent.first), last = is_sampled(sharing, extent.last);
  bool large = extent.filled >= ALWAYS_FOLLOWED;
  if (!first && !last && !large)
    return 0;
  if (!sharing->chunks[object >> CHUNK_BITS] && !make_residents(sharing, object >> CHUNK_BITS))
    return -1;
  set_followed(sharing, object, true);
  uint64_t filled = large ? extent.filled : first ? counts->sampled * extent.filled : 0;
  *resident_at(sharing, object) = (struct resident){.owner = thread, .size_class = (uint8_t) class, .filled = filled};
  counts->live_lines.now += filled;
  if (first && extent.partly_first && enter(sharing, extent.first, object, FIRST_LINE) != 0)
    return -1;
  return last && extent.partly_last ? enter(sharing, extent.last, object, LAST_LINE) : 0;
}

void line_sharing_remove(struct line_sharing *sharing, uint32_t object, uint32_t thread) {
  if (object >= OBJECTS || !is_followed(sharing, object))
    return;
  const struct resident *resident = resident_at(sharing, object);
  bool by_owner = resident->owner == thread;
  sharing->counts->live_lines.now -= resident->filled;
  if (resident->group[FIRST_LINE])
    leave(sharing, object, FIRST_LINE, by_owner);
  if (resident->group[LAST_LINE])
    leave(sharing, object, LAST_LINE, by_owner);
  if (by_owner)
    sharing->counts->used_pairs += sharing->counts->sampled * resident->used_partners;
  set_followed(sharing, object, false);
}

static inline void level_after_op(struct line_level *level, uint64_t position) {
  level->sum += level->now;
  if (level->now > level->peak) {
    level->peak = level->now;
    level->peak_position = position;
  }
}

/* Where there are more ops than were announced, the last row continues. */
static __attribute__((noinline)) void end_row(struct line_sharing *sharing) {
  struct line_sharing_counts *counts = sharing->counts;
  if (counts->row_count == LINE_SHARING_ROWS + 1)
    counts->row_count--;
  struct line_sharing_row *row = &counts->rows[counts->row_count++];
  uint64_t before = row->position ? row->shared_lines_peak : 0;
  *row = (struct line_sharing_row){.position = counts->ops,
                                   .shared_lines = counts->shared_lines.now,
                                   .object_pairs = counts->object_pairs.now,
                                   .live_lines = counts->live_lines.now,
                                   .shared_lines_peak = before > sharing->row_peak ? before : sharing->row_peak};
  sharing->row_peak = 0;
  sharing->row_ops_left = counts->row_ops;
}

void line_sharing_after_op(struct line_sharing *sharing) {
  struct line_sharing_counts *counts = sharing->counts;
  counts->ops++;
  level_after_op(&counts->shared_lines, counts->ops);
  level_after_op(&counts->object_pairs, counts->ops);
  level_after_op(&counts->live_lines, counts->ops);
  if (counts->shared_lines.now > sharing->row_peak)
    sharing->row_peak = counts->shared_lines.now;
  if (--sharing->row_ops_left == 0)
    end_row(sharing);
}

static void unmap_chunks(void **chunks, size_t chunk_bytes) {
  for (uint32_t chunk = 0; chunks && chunk < CHUNKS; chunk++)
    if (chunks[chunk])
      os_unmap(chunks[chunk], chunk_bytes);
  if (chunks)
    os_unmap(chunks, CHUNKS * sizeof *chunks);
}

static void free_all(struct line_sharing *sharing) {
  if (sharing->index)
    os_unmap(sharing->index, (size_t)sharing->index_size * sizeof *sharing->index);
  unmap_chunks((void **)sharing->chunks, sizeof **sharing->chunks);
  unmap_chunks((void **)sharing->groups, CHUNK_ITEMS * sizeof **sharing->groups);
  os_unmap(sharing, sizeof *sharing);
}

struct line_sharing *line_sharing_begin(struct line_sharing_counts *counts, uint64_t ops, uint64_t sampled) {
  struct line_sharing *sharing = os_map(sizeof *sharing, false);
  if (!sharing)
    return NULL;
  sharing->counts = counts;
  counts->sampled = sampled;
  sharing->row_ops_left = counts->row_ops = ops / LINE_SHARING_ROWS + 1;
  sharing->chunks = os_map(CHUNKS * sizeof *sharing->chunks, false);
  sharing->groups = os_map(CHUNKS * sizeof *sharing->groups, false);
  if (sharing->chunks && sharing->groups && index_rebuild(sharing))
    return sharing;
  free_all(sharing);
  return NULL;
}

void line_sharing_end(struct line_sharing *sharing) {
  struct line_sharing_counts *counts = sharing->counts;
  if (sharing->row_ops_left < counts->row_ops)
    end_row(sharing);
  for (unsigned i = 0; i < LINE_SHARING_PAIRS; i++)
    counts->threads[i].sum += counts->threads[i].now * counts->ops;
  free_all(sharing);
}

static double mean(uint64_t sum, uint64_t ops) {
  return ops ? (double)sum / (double)ops : 0;
}

static json_t *level_json(const struct line_level *level, uint64_t ops) {
  return json_pack("{s:o, s:o, s:o, s:f}", "end", json_unsigned(level->now), "peak", json_unsigned(level->peak),
                   "peak_position", json_unsigned(level->peak_position), "mean", mean(level->sum, ops));
}

static json_t *sizes_json(const struct line_sharing_counts *counts) {
  json_t *rows = json_array();
  for (unsigned class = 0; class < LINE_SHARING_SIZES; class ++) {
    const struct line_sharing_size *size = &counts->sizes[class];
    if (size->objects == 0)
      continue;
    json_t *up_to = class == LINE_SHARING_SIZES - 1 ? json_null() : json_unsigned(line_sharing_size_last(class));
    json_array_append_new(rows, json_pack("[o,o,o,o]", up_to, json_unsigned(size->objects),
                                          json_unsigned(size->shared_objects), json_unsigned(size->pairs)));
  }
  return rows;
}

static int most_pairs_first(const void *left, const void *right) {
  const struct line_sharing_threads *a = left, *b = right;
  return COMPARE(b->pairs, a->pairs) ?: COMPARE(a->first, b->first) ?: COMPARE(a->second, b->second);
}

static json_t *threads_json(struct line_sharing_counts *counts, uint64_t *left_out) {
  qsort(counts->threads, LINE_SHARING_PAIRS, sizeof *counts->threads, most_pairs_first);
  json_t *rows = json_array();
  *left_out = counts->threads_left_out;
  for (unsigned i = 0; i < LINE_SHARING_PAIRS && counts->threads[i].pairs; i++) {
    const struct line_sharing_threads *threads = &counts->threads[i];
    if (i >= LINE_SHARING_THREADS_LISTED)
      *left_out += threads->pairs;
    else
      json_array_append_new(rows, json_pack("[o,o,o,f]", json_unsigned(threads->first), json_unsigned(threads->second),
                                            json_unsigned(threads->pairs), mean(threads->sum, counts->ops)));
  }
  return rows;
}

static json_t *progress_json(const struct line_sharing_counts *counts) {
  json_t *rows = json_array();
  for (uint64_t i = 0; i < counts->row_count; i++) {
    const struct line_sharing_row *row = &counts->rows[i];
    json_array_append_new(rows, json_pack("[o,o,o,o,o]", json_unsigned(row->position), json_unsigned(row->shared_lines),
                                          json_unsigned(row->object_pairs), json_unsigned(row->live_lines),
                                          json_unsigned(row->shared_lines_peak)));
  }
  return rows;
}

json_t *line_sharing_json(struct line_sharing_counts *counts) {
  uint64_t left_out;
  json_t *threads = threads_json(counts, &left_out);
  return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "line_bytes",
                   LINE_BYTES, "sampled", json_unsigned(counts->sampled), "ops", json_unsigned(counts->ops), "objects",
                   json_unsigned(counts->objects), "shared_objects", json_unsigned(counts->shared_objects), "pairs",
                   json_unsigned(counts->pairs), "used_pairs", json_unsigned(counts->used_pairs), "objects_left_out",
                   json_unsigned(counts->objects_left_out), "shared_lines",
                   level_json(&counts->shared_lines, counts->ops), "object_pairs",
                   level_json(&counts->object_pairs, counts->ops), "live_lines",
                   level_json(&counts->live_lines, counts->ops), "sizes", sizes_json(counts), "threads", threads,
                   "threads_left_out", json_unsigned(left_out), "progress", progress_json(counts));
}

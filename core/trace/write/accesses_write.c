/* SPDX-License-Identifier: MIT */
#include "core/base/json.h"
#include "core/trace/write/trace_write.h"

#include "core/base/address_map.h"
#include "core/base/leb.h"
#include "core/trace/layout.h"
#include "core/trace/write/writer.h"

#include <errno.h>
#include <stdlib.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* A group: the granule accessed last, and the bytes of its entries. */
struct group {
  int64_t granule;
  uint32_t bytes;
};

/* A column whose entries are written group by group: collected in the rows' order. */
struct grouped {
  struct buffer entries; /* each one byte or a LEB */
  struct buffer of;      /* uint32_t: the group of each entry */
  struct buffer groups;  /* struct group */
};

/* The list of recent objects, in a form that is searched PLACES_AT_ONCE places at a time. All zero: empty. */
struct recent_objects {
  _Alignas(16) uint32_t places[RECENT_PLACES]; /* in order: low bits of the object's number above the number of its
                                                  slot */
  uint64_t objects[RECENT_PLACES];             /* by slot */
  uint32_t entries[RECENT_PLACES];
  uint32_t count;
};

enum { SLOT_BITS = 6, SLOT_MASK = RECENT_PLACES - 1, PLACES_AT_ONCE = 16 };
_Static_assert(RECENT_PLACES == 1 << SLOT_BITS && RECENT_PLACES % PLACES_AT_ONCE == 0, "a place holds a slot's number");

/* The block so far: rows and counts, and the columns once it is finished. columns[i].failed: out of memory. */
struct encoded_accesses {
  struct buffer columns[ACCESS_COLUMNS];
  uint32_t rows;
  uint64_t calls, objects, other;    /* rows of each sort */
  uint64_t first_acquired, acquired; /* call rows that acquired, before the block and after it */
};

/* Turns items of the stream of data accesses (core/trace/access_stream.h) into the columns of ACCESSES blocks
   (FORMAT.md section 6a), before compression. One encoder serves a whole trace, as objects are numbered over all
   blocks. Memory is twice one block's columns, and 4 bytes for each row. */
struct access_encoder {
  struct encoded_accesses block;
  uint64_t stack, page; /* of earlier rows: stack pointer divided by 8, page put into the list last */
  struct recent_objects objects;
  struct address_map pages; /* numbers of the block's OS pages, by page plus 1 */
  struct grouped offsets, steps;
  struct buffer starts; /* scratch memory of access_encoder_finish */
};

static struct access_encoder *access_encoder_new(void) {
  struct access_encoder *encoder = calloc(1, sizeof *encoder);
  if (!encoder || address_map_init(&encoder->pages))
    return encoder;
  free(encoder);
  return NULL;
}

void access_encoder_free(struct access_encoder *encoder) {
  if (!encoder)
    return;
  for (int id = 0; id < ACCESS_COLUMNS; id++)
    buffer_free(&encoder->block.columns[id]);
  address_map_free(&encoder->pages);
  struct grouped *grouped[] = {&encoder->offsets, &encoder->steps};
  for (int i = 0; i < 2; i++) {
    buffer_free(&grouped[i]->entries);
    buffer_free(&grouped[i]->of);
    buffer_free(&grouped[i]->groups);
  }
  buffer_free(&encoder->starts);
  free(encoder);
}

static void put_byte(struct access_encoder *encoder, enum access_column column, uint32_t value) {
  struct buffer *bytes = &encoder->block.columns[column];
  uint8_t *to = buffer_reserve(bytes, 1);
  if (!to)
    return;
  *to = (uint8_t)value;
  bytes->used++;
}

static void put_leb(struct access_encoder *encoder, enum access_column column, uint64_t value) {
  buffer_append_leb(&encoder->block.columns[column], value);
}

/* Returns the group; a new one is all zero. group: an earlier one, or the next. NULL: no memory. */
static struct group *find_group(struct grouped *column, uint32_t group) {
  static const struct group none;
  if (group == column->groups.used / sizeof none)
    buffer_append(&column->groups, &none, sizeof none);
  return column->groups.failed ? NULL : (struct group *)column->groups.bytes + group;
}

static void put_offset(struct access_encoder *encoder, uint32_t entry, int64_t granule) {
  struct grouped *column = &encoder->offsets;
  struct group *group = find_group(column, entry);
  if (!group)
    return;
  size_t before = column->entries.used;
  buffer_append_leb(&column->entries, zigzag(granule - group->granule));
  buffer_append(&column->of, &entry, sizeof entry);
  group->granule = granule;
  group->bytes += (uint32_t)(column->entries.used - before);
}

static void put_step(struct access_encoder *encoder, uint32_t page, int64_t granule) {
  struct grouped *column = &encoder->steps;
  struct group *group = find_group(column, page);
  if (!group)
    return;
  uint8_t step = (uint8_t)(granule - group->granule);
  buffer_append(&column->entries, &step, sizeof step);
  buffer_append(&column->of, &page, sizeof page);
  group->granule = granule;
  group->bytes++;
}

static uint32_t tag_of(uint64_t object) {
  return (uint32_t)object << SLOT_BITS;
}

/* Returns a bit for each of PLACES_AT_ONCE places, set where it has the tag. */
static uint32_t places_with(const uint32_t *places, uint32_t tag) {
#ifdef __SSE2__
  const __m128i *four = (const __m128i *)places, wanted = _mm_set1_epi32((int)tag), tags = _mm_set1_epi32(~SLOT_MASK);
  __m128i low = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_and_si128(four[0], tags), wanted),
                                _mm_cmpeq_epi32(_mm_and_si128(four[1], tags), wanted));
  __m128i high = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_and_si128(four[2], tags), wanted),
                                 _mm_cmpeq_epi32(_mm_and_si128(four[3], tags), wanted));
  return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high));
#else
  uint32_t found = 0;
  for (int i = 0; i < PLACES_AT_ONCE; i++)
    found |= (uint32_t)((places[i] & ~(uint32_t)SLOT_MASK) == tag) << i;
  return found;
#endif
}

/* The object's place; RECENT_PLACES: it is not in the list. */
static uint32_t find_recent(const struct recent_objects *list, uint64_t object) {
  if (list->count > 0 && list->objects[list->places[0] & SLOT_MASK] == object)
    return 0;
  for (uint32_t from = 0; from < list->count; from += PLACES_AT_ONCE)
    for (uint32_t found = places_with(list->places + from, tag_of(object)); found; found &= found - 1) {
      uint32_t place = from + (uint32_t)__builtin_ctz(found);
      if (place < list->count && list->objects[list->places[place] & SLOT_MASK] == object)
        return place;
    }
  return RECENT_PLACES;
}

/* Inserts an object at place 0; where the list is full, the last one is dropped. */
static void add_recent(struct recent_objects *list, uint64_t object, uint32_t entry) {
  uint32_t slot = list->count < RECENT_PLACES ? list->count++ : list->places[RECENT_PLACES - 1] & SLOT_MASK;
  recent_put_first(list->places, list->count - 1, tag_of(object) | slot);
  list->objects[slot] = object;
  list->entries[slot] = entry;
}

static bool encode_call(struct access_encoder *encoder, const struct access_item *item) {
  if (item->thread >= TRACE_MAX_THREADS)
    return false;
  uint64_t stack = item->stack_pointer >> 3;
  put_byte(encoder, ACCESS_COLUMN_WHAT, item->acquires ? ACCESS_CODE_ACQUIRED : ACCESS_CODE_CALL);
  put_leb(encoder, ACCESS_COLUMN_THREAD, item->thread);
  put_leb(encoder, ACCESS_COLUMN_STACK, zigzag((int64_t)(stack - encoder->stack)));
  encoder->stack = stack;
  encoder->block.acquired += item->acquires;
  encoder->block.calls++;
  return true;
}

static bool encode_object(struct access_encoder *encoder, const struct access_item *item) {
  struct recent_objects *list = &encoder->objects;
  if (item->object >= encoder->block.acquired || item->granule < -ACCESS_OBJECT_GRANULES ||
      item->granule >= ACCESS_OBJECT_GRANULES)
    return false;
  uint32_t place = find_recent(list, item->object);
  if (place < RECENT_PLACES) {
    put_byte(encoder, ACCESS_COLUMN_WHAT, ACCESS_CODE_RECENT_OBJECT + place);
    if (place > 0)
      recent_put_first(list->places, place, list->places[place]);
  } else {
    put_byte(encoder, ACCESS_COLUMN_WHAT, ACCESS_CODE_OBJECT);
    put_leb(encoder, ACCESS_COLUMN_OBJECT, encoder->block.acquired - item->object);
    add_recent(list, item->object, (uint32_t)(encoder->offsets.groups.used / sizeof(struct group)));
  }
  put_offset(encoder, list->entries[list->places[0] & SLOT_MASK], item->granule);
  encoder->block.objects++;
  return true;
}

static bool encode_other(struct access_encoder *encoder, const struct access_item *item) {
  uint64_t page = (uint64_t)item->granule / ACCESS_PAGE_GRANULES;
  if (page >= ACCESS_PAGES)
    return false;
  struct address_entry *entry = address_map_find(&encoder->pages, page + 1);
  uint32_t number = entry->address ? entry->slot : (uint32_t)encoder->pages.count;
  if (!entry->address) {
    if (!address_map_add(&encoder->pages, entry, page + 1, number, false))
      encoder->block.columns[ACCESS_COLUMN_PAGE].failed = true;
    put_byte(encoder, ACCESS_COLUMN_WHAT, ACCESS_CODE_PAGE);
    put_leb(encoder, ACCESS_COLUMN_PAGE, zigzag((int64_t)(page - encoder->page)));
    encoder->page = page;
  } else if (number < ACCESS_NEAR_PAGES) {
    put_byte(encoder, ACCESS_COLUMN_WHAT, ACCESS_CODE_KNOWN_PAGE + number);
  } else {
    put_byte(encoder, ACCESS_COLUMN_WHAT, ACCESS_CODE_FAR_PAGE);
    put_leb(encoder, ACCESS_COLUMN_FAR_PAGE, number - ACCESS_NEAR_PAGES);
  }
  put_step(encoder, number, item->granule);
  encoder->block.other++;
  return true;
}

/* Adds a row to the block; not for totals, nor beyond TRACE_MAX_ROWS. False, and nothing has changed, if the format
   can't hold the item. */
static bool access_encode(struct access_encoder *encoder, const struct access_item *item) {
  bool held;
  switch (item->kind) {
  case ACCESS_EVENT:
    held = encode_call(encoder, item);
    break;
  case ACCESS_OBJECT:
    held = encode_object(encoder, item);
    break;
  case ACCESS_OTHER:
    held = encode_other(encoder, item);
    break;
  default:
    held = false;
  }
  encoder->block.rows += held;
  return held;
}

/* Writes a column's entries to `to`, sorted by their groups, stable. starts: memory for the place of each group. */
static void write_grouped(const struct grouped *from, bool is_leb, struct buffer *starts, struct buffer *to) {
  const uint32_t *of = (const uint32_t *)from->of.bytes;
  const struct group *groups = (const struct group *)from->groups.bytes;
  size_t count = from->of.used / sizeof *of, group_count = from->groups.used / sizeof *groups;
  starts->used = to->used = 0;
  uint32_t *places = (uint32_t *)buffer_reserve(starts, group_count * sizeof *places + 1);
  uint8_t *bytes = buffer_reserve(to, from->entries.used + 1);
  to->failed |= !places || from->entries.failed || from->of.failed || from->groups.failed;
  if (to->failed)
    return;
  for (size_t group = 0, place = 0; group < group_count; group++) {
    places[group] = (uint32_t)place;
    place += groups[group].bytes;
  }
  const uint8_t *entry = from->entries.bytes;
  for (size_t i = 0; i < count; i++) {
    uint32_t place = places[of[i]];
    uint8_t byte;
    do
      bytes[place++] = byte = *entry++;
    while (is_leb && byte >= 0x80);
    places[of[i]] = place;
  }
  to->used = from->entries.used;
}

static const struct encoded_accesses *access_encoder_finish(struct access_encoder *encoder) {
  struct buffer *columns = encoder->block.columns;
  write_grouped(&encoder->offsets, true, &encoder->starts, &columns[ACCESS_COLUMN_OFFSET]);
  write_grouped(&encoder->steps, false, &encoder->starts, &columns[ACCESS_COLUMN_STEP]);
  return &encoder->block;
}

static void access_encoder_next_block(struct access_encoder *encoder) {
  struct encoded_accesses *block = &encoder->block;
  for (int id = 0; id < ACCESS_COLUMNS; id++)
    block->columns[id].used = 0;
  block->rows = 0;
  block->calls = block->objects = block->other = 0;
  block->first_acquired = block->acquired;
  encoder->stack = encoder->page = 0;
  encoder->objects.count = 0;
  struct grouped *grouped[] = {&encoder->offsets, &encoder->steps};
  for (int i = 0; i < 2; i++)
    grouped[i]->entries.used = grouped[i]->of.used = grouped[i]->groups.used = 0;
  address_map_clear(&encoder->pages);
}

/* The lowest level used. Measured on recordings of perl, python3 and sqlite3 (docs/measurements/capture.md): 7 takes 2
   to 3 % fewer bytes and a seventh more instructions, 5 takes 3 to 5 % more bytes; 12 takes six times as long. */
enum { ACCESSES_ZSTD_LEVEL = 6 };

int trace_writer_accesses_begin(struct trace_writer *writer) {
  writer->totals.accesses.recorded = true;
  if (!writer->accesses && !(writer->accesses = access_encoder_new()))
    return writer_fail(writer, ENOMEM);
  return 0;
}

/* Called before the rows around the switches are written, so that no row is read without them. */
static int flush_switches(struct trace_writer *writer) {
  struct trace_access_totals *totals = &writer->totals.accesses;
  if (writer->switch_count == 0)
    return 0;
  if (writer->switch_column.failed)
    return writer_fail(writer, ENOMEM);
  struct column column = column_of(BURST_COLUMN_ROWS, writer->switch_column.bytes, writer->switch_column.used);
  struct block_header header = {.type = BLOCK_BURSTS,
                                .rows = writer->switch_count,
                                .first_stamp = totals->switches,
                                .last_stamp = totals->switches + writer->switch_count};
  if (write_block(writer, &header, &column, 1) != 0)
    return -1;
  totals->switches = header.last_stamp;
  writer->switch_column.used = 0;
  writer->switch_row = writer->switch_count = 0;
  writer->totals.file_bytes = writer->offset;
  return 0;
}

static int add_switch(struct trace_writer *writer, bool begins) {
  const struct trace_access_totals *totals = &writer->totals.accesses;
  uint64_t row = totals->calls + totals->objects + totals->other + writer->accesses->block.rows;
  if (((totals->switches + writer->switch_count) % 2 == 0) != begins)
    return 0;
  if (writer->switch_count == TRACE_MAX_ROWS && flush_accesses(writer) != 0)
    return -1;
  buffer_append_leb(&writer->switch_column, row - writer->switch_row);
  writer->switch_row = row;
  writer->switch_count++;
  return 0;
}

int flush_accesses(struct trace_writer *writer) {
  if (flush_switches(writer) != 0)
    return -1;
  if (!writer->accesses || writer->accesses->block.rows == 0)
    return 0;
  const struct encoded_accesses *block = access_encoder_finish(writer->accesses);
  struct column columns[ACCESS_COLUMNS - 1];
  for (uint8_t id = 1; id < ACCESS_COLUMNS; id++) {
    if (block->columns[id].failed)
      return writer_fail(writer, ENOMEM);
    columns[id - 1] = column_of(id, block->columns[id].bytes, block->columns[id].used);
  }
  struct block_header header = {
      .type = BLOCK_ACCESSES, .rows = block->rows, .first_stamp = block->first_acquired, .last_stamp = block->acquired};
  if (writer->zstd_level < ACCESSES_ZSTD_LEVEL)
    ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, ACCESSES_ZSTD_LEVEL);
  int result = write_block(writer, &header, columns, ACCESS_COLUMNS - 1);
  ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, writer->zstd_level);
  if (result != 0)
    return -1;
  struct trace_access_totals *totals = &writer->totals.accesses;
  totals->calls += block->calls;
  totals->objects += block->objects;
  totals->other += block->other;
  access_encoder_next_block(writer->accesses);
  writer->totals.accesses.pending = 0;
  writer->totals.file_bytes = writer->offset;
  return 0;
}

void lose_accesses(struct trace_writer *writer) {
  if (!writer->accesses)
    return;
  writer->totals.accesses.lost += writer->accesses->block.rows;
  access_encoder_next_block(writer->accesses);
  writer->totals.accesses.pending = 0;
  writer->switch_count = 0;
}

int trace_writer_access(struct trace_writer *writer, const struct access_item *item) {
  struct trace_access_totals *totals = &writer->totals.accesses;
  if (!writer->accesses && trace_writer_accesses_begin(writer) != 0)
    return -1;
  if (item->kind == ACCESS_TOTAL) {
    if (item->total >= ACCESS_TOTAL_LIMIT || item->value > INT64_MAX)
      return 1;
    totals->counted[item->total] = item->value;
    totals->known[item->total] = true;
    return 0;
  }
  if (writer->saved_errno) {
    totals->lost++;
    return -1;
  }
  if (item->kind == ACCESS_BURST) {
    totals->in_bursts = true;
    return add_switch(writer, item->value != 0);
  }
  if (totals->in_bursts && item->kind != ACCESS_EVENT && (totals->switches + writer->switch_count) % 2 == 0)
    return 1;
  if (totals->pending == TRACE_MAX_ROWS && flush_accesses(writer) != 0)
    return -1;
  if (!access_encode(writer->accesses, item))
    return 1;
  totals->pending++;
  return 0;
}

json_t *footer_accesses(const struct trace_writer *writer) {
  const struct trace_access_totals *totals = &writer->totals.accesses;
  if (!totals->recorded)
    return NULL;
  json_t *accesses = json_pack("{sI sI sI}", "calls", (json_int_t)totals->calls, "objects", (json_int_t)totals->objects,
                               "other", (json_int_t)totals->other);
  for (int total = 0; accesses && total < ACCESS_TOTAL_LIMIT; total++)
    if (totals->known[total])
      json_set_count(accesses, access_total_names[total], totals->counted[total]);
  if (accesses && totals->in_bursts)
    json_set_count(accesses, "bursts", (totals->switches + 1) / 2);
  if (accesses && totals->lost)
    json_set_count(accesses, "lost", totals->lost);
  return accesses;
}

#include "core/trace/write/accesses_encode.h"

#include "core/base/address_map.h"
#include "core/base/leb.h"
#include "core/trace/accesses.h"

#include <stdlib.h>
#include <string.h>

/* A column whose entries are written group by group: collected in the rows' order. */
struct grouped {
  struct buffer entries; /* each one byte or a LEB */
  struct buffer groups;  /* uint32_t: of each entry */
  struct buffer last;    /* int64_t: of each group its granule accessed last */
};

struct access_encoder {
  struct encoded_accesses block;
  uint64_t stack, page; /* of the rows before: stack pointer divided by 8, page put into the list */
  struct recent_list objects;
  struct address_map pages; /* numbers of the block's OS pages, by page plus 1 */
  struct grouped offsets, steps;
  struct buffer starts; /* of access_encoder_finish */
};

struct access_encoder *access_encoder_new(void) {
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
    buffer_free(&grouped[i]->groups);
    buffer_free(&grouped[i]->last);
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

/* The group's granule so far, a new group's being 0; afterwards granule. The group is one of those before or the next.
 */
static int64_t replace_last(struct grouped *column, uint32_t group, int64_t granule) {
  static const int64_t none;
  if (group == column->last.used / sizeof none)
    buffer_append(&column->last, &none, sizeof none);
  if (column->last.failed)
    return 0;
  int64_t *last = (int64_t *)column->last.bytes + group, before = *last;
  *last = granule;
  return before;
}

static void put_offset(struct access_encoder *encoder, uint32_t entry, int64_t granule) {
  struct grouped *column = &encoder->offsets;
  buffer_append_leb(&column->entries, zigzag(granule - replace_last(column, entry, granule)));
  buffer_append(&column->groups, &entry, sizeof entry);
}

static void put_step(struct access_encoder *encoder, uint32_t page, int64_t granule) {
  struct grouped *column = &encoder->steps;
  uint8_t step = (uint8_t)(granule - replace_last(column, page, granule));
  buffer_append(&column->entries, &step, sizeof step);
  buffer_append(&column->groups, &page, sizeof page);
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
  struct recent_list *list = &encoder->objects;
  if (item->object >= encoder->block.acquired || item->granule < -ACCESS_OBJECT_GRANULES ||
      item->granule >= ACCESS_OBJECT_GRANULES)
    return false;
  uint32_t place = recent_find(list, item->object);
  if (place < RECENT_PLACES) {
    put_byte(encoder, ACCESS_COLUMN_WHAT, ACCESS_CODE_RECENT_OBJECT + place);
    recent_use(list, place);
  } else {
    put_byte(encoder, ACCESS_COLUMN_WHAT, ACCESS_CODE_OBJECT);
    put_leb(encoder, ACCESS_COLUMN_OBJECT, encoder->block.acquired - item->object);
    recent_add(list, item->object, (uint32_t)(encoder->offsets.last.used / sizeof(int64_t)));
  }
  put_offset(encoder, list->entries[0], item->granule);
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

bool access_encode(struct access_encoder *encoder, const struct access_item *item) {
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

const struct encoded_accesses *access_encoder_block(const struct access_encoder *encoder) {
  return &encoder->block;
}

/* The bytes of the entry there. */
static uint32_t entry_bytes(const uint8_t *at, bool is_leb) {
  uint32_t bytes = 1;
  while (is_leb && *at++ >= 0x80)
    bytes++;
  return bytes;
}

/* Writes a column's entries to `to`, sorted by their groups, stable. starts: memory for the place of each group. */
static void write_grouped(const struct grouped *from, bool is_leb, struct buffer *starts, struct buffer *to) {
  const uint32_t *groups = (const uint32_t *)from->groups.bytes;
  size_t count = from->groups.used / sizeof *groups, group_count = from->last.used / sizeof(int64_t), at = 0;
  starts->used = to->used = 0;
  uint32_t *places = (uint32_t *)buffer_reserve(starts, group_count * sizeof *places + 1);
  uint8_t *bytes = buffer_reserve(to, from->entries.used + 1);
  to->failed |= !places || from->entries.failed || from->groups.failed || from->last.failed;
  if (to->failed)
    return;
  memset(places, 0, group_count * sizeof *places);
  for (size_t i = 0; i < count; i++) {
    uint32_t length = entry_bytes(from->entries.bytes + at, is_leb);
    places[groups[i]] += length;
    at += length;
  }
  for (size_t group = 0, place = 0; group < group_count; group++) {
    uint32_t length = places[group];
    places[group] = (uint32_t)place;
    place += length;
  }
  at = 0;
  for (size_t i = 0; i < count; i++) {
    for (uint32_t left = entry_bytes(from->entries.bytes + at, is_leb); left > 0; left--)
      bytes[places[groups[i]]++] = from->entries.bytes[at++];
  }
  to->used = from->entries.used;
}

const struct encoded_accesses *access_encoder_finish(struct access_encoder *encoder) {
  struct buffer *columns = encoder->block.columns;
  write_grouped(&encoder->offsets, true, &encoder->starts, &columns[ACCESS_COLUMN_ENTRY_OFFSET]);
  write_grouped(&encoder->steps, false, &encoder->starts, &columns[ACCESS_COLUMN_PAGE_STEP]);
  return &encoder->block;
}

void access_encoder_next_block(struct access_encoder *encoder) {
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
    grouped[i]->entries.used = grouped[i]->groups.used = grouped[i]->last.used = 0;
  address_map_clear(&encoder->pages);
}

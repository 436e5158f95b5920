#include "core/trace/write/accesses_encode.h"

#include "core/base/address_map.h"
#include "core/base/leb.h"
#include "core/trace/accesses.h"

#include <stdlib.h>

struct access_encoder {
  struct encoded_accesses block;
  uint64_t stack, page; /* of the rows before: stack pointer divided by 8, page put into the list */
  struct recent_list objects;
  struct address_map pages; /* numbers of the block's OS pages, by page plus 1 */
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
    recent_add(list, item->object);
  }
  put_leb(encoder, ACCESS_COLUMN_OFFSET, zigzag(item->granule - list->granules[0]));
  list->granules[0] = item->granule;
  encoder->block.objects++;
  return true;
}

static bool encode_other(struct access_encoder *encoder, const struct access_item *item) {
  uint64_t page = (uint64_t)item->granule / ACCESS_PAGE_GRANULES;
  if (page >= ACCESS_PAGES)
    return false;
  struct address_entry *entry = address_map_find(&encoder->pages, page + 1);
  if (!entry->address) {
    if (!address_map_add(&encoder->pages, entry, page + 1, (uint32_t)encoder->pages.count, false))
      encoder->block.columns[ACCESS_COLUMN_PAGE].failed = true;
    put_byte(encoder, ACCESS_COLUMN_WHAT, ACCESS_CODE_PAGE);
    put_leb(encoder, ACCESS_COLUMN_PAGE, zigzag((int64_t)(page - encoder->page)));
    encoder->page = page;
  } else if (entry->slot < ACCESS_NEAR_PAGES) {
    put_byte(encoder, ACCESS_COLUMN_WHAT, ACCESS_CODE_KNOWN_PAGE + entry->slot);
  } else {
    put_byte(encoder, ACCESS_COLUMN_WHAT, ACCESS_CODE_FAR_PAGE);
    put_leb(encoder, ACCESS_COLUMN_FAR_PAGE, entry->slot - ACCESS_NEAR_PAGES);
  }
  put_byte(encoder, ACCESS_COLUMN_PLACE, (uint32_t)((uint64_t)item->granule % ACCESS_PAGE_GRANULES));
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

struct encoded_accesses *access_encoder_block(struct access_encoder *encoder) {
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
  address_map_clear(&encoder->pages);
}

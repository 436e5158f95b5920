#include "core/trace/write/accesses_encode.h"

#include "core/base/leb.h"

#include <string.h>

enum { OS_PAGE_GRANULES_SHIFT = 12 - ACCESS_GRANULE_SHIFT };

static void put_byte(struct buffer *column, uint8_t byte) {
  uint8_t *to = buffer_reserve(column, 1);
  if (!to)
    return;
  *to = byte;
  column->used++;
}

/* Its place in the list, where it is afterwards moved to 0; ACCESS_LIST_ENTRIES: it was not there, and is put in. */
static uint32_t find(struct access_list *list, uint64_t key) {
  uint32_t place = 0;
  while (place < list->count && list->key[place] != key)
    place++;
  bool fresh = place == list->count;
  int64_t granule = fresh ? 0 : list->granule[place];
  uint32_t moved = fresh && place == ACCESS_LIST_ENTRIES ? place - 1 : place;
  memmove(list->key + 1, list->key, moved * sizeof *list->key);
  memmove(list->granule + 1, list->granule, moved * sizeof *list->granule);
  list->key[0] = key;
  list->granule[0] = granule;
  list->count += fresh && place < ACCESS_LIST_ENTRIES;
  return fresh ? ACCESS_LIST_ENTRIES : place;
}

static void add_event(struct access_encoder *encoder, const struct access_item *item) {
  uint64_t stack = item->stack_pointer >> 3;
  put_byte(&encoder->columns[ACCESS_COLUMN_WHAT], item->acquires ? ACCESS_ROW_ACQUIRING_CALL : ACCESS_ROW_CALL);
  buffer_append_leb(&encoder->columns[ACCESS_COLUMN_THREAD], item->thread);
  buffer_append_leb(&encoder->columns[ACCESS_COLUMN_STACK], zigzag((int64_t)(stack - encoder->stack)));
  encoder->stack = stack;
  encoder->acquired += item->acquires;
}

static void add_object(struct access_encoder *encoder, const struct access_item *item) {
  uint32_t place = find(&encoder->objects, item->object);
  bool fresh = place == ACCESS_LIST_ENTRIES;
  put_byte(&encoder->columns[ACCESS_COLUMN_WHAT],
           fresh ? ACCESS_ROW_FRESH_OBJECT : (uint8_t)(ACCESS_ROW_OBJECT + place));
  if (fresh)
    buffer_append_leb(&encoder->columns[ACCESS_COLUMN_OBJECT], encoder->acquired - item->object);
  int64_t *granule = &encoder->objects.granule[0];
  uint64_t difference = (uint64_t)item->granule - (uint64_t)*granule;
  buffer_append_leb(&encoder->columns[ACCESS_COLUMN_OFFSET], zigzag((int64_t)difference));
  *granule = item->granule;
}

static void add_other(struct access_encoder *encoder, const struct access_item *item) {
  uint64_t page = (uint64_t)item->granule >> OS_PAGE_GRANULES_SHIFT;
  uint32_t place = find(&encoder->pages, page);
  bool fresh = place == ACCESS_LIST_ENTRIES;
  put_byte(&encoder->columns[ACCESS_COLUMN_WHAT], fresh ? ACCESS_ROW_FRESH_PAGE : (uint8_t)(ACCESS_ROW_PAGE + place));
  if (fresh) {
    buffer_append_leb(&encoder->columns[ACCESS_COLUMN_PAGE], zigzag((int64_t)(page - encoder->page)));
    encoder->page = page;
  }
  put_byte(&encoder->columns[ACCESS_COLUMN_PLACE], (uint8_t)item->granule);
}

void access_encoder_add(struct access_encoder *encoder, const struct access_item *item) {
  encoder->rows++;
  encoder->rows_of[item->kind]++;
  if (item->kind == ACCESS_EVENT)
    add_event(encoder, item);
  else if (item->kind == ACCESS_OBJECT)
    add_object(encoder, item);
  else
    add_other(encoder, item);
}

void access_encoder_next(struct access_encoder *encoder) {
  for (int id = 0; id < ACCESS_COLUMNS; id++)
    encoder->columns[id].used = 0;
  encoder->rows = 0;
  memset(encoder->rows_of, 0, sizeof encoder->rows_of);
  encoder->first_acquired = encoder->acquired;
  encoder->objects.count = encoder->pages.count = 0;
  encoder->stack = encoder->page = 0;
}

void access_encoder_free(struct access_encoder *encoder) {
  for (int id = 0; id < ACCESS_COLUMNS; id++)
    buffer_free(&encoder->columns[id]);
}

#include "core/trace/read/accesses_decode.h"

#include "core/base/leb.h"

const char *access_decode_begin(struct access_decoder *decoder) {
  decoder->row = 0;
  decoder->stack = decoder->page = 0;
  decoder->objects.count = 0;
  decoder->pages.used = 0;
  if (decoder->last_acquired < decoder->acquired || decoder->last_acquired - decoder->acquired > decoder->rows)
    return "more calls that acquired than rows";
  if ((size_t)(decoder->columns[ACCESS_COLUMN_WHAT].end - decoder->columns[ACCESS_COLUMN_WHAT].at) != decoder->rows)
    return "the column of codes has another length than the block has rows";
  return NULL;
}

static bool get_leb(struct access_decoder *decoder, enum access_column column, uint64_t *value) {
  struct byte_span *span = &decoder->columns[column];
  return leb_get(&span->at, span->end, value);
}

static const char *decode_call(struct access_decoder *decoder, uint8_t code, struct access_item *item) {
  uint64_t thread, difference;
  if (!get_leb(decoder, ACCESS_COLUMN_THREAD, &thread) || !get_leb(decoder, ACCESS_COLUMN_STACK, &difference))
    return "the column of threads or stack pointers is too short or has a bad number";
  decoder->stack += (uint64_t)unzigzag(difference);
  if (thread >= TRACE_MAX_THREADS || decoder->stack >= ACCESS_STACK_POINTERS)
    return "thread number or stack pointer out of range";
  *item = (struct access_item){.kind = ACCESS_EVENT,
                               .thread = (uint32_t)thread,
                               .acquires = code == ACCESS_CODE_ACQUIRED,
                               .stack_pointer = decoder->stack << 3};
  decoder->acquired += item->acquires;
  return NULL;
}

static const char *decode_object(struct access_decoder *decoder, uint8_t code, struct access_item *item) {
  struct recent_list *list = &decoder->objects;
  uint64_t entry;
  if (code != ACCESS_CODE_OBJECT) {
    if (code - ACCESS_CODE_RECENT_OBJECT >= (int)list->count)
      return "place beyond the list of objects";
    recent_use(list, code - ACCESS_CODE_RECENT_OBJECT);
  } else {
    if (!get_leb(decoder, ACCESS_COLUMN_OBJECT, &entry))
      return "the column of objects is too short or has a bad number";
    if (entry == 0 || entry > decoder->acquired)
      return "object that no call before has acquired";
    recent_add(list, decoder->acquired - entry);
  }
  if (!get_leb(decoder, ACCESS_COLUMN_OFFSET, &entry))
    return "the column of offsets is too short or has a bad number";
  uint64_t granule = (uint64_t)list->granules[0] + (uint64_t)unzigzag(entry);
  if (granule + (uint64_t)ACCESS_OBJECT_GRANULES >= 2 * (uint64_t)ACCESS_OBJECT_GRANULES)
    return "granule of an object out of range";
  list->granules[0] = (int64_t)granule;
  *item = (struct access_item){.kind = ACCESS_OBJECT, .object = list->keys[0], .granule = list->granules[0]};
  return NULL;
}

/* *number: of the page among the block's. */
static const char *decode_page(struct access_decoder *decoder, uint8_t code, uint64_t *number) {
  uint64_t entry, count = decoder->pages.used / sizeof decoder->page;
  if (code == ACCESS_CODE_PAGE) {
    if (!get_leb(decoder, ACCESS_COLUMN_PAGE, &entry))
      return "the column of OS pages is too short or has a bad number";
    decoder->page += (uint64_t)unzigzag(entry);
    if (decoder->page >= ACCESS_PAGES)
      return "number of an OS page out of range";
    buffer_append(&decoder->pages, &decoder->page, sizeof decoder->page);
    *number = count;
    return decoder->pages.failed ? "out of memory" : NULL;
  }
  *number = (uint64_t)code - ACCESS_CODE_KNOWN_PAGE;
  if (code == ACCESS_CODE_FAR_PAGE) {
    if (!get_leb(decoder, ACCESS_COLUMN_FAR_PAGE, &entry))
      return "the column of far OS pages is too short or has a bad number";
    if (entry >= TRACE_MAX_ROWS)
      return "OS page that the block does not have";
    *number = ACCESS_NEAR_PAGES + entry;
  }
  return *number < count ? NULL : "OS page that the block does not have";
}

static const char *decode_other(struct access_decoder *decoder, uint8_t code, struct access_item *item) {
  struct byte_span *places = &decoder->columns[ACCESS_COLUMN_PLACE];
  uint64_t number;
  const char *wrong = decode_page(decoder, code, &number);
  if (wrong)
    return wrong;
  if (places->at == places->end)
    return "the column of places in OS pages is too short";
  const uint64_t *pages = (const uint64_t *)decoder->pages.bytes;
  uint64_t granule = pages[number] * ACCESS_PAGE_GRANULES + *places->at++;
  *item = (struct access_item){.kind = ACCESS_OTHER, .granule = (int64_t)granule};
  return NULL;
}

static const char *check_end(const struct access_decoder *decoder) {
  for (int id = 1; id < ACCESS_COLUMNS; id++)
    if (decoder->columns[id].at != decoder->columns[id].end)
      return "a column has entries left over";
  return decoder->acquired == decoder->last_acquired ? NULL : "its calls that acquired are not those of the header";
}

const char *access_decode_next(struct access_decoder *decoder, struct access_item *item) {
  uint8_t code = *decoder->columns[ACCESS_COLUMN_WHAT].at++;
  const char *wrong;
  if (code <= ACCESS_CODE_ACQUIRED)
    wrong = decode_call(decoder, code, item);
  else if (code == ACCESS_CODE_PAGE || code >= ACCESS_CODE_KNOWN_PAGE)
    wrong = decode_other(decoder, code, item);
  else if (code == ACCESS_CODE_OBJECT || code >= ACCESS_CODE_RECENT_OBJECT)
    wrong = decode_object(decoder, code, item);
  else
    wrong = "unknown code";
  if (wrong)
    return wrong;
  return ++decoder->row == decoder->rows ? check_end(decoder) : NULL;
}

void access_decoder_free(struct access_decoder *decoder) {
  buffer_free(&decoder->pages);
}

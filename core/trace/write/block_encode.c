/* SPDX-License-Identifier: MIT */
#include "core/base/assert.h"
#include "core/base/leb.h"
#include "core/trace/live_list.h"
#include "core/trace/write/writer.h"

#include <stdlib.h>
#include <string.h>

struct acquire {
  uint64_t address;
  uint32_t class; /* PREDICTOR_CLASSES: none */
};

/* The last acquire of an address in this block. Entries of earlier blocks are recognised by their epoch, so that
   nothing has to be cleared between blocks. */
struct place {
  uint64_t address;
  uint32_t acquire, epoch;
};

struct freed {
  uint32_t acquire, below; /* below: index of the next entry of the stack plus 1, 0 = none */
};

struct block_encoder {
  struct encoded_block block;
  struct acquire *acquires;
  struct freed *freed;
  struct place *places;
  uint32_t place_mask, epoch;
  uint32_t acquired, pushed;
  uint32_t stack[PREDICTOR_CLASSES]; /* index of the top entry in freed plus 1, 0 = empty */
};

struct block_encoder *block_encoder_new(uint32_t max_events) {
  struct block_encoder *encoder = calloc(1, sizeof *encoder);
  if (!encoder)
    return NULL;
  uint32_t places = 1024;
  while (places < 2 * (uint64_t)max_events)
    places *= 2;
  encoder->place_mask = places - 1;
  encoder->places = calloc(places, sizeof *encoder->places);
  encoder->acquires = malloc((size_t)max_events * sizeof *encoder->acquires);
  encoder->freed = malloc((size_t)max_events * sizeof *encoder->freed);
  if (!encoder->places || !encoder->acquires || !encoder->freed) {
    block_encoder_free(encoder);
    return NULL;
  }
  return encoder;
}

void block_encoder_free(struct block_encoder *encoder) {
  if (!encoder)
    return;
  for (int column = 0; column < EVENT_COLUMNS; column++)
    buffer_free(&encoder->block.columns[column]);
  free(encoder->places);
  free(encoder->acquires);
  free(encoder->freed);
  free(encoder);
}

static struct place *place_find(struct block_encoder *encoder, uint64_t address) {
  uint32_t at = (uint32_t)((address >> 4) * 0x9e3779b97f4a7c15u >> 32) & encoder->place_mask;
  while (encoder->places[at].epoch == encoder->epoch && encoder->places[at].address != address)
    at = (at + 1) & encoder->place_mask;
  return &encoder->places[at];
}

/* Properties of all events together. */
struct survey {
  uint8_t address_shift; /* common trailing zeros of all addresses, at most 4 */
  bool latency, slack, stack;
};

static struct survey survey_events(const struct trace_event *events, uint32_t count) {
  uint64_t address = 16, latency = 0;
  uint32_t slack = 0, stack = 0;
  for (uint32_t i = 0; i < count; i++) {
    address |= events[i].released | events[i].acquired;
    latency |= events[i].latency;
    slack |= events[i].slack_bytes;
    stack |= events[i].stack;
  }
  return (struct survey){(uint8_t)__builtin_ctzll(address), latency != 0, slack != 0, stack != 0};
}

/* The column cursors of one pass; room is reserved beforehand for the worst case, so that the loop has no growth
 * checks. */
struct cursors {
  uint8_t *call, *size, *param, *distance, *release, *acquire, *gap, *delta, *touched, *parts;
};

static uint8_t *column_begin(struct encoded_block *block, int column, size_t worst_bytes) {
  block->columns[column].used = 0;
  return buffer_reserve(&block->columns[column], worst_bytes);
}

static void column_end(struct encoded_block *block, int column, const uint8_t *end) {
  block->columns[column].used = (size_t)(end - block->columns[column].bytes);
  HT_ASSERT(block->columns[column].used <= block->columns[column].room);
}

/* Sets *value to the event's entry in an optional column; false: it has none there. */
static bool optional_value(const struct trace_event *event, int column, uint64_t *value) {
  switch (column) {
  case COLUMN_LATENCY:
    *value = event->latency;
    return true;
  case COLUMN_SLACK:
    *value = event->slack_bytes;
    return trace_event_acquires(event);
  default:
    *value = event->stack;
    return call_table[event->call & CALL_ID_MASK].acquires == (column == COLUMN_STACK);
  }
}

/* Encodes a column that most recordings lack, in a separate pass, so that it costs them nothing. A column of zeros
   only, "not known", is left out. Stacks are differences: after zstd, 0.17 bytes per event of cc1 instead of 0.26 as
   plain numbers, 0.27 as places in a table of the block, 0.33 as places in a list that moves each to its front; the
   same holds, at smaller sizes, for python3, sqlite3 and git. */
static bool encode_optional(struct encoded_block *block, int column, const struct trace_event *events, uint32_t count) {
  uint8_t *const begin = column_begin(block, column, (size_t)count * LEB_MAX_BYTES), *to = begin;
  bool is_stack = column == COLUMN_STACK || column == COLUMN_OTHER_STACK;
  uint64_t any = 0, value, previous = 0;
  for (uint32_t i = 0; begin && i < count; i++) {
    if (!optional_value(&events[i], column, &value))
      continue;
    to = leb_put(to, is_stack ? zigzag((int64_t)(value - previous)) : value);
    previous = value;
    any |= value;
  }
  if (begin)
    column_end(block, column, any ? to : begin);
  return begin != NULL;
}

static bool encode_optionals(struct encoded_block *block, struct survey survey, const struct trace_event *events,
                             uint32_t count) {
  for (int column = COLUMN_LATENCY; column < COLUMN_PARTS; column++)
    block->columns[column].used = 0;
  return (!survey.latency || encode_optional(block, COLUMN_LATENCY, events, count)) &&
         (!survey.slack || encode_optional(block, COLUMN_SLACK, events, count)) &&
         (!survey.stack || (encode_optional(block, COLUMN_STACK, events, count) &&
                            encode_optional(block, COLUMN_OTHER_STACK, events, count)));
}

static bool cursors_begin(struct encoded_block *block, struct cursors *to, uint32_t count) {
  size_t lebs = (size_t)count * LEB_MAX_BYTES + LEB_MAX_BYTES;
  to->call = column_begin(block, COLUMN_CALL, count);
  to->size = column_begin(block, COLUMN_SIZE, lebs);
  to->param = column_begin(block, COLUMN_PARAM, lebs);
  to->distance = column_begin(block, COLUMN_RELEASE_DISTANCE, lebs);
  to->release = column_begin(block, COLUMN_RELEASE_ADDRESS, lebs);
  to->acquire = column_begin(block, COLUMN_ACQUIRE_ADDRESS, lebs);
  to->gap = column_begin(block, COLUMN_STAMP_GAP, 2 * lebs);
  to->delta = column_begin(block, COLUMN_STAMP_DELTA, 2 * lebs);
  to->touched = column_begin(block, COLUMN_TOUCHED, 2 * lebs);
  to->parts = column_begin(block, COLUMN_PARTS, 2 * lebs);
  uint8_t *hits = column_begin(block, COLUMN_ACQUIRE_HIT, count / 8 + 1);
  if (!to->call || !to->size || !to->param || !to->distance || !to->release || !to->acquire || !to->gap || !to->delta ||
      !to->touched || !to->parts || !hits)
    return false;
  memset(hits, 0, count / 8 + 1);
  return true;
}

static void cursors_end(struct encoded_block *block, const struct cursors *to, uint32_t acquired) {
  column_end(block, COLUMN_CALL, to->call);
  column_end(block, COLUMN_SIZE, to->size);
  column_end(block, COLUMN_PARAM, to->param);
  column_end(block, COLUMN_RELEASE_DISTANCE, to->distance);
  column_end(block, COLUMN_RELEASE_ADDRESS, to->release);
  column_end(block, COLUMN_ACQUIRE_ADDRESS, to->acquire);
  column_end(block, COLUMN_STAMP_GAP, to->gap);
  column_end(block, COLUMN_STAMP_DELTA, to->delta);
  column_end(block, COLUMN_TOUCHED, to->touched);
  column_end(block, COLUMN_PARTS, to->parts);
  block->columns[COLUMN_ACQUIRE_HIT].used = (acquired + 7) / 8;
}

/* Encodes the address passed in; where it was acquired in this block and is released, its acquire is pushed on its
   class's stack. */
static void encode_release(struct block_encoder *encoder, struct cursors *to, const struct trace_event *event,
                           uint64_t *previous) {
  const struct place *place = place_find(encoder, event->released);
  if (place->epoch != encoder->epoch) {
    *to->distance++ = 0;
    int64_t difference = (int64_t)(event->released - *previous) >> encoder->block.address_shift;
    to->release = leb_put(to->release, zigzag(difference));
    *previous = event->released;
    return;
  }
  to->distance = leb_put(to->distance, encoder->acquired - place->acquire);
  uint32_t class = encoder->acquires[place->acquire].class;
  if (class < PREDICTOR_CLASSES && trace_event_releases(event)) {
    encoder->freed[encoder->pushed++] = (struct freed){place->acquire, encoder->stack[class]};
    encoder->stack[class] = encoder->pushed;
  }
}

/* Encodes the address handed out: one bit where the predictor is right. */
static void encode_acquire(struct block_encoder *encoder, struct cursors *to, const struct trace_event *event,
                           uint64_t *expected) {
  uint64_t request_bytes = trace_event_request_bytes(event), class = predictor_class(request_bytes);
  encoder->block.request_bytes += request_bytes;
  uint32_t number = encoder->acquired++;
  uint32_t top = class < PREDICTOR_CLASSES ? encoder->stack[class] : 0;
  if (top && encoder->acquires[encoder->freed[top - 1].acquire].address == event->acquired) {
    encoder->stack[class] = encoder->freed[top - 1].below;
    encoder->block.columns[COLUMN_ACQUIRE_HIT].bytes[number / 8] |= (uint8_t)(1u << number % 8);
  } else {
    int64_t difference = (int64_t)(event->acquired - *expected) >> encoder->block.address_shift;
    to->acquire = leb_put(to->acquire, zigzag(difference));
    *expected = event->acquired + 16 * class;
  }
  encoder->acquires[number] =
      (struct acquire){event->acquired, class < PREDICTOR_CLASSES ? (uint32_t) class : PREDICTOR_CLASSES};
  *place_find(encoder, event->acquired) = (struct place){event->acquired, number, encoder->epoch};
}

struct stamps {
  uint64_t last;
  uint32_t gap;
};

static void encode_stamp(struct encoded_block *block, struct cursors *to, struct stamps *stamps, uint64_t stamp) {
  block->steps++;
  if (!stamp) {
    stamps->gap++;
    return;
  }
  if (stamp < stamps->last) {
    stamp = stamps->last;
    block->clamped_stamps++;
  }
  to->gap = leb_put(to->gap, stamps->gap);
  to->delta = leb_put(to->delta, stamp - stamps->last);
  stamps->last = stamp;
  stamps->gap = 0;
}

struct encoded_block *block_encode(struct block_encoder *encoder, const struct trace_event *events, uint32_t count,
                                   uint64_t first_stamp) {
  struct encoded_block *block = &encoder->block;
  struct cursors to;
  struct survey survey = survey_events(events, count);
  if (!cursors_begin(block, &to, count) || !encode_optionals(block, survey, events, count))
    return block;
  memset(encoder->stack, 0, sizeof encoder->stack);
  if (++encoder->epoch == 0) {
    memset(encoder->places, 0, ((size_t)encoder->place_mask + 1) * sizeof *encoder->places);
    encoder->epoch = 1;
  }
  encoder->acquired = encoder->pushed = 0;
  block->address_shift = survey.address_shift;
  block->steps = 0;
  block->clamped_stamps = 0;
  block->request_bytes = 0;

  struct stamps stamps = {first_stamp, 0};
  uint64_t previous_release = 0, expected_acquire = 0, untouched = 0, unmapped = 0;
  for (uint32_t i = 0; i < count; i++) {
    const struct trace_event *event = &events[i];
    const struct call_info *info = &call_table[event->call & CALL_ID_MASK];
    *to.call++ = event->call;
    if (info->has_size)
      to.size = leb_put(to.size, event->size_bytes);
    if (info->param != NONE)
      to.param = leb_put(to.param, event->param);
    encode_stamp(block, &to, &stamps, trace_event_first_stamp(event));
    if (trace_event_takes(event))
      encode_release(encoder, &to, event, &previous_release);
    if (trace_event_releases(event)) {
      if (event->touched_os_pages) {
        to.touched = leb_put(leb_put(to.touched, untouched), event->touched_os_pages - 1);
        untouched = 0;
        if (event->touched_parts) {
          to.parts = leb_put(leb_put(to.parts, unmapped), event->touched_parts);
          unmapped = 0;
        } else {
          unmapped++;
        }
      } else {
        untouched++;
      }
    }
    if (trace_event_acquires(event)) {
      if (trace_event_releases(event))
        encode_stamp(block, &to, &stamps, event->acquire_stamp);
      encode_acquire(encoder, &to, event, &expected_acquire);
    }
  }
  cursors_end(block, &to, encoder->acquired);
  block->last_stamp = stamps.last;
  return block;
}

#define NO_ACQUIRE UINT32_MAX

struct archive_encoder {
  struct acquire *acquires;
  struct freed *freed;
  struct live_links *links; /* of the list */
  struct live_list live;
  uint32_t
      *releases; /* of each event: number of the acquire whose object it releases, NO_ACQUIRE: none of this block */
  uint8_t shift; /* of the addresses */
  uint32_t acquired, pushed;
  uint64_t expected;                 /* address, if no stack has it */
  uint32_t stack[PREDICTOR_CLASSES]; /* index of the top entry in freed plus 1, 0 = empty */
  struct fresh fresh[PREDICTOR_CLASSES];
  struct buffer other_places;
};

struct archive_encoder *archive_encoder_new(uint32_t max_events) {
  struct archive_encoder *encoder = calloc(1, sizeof *encoder);
  if (!encoder)
    return NULL;
  encoder->acquires = malloc((size_t)max_events * sizeof *encoder->acquires);
  encoder->freed = malloc((size_t)max_events * sizeof *encoder->freed);
  encoder->links = malloc(((size_t)max_events + 1) * sizeof *encoder->links);
  encoder->releases = malloc((size_t)max_events * sizeof *encoder->releases);
  if (encoder->acquires && encoder->freed && encoder->links && encoder->releases)
    return encoder;
  archive_encoder_free(encoder);
  return NULL;
}

void archive_encoder_free(struct archive_encoder *encoder) {
  if (!encoder)
    return;
  buffer_free(&encoder->other_places);
  free(encoder->acquires);
  free(encoder->freed);
  free(encoder->links);
  free(encoder->releases);
  free(encoder);
}

/* The place of the next row in column 18, and of the next number in column 19. */
struct row_cursor {
  uint8_t *row, *far;
};

static void put_reference(struct row_cursor *to, struct live_list *live, uint32_t number, bool releases) {
  struct live_reference reference = live_list_name(live, number);
  live_list_refer(live, reference.code, number, releases);
  to->row = leb_put(to->row, reference.code);
  if (reference.code == LIVE_CODE_FAR)
    to->far = leb_put(to->far, reference.far);
}

/* distance: the event's entry in column 4, else 0. Returns the number of the acquire whose object it releases. */
static uint32_t put_row(struct row_cursor *to, struct live_list *live, const struct trace_event *event,
                        uint64_t distance) {
  const struct call_info *info = &call_table[event->call & CALL_ID_MASK];
  bool releases = distance && trace_event_releases(event);
  uint32_t number = live->acquired - (uint32_t)distance;
  to->row = leb_put(to->row, event->call);
  if (info->has_size)
    to->row = leb_put(to->row, event->size_bytes);
  if (info->param != NONE)
    to->row = leb_put(to->row, event->param);
  if (distance)
    put_reference(to, live, number, releases);
  else if (trace_event_takes(event))
    to->row = leb_put(to->row, LIVE_CODE_STORED);
  if (trace_event_acquires(event))
    live_list_acquire(live);
  return releases ? number : NO_ACQUIRE;
}

/* Makes columns 18 and 19, and notes which acquire's object each event releases. */
static void encode_rows(struct archive_encoder *encoder, struct encoded_block *block, const struct trace_event *events,
                        uint32_t count) {
  struct buffer *rows = &block->columns[COLUMN_ROWS], *far = &block->columns[COLUMN_FAR];
  rows->used = far->used = 0;
  struct row_cursor to = {buffer_reserve(rows, (size_t)count * 4 * LEB_MAX_BYTES),
                          buffer_reserve(far, (size_t)count * LEB_MAX_BYTES)};
  const uint8_t *distances = block->columns[COLUMN_RELEASE_DISTANCE].bytes;
  const uint8_t *end = distances + block->columns[COLUMN_RELEASE_DISTANCE].used;
  if (!to.row || !to.far)
    return;
  live_list_begin(&encoder->live, encoder->links);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t distance = 0;
    if (trace_event_takes(&events[i]))
      leb_get(&distances, end, &distance);
    encoder->releases[i] = put_row(&to, &encoder->live, &events[i], distance);
  }
  rows->used = (size_t)(to.row - rows->bytes);
  far->used = (size_t)(to.far - far->bytes);
}

static void push(struct archive_encoder *encoder, uint32_t number) {
  uint32_t class = encoder->acquires[number].class;
  if (class >= PREDICTOR_CLASSES)
    return;
  encoder->freed[encoder->pushed++] = (struct freed){number, encoder->stack[class]};
  encoder->stack[class] = encoder->pushed;
}

/* Takes the address off its class's stack and returns its place there; PLACE_FRESH if it is not among the uppermost. */
static uint64_t take_from_stack(struct archive_encoder *encoder, uint64_t class, uint64_t address) {
  uint32_t *link = &encoder->stack[class];
  for (uint64_t place = 0; place < PLACE_FRESH && *link; place++) {
    struct freed *entry = &encoder->freed[*link - 1];
    if (encoder->acquires[entry->acquire].address == address) {
      *link = entry->below;
      return place;
    }
    link = &entry->below;
  }
  return PLACE_FRESH;
}

static uint64_t place_of(struct archive_encoder *encoder, const struct trace_event *event, enum class_system system) {
  uint64_t request_bytes = trace_event_request_bytes(event), address = event->acquired;
  uint64_t class = archive_class(system, request_bytes), place = PLACE_FRESH;
  bool small = class < PREDICTOR_CLASSES;
  if (small)
    place = take_from_stack(encoder, class, address);
  if (place == PLACE_FRESH) {
    /* The same entry wherever both are possible, so that an anonymised trace has only one. */
    if (!small || address == encoder->expected || fresh_expected(&encoder->fresh[class], class) != address)
      place = PLACE_ELSEWHERE + zigzag((int64_t)(address - encoder->expected) >> encoder->shift);
    if (small)
      fresh_note(&encoder->fresh[class], address);
  }
  if (place)
    encoder->expected = address + 16 * predictor_class(request_bytes);
  encoder->acquires[encoder->acquired++] = (struct acquire){address, small ? (uint32_t) class : PREDICTOR_CLASSES};
  return place;
}

/* Writes column 17 to places. Returns how many of its bytes are not 0, which approximates its compressed size. */
static size_t encode_places(struct archive_encoder *encoder, struct buffer *places, const struct trace_event *events,
                            uint32_t count, enum class_system system) {
  places->used = 0;
  uint8_t *place = buffer_reserve(places, ((size_t)count + 1) * LEB_MAX_BYTES);
  if (!place)
    return 0;
  memset(encoder->stack, 0, sizeof encoder->stack);
  memset(encoder->fresh, 0, sizeof encoder->fresh);
  encoder->acquired = encoder->pushed = 0;
  encoder->expected = 0;
  size_t cost = 0;
  place = leb_put(place, system);
  for (uint32_t i = 0; i < count; i++) {
    if (encoder->releases[i] != NO_ACQUIRE)
      push(encoder, encoder->releases[i]);
    if (!trace_event_acquires(&events[i]))
      continue;
    uint64_t entry = place_of(encoder, &events[i], system);
    uint8_t *end = leb_put(place, entry);
    cost += entry ? (size_t)(end - place) : 0;
    place = end;
  }
  places->used = encoder->acquired ? (size_t)(place - places->bytes) : 0;
  return cost;
}

static bool lacks_memory(const struct encoded_block *block) {
  bool lacks = false;
  for (int id = 0; id < EVENT_COLUMNS; id++)
    lacks |= block->columns[id].failed;
  return lacks;
}

void archive_encode(struct archive_encoder *encoder, struct encoded_block *block, const struct trace_event *events,
                    uint32_t count) {
  static const uint8_t replaced[] = {COLUMN_CALL,        COLUMN_SIZE,           COLUMN_PARAM, COLUMN_RELEASE_DISTANCE,
                                     COLUMN_ACQUIRE_HIT, COLUMN_ACQUIRE_ADDRESS};
  struct buffer *places = &block->columns[COLUMN_PLACES], *other = &encoder->other_places;
  if (!lacks_memory(block))
    encode_rows(encoder, block, events, count);
  if (lacks_memory(block))
    return;
  encoder->shift = block->address_shift;
  size_t cost = encode_places(encoder, places, events, count, CLASSES_EVEN);
  if (encode_places(encoder, other, events, count, CLASSES_GEOMETRIC) < cost) {
    struct buffer worse = *places;
    *places = *other;
    *other = worse;
  }
  places->failed |= other->failed;
  for (size_t i = 0; i < sizeof replaced; i++)
    block->columns[replaced[i]].used = 0;
}

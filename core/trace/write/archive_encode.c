/* SPDX-License-Identifier: MIT */
#include "core/trace/write/writer.h"

#include "core/base/leb.h"
#include "core/trace/live_list.h"

#include <stdlib.h>
#include <string.h>

#define NO_ACQUIRE UINT32_MAX

struct acquire {
  uint64_t address;
  uint32_t class; /* PREDICTOR_CLASSES: none */
};

struct freed {
  uint32_t acquire, below; /* below: index of the next entry of the stack plus 1, 0 = none */
};

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

void archive_encode(struct archive_encoder *encoder, struct encoded_block *block, const struct trace_event *events,
                    uint32_t count) {
  static const uint8_t replaced[] = {COLUMN_CALL,        COLUMN_SIZE,           COLUMN_PARAM, COLUMN_RELEASE_DISTANCE,
                                     COLUMN_ACQUIRE_HIT, COLUMN_ACQUIRE_ADDRESS};
  struct buffer *places = &block->columns[COLUMN_PLACES], *other = &encoder->other_places;
  encode_rows(encoder, block, events, count);
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

/* SPDX-License-Identifier: MIT */
#include "core/trace/read/reader.h"

#include "core/base/assert.h"
#include "core/base/leb.h"

#include <stdlib.h>
#include <string.h>

struct acquire {
  uint64_t address;
  uint64_t class;
};

struct freed {
  uint32_t acquire, below; /* below: index of the next entry of the stack plus 1, 0 = none */
};

static ALWAYS_INLINE bool take(struct block_decoder *decoder, enum event_column column, uint64_t *value) {
  return leb_get(&decoder->columns[column].at, decoder->columns[column].end, value);
}

static const char *next_stamp_gap(struct block_decoder *decoder) {
  struct byte_span *gaps = &decoder->columns[COLUMN_STAMP_GAP];
  if (gaps->at == gaps->end) {
    decoder->steps_to_stamp = UINT64_MAX;
    return NULL;
  }
  if (!leb_get(&gaps->at, gaps->end, &decoder->steps_to_stamp))
    return "bad number in the stamp gap column";
  return decoder->steps_to_stamp >= decoder->steps - decoder->step ? "stamp gap reaches past the block's end" : NULL;
}

static const char *next_touched(struct block_decoder *decoder) {
  struct byte_span *pairs = &decoder->columns[COLUMN_TOUCHED];
  if (pairs->at == pairs->end) {
    decoder->releases_to_touched = UINT64_MAX;
    return NULL;
  }
  if (!leb_get(&pairs->at, pairs->end, &decoder->releases_to_touched) ||
      !leb_get(&pairs->at, pairs->end, &decoder->touched_os_pages) || decoder->touched_os_pages >= UINT32_MAX)
    return "bad number in the touched column";
  return NULL;
}

static const char *next_parts(struct block_decoder *decoder) {
  struct byte_span *pairs = &decoder->columns[COLUMN_PARTS];
  if (pairs->at == pairs->end) {
    decoder->touched_to_parts = UINT64_MAX;
    return NULL;
  }
  if (!leb_get(&pairs->at, pairs->end, &decoder->touched_to_parts) || decoder->touched_to_parts == UINT64_MAX ||
      !leb_get(&pairs->at, pairs->end, &decoder->touched_parts) || decoder->touched_parts > UINT32_MAX ||
      !decoder->touched_parts)
    return "bad number in the parts column";
  return NULL;
}

/* An archive's places begin with the system of classes; there are none if nothing was acquired. */
static const char *begin_archive(struct block_decoder *decoder) {
  struct byte_span *places = &decoder->columns[COLUMN_PLACES];
  uint64_t system = CLASSES_EVEN;
  if (places->at != places->end && (!leb_get(&places->at, places->end, &system) || system >= CLASS_SYSTEMS))
    return "unknown system of classes in the place column";
  decoder->classes = (enum class_system)system;
  if (!decoder->fresh && !(decoder->fresh = malloc(PREDICTOR_CLASSES * sizeof *decoder->fresh)))
    return "out of memory";
  memset(decoder->fresh, 0, PREDICTOR_CLASSES * sizeof *decoder->fresh);
  decoder->links.used = 0;
  if (!buffer_reserve(&decoder->links, (decoder->rows + 1ul) * sizeof(struct live_links)))
    return "out of memory";
  live_list_begin(&decoder->live, (struct live_links *)decoder->links.bytes);
  return NULL;
}

const char *block_decode_begin(struct block_decoder *decoder) {
  decoder->row = decoder->step = 0;
  decoder->acquired = decoder->pushed = 0;
  decoder->previous_release = decoder->expected_acquire = 0;
  decoder->acquires.used = decoder->freed.used = 0;
  memset(decoder->stack, 0, sizeof decoder->stack);
  decoder->archive = decoder->columns[COLUMN_ROWS].at != decoder->columns[COLUMN_ROWS].end;
  struct byte_span *calls = &decoder->columns[COLUMN_CALL];
  if ((uint64_t)(calls->end - calls->at) != (decoder->archive ? 0 : decoder->rows))
    return "call column does not have one entry per row";
  if (!buffer_reserve(&decoder->acquires, decoder->rows * sizeof(struct acquire)) ||
      !buffer_reserve(&decoder->freed, decoder->rows * sizeof(struct freed)))
    return "out of memory";
  const char *wrong = decoder->archive ? begin_archive(decoder) : NULL;
  if (wrong)
    return wrong;
  decoder->has_optional = false;
  decoder->previous_stack[0] = decoder->previous_stack[1] = 0;
  for (int column = COLUMN_LATENCY; column <= COLUMN_OTHER_STACK; column++) {
    bool present = decoder->columns[column].at != decoder->columns[column].end;
    decoder->present[column - COLUMN_LATENCY] = present;
    decoder->has_optional |= present;
  }
  wrong = next_stamp_gap(decoder);
  wrong = wrong ? wrong : next_touched(decoder);
  return wrong ? wrong : next_parts(decoder);
}

/* Advances by one step and returns its stamp, own or inherited. */
static ALWAYS_INLINE const char *take_step(struct block_decoder *decoder, uint64_t *stamp) {
  if (decoder->step == decoder->steps)
    return "more steps than the header says";
  decoder->step++;
  if (decoder->steps_to_stamp-- > 0) { /* UINT64_MAX is more steps than a block has */
    *stamp = decoder->stamp;
    return NULL;
  }
  uint64_t delta;
  if (!take(decoder, COLUMN_STAMP_DELTA, &delta))
    return "stamp delta column is too short or has a bad number";
  if (__builtin_add_overflow(decoder->stamp, delta, &decoder->stamp))
    return "stamp overflows";
  *stamp = decoder->stamp;
  return next_stamp_gap(decoder);
}

/* Takes the release distance of an archive's row, which refers to the list of live objects. */
static const char *take_reference(struct block_decoder *decoder, const struct trace_event *event, uint64_t *distance) {
  struct live_reference reference = {0};
  uint32_t number;
  if (!take(decoder, COLUMN_ROWS, &reference.code))
    return "row column is too short or has a bad number";
  if (reference.code == LIVE_CODE_FAR && !take(decoder, COLUMN_FAR, &reference.far))
    return "far column is too short or has a bad number";
  *distance = 0;
  if (reference.code == LIVE_CODE_STORED)
    return NULL;
  if (!live_list_find(&decoder->live, reference, &number))
    return "release names no acquire of its block";
  *distance = decoder->acquired - number;
  live_list_refer(&decoder->live, reference.code, number, trace_event_releases(event));
  return NULL;
}

static ALWAYS_INLINE const char *take_release(struct block_decoder *decoder, struct trace_event *event, uint8_t traits,
                                              bool archive) {
  uint64_t distance, entry;
  if (archive) {
    const char *wrong = take_reference(decoder, event, &distance);
    if (wrong)
      return wrong;
  } else if (!take(decoder, COLUMN_RELEASE_DISTANCE, &distance)) {
    return "release distance column is too short or has a bad number";
  }
  if (distance == 0) {
    if (!take(decoder, COLUMN_RELEASE_ADDRESS, &entry))
      return "release address column is too short or has a bad number";
    decoder->previous_release += (uint64_t)unzigzag(entry) << decoder->release_shift;
    event->released = decoder->previous_release;
    return NULL;
  }
  if (distance > decoder->acquired)
    return "release distance reaches before the block's first acquire";
  uint32_t number = decoder->acquired - (uint32_t)distance;
  const struct acquire *acquire = (struct acquire *)decoder->acquires.bytes + number;
  event->released = acquire->address;
  if (acquire->class < PREDICTOR_CLASSES && (traits & EVENT_RELEASES)) {
    ((struct freed *)decoder->freed.bytes)[decoder->pushed++] = (struct freed){number, decoder->stack[acquire->class]};
    decoder->stack[acquire->class] = decoder->pushed;
  }
  return NULL;
}

/* An archive's acquire: a place in the stack of its class, or a distance from the address expected. */
static const char *take_place(struct block_decoder *decoder, struct trace_event *event) {
  struct acquire *acquires = (struct acquire *)decoder->acquires.bytes;
  struct freed *freed = (struct freed *)decoder->freed.bytes;
  uint64_t request_bytes = trace_event_request_bytes(event), place;
  uint64_t class = archive_class(decoder->classes, request_bytes);
  if (!take(decoder, COLUMN_PLACES, &place))
    return "place column is too short or has a bad number";
  if (place >= PLACE_ELSEWHERE) {
    event->acquired =
        decoder->expected_acquire + ((uint64_t)unzigzag(place - PLACE_ELSEWHERE) << decoder->acquire_shift);
  } else if (class >= PREDICTOR_CLASSES) {
    return "acquire from a stack that does not exist";
  } else if (place == PLACE_FRESH) {
    event->acquired = fresh_expected(&decoder->fresh[class], class);
  } else {
    uint32_t *link = &decoder->stack[class];
    for (uint64_t above = place; above && *link; above--)
      link = &freed[*link - 1].below;
    if (!*link)
      return "acquire from beyond the bottom of a stack";
    event->acquired = acquires[freed[*link - 1].acquire].address;
    *link = freed[*link - 1].below;
  }
  if (place >= PLACE_FRESH && class < PREDICTOR_CLASSES)
    fresh_note(&decoder->fresh[class], event->acquired);
  if (place)
    decoder->expected_acquire = event->acquired + 16 * predictor_class(request_bytes);
  acquires[decoder->acquired++] = (struct acquire){event->acquired, class};
  live_list_acquire(&decoder->live);
  return NULL;
}

static ALWAYS_INLINE const char *take_acquire(struct block_decoder *decoder, struct trace_event *event) {
  const struct byte_span *hits = &decoder->columns[COLUMN_ACQUIRE_HIT];
  uint64_t class = predictor_class(trace_event_request_bytes(event));
  uint32_t number = decoder->acquired++;
  if (number / 8 >= (uint64_t)(hits->end - hits->at))
    return "acquire hit column is too short";
  if (hits->at[number / 8] >> number % 8 & 1) {
    uint32_t top = class < PREDICTOR_CLASSES ? decoder->stack[class] : 0;
    if (!top)
      return "acquire hit on an empty stack";
    const struct freed *freed = (struct freed *)decoder->freed.bytes + (top - 1);
    event->acquired = ((struct acquire *)decoder->acquires.bytes)[freed->acquire].address;
    decoder->stack[class] = freed->below;
  } else {
    uint64_t entry;
    if (!take(decoder, COLUMN_ACQUIRE_ADDRESS, &entry))
      return "acquire address column is too short or has a bad number";
    event->acquired = decoder->expected_acquire + ((uint64_t)unzigzag(entry) << decoder->acquire_shift);
    decoder->expected_acquire = event->acquired + 16 * class;
  }
  ((struct acquire *)decoder->acquires.bytes)[number] = (struct acquire){event->acquired, class};
  return NULL;
}

/* A column that is present has an entry for each event that can have one: it may not end before these do. */
static bool has(const struct block_decoder *decoder, enum event_column column) {
  return decoder->present[column - COLUMN_LATENCY];
}

static const char *take_optional(struct block_decoder *decoder, struct trace_event *event) {
  enum event_column stack = call_table[event->call & CALL_ID_MASK].acquires ? COLUMN_STACK : COLUMN_OTHER_STACK;
  uint64_t value;
  if (has(decoder, COLUMN_LATENCY) && !take(decoder, COLUMN_LATENCY, &event->latency))
    return "latency column is too short or has a bad number";
  if (has(decoder, COLUMN_SLACK) && trace_event_acquires(event)) {
    if (!take(decoder, COLUMN_SLACK, &value) || value > UINT32_MAX)
      return "slack column is too short or has a bad number";
    event->slack_bytes = (uint32_t)value;
  }
  if (has(decoder, stack)) {
    if (!take(decoder, stack, &value))
      return "stack column is too short or has a bad number";
    value = decoder->previous_stack[stack - COLUMN_STACK] + (uint64_t)unzigzag(value);
    if (value > decoder->stack_nodes)
      return "stack that no STACKS block before this one has";
    event->stack = decoder->previous_stack[stack - COLUMN_STACK] = (uint32_t)value;
  }
  return NULL;
}

/* Checks that are possible only after the last row. */
static const char *check_end(struct block_decoder *decoder) {
  if (decoder->step != decoder->steps)
    return "fewer steps than the header says";
  if (decoder->stamp != decoder->last_stamp)
    return "last stamp differs from the header's";
  struct byte_span *hits = &decoder->columns[COLUMN_ACQUIRE_HIT];
  uint32_t hit_bits = decoder->archive ? 0 : decoder->acquired;
  if ((uint64_t)(hits->end - hits->at) != (hit_bits + 7) / 8)
    return "acquire hit column is too long";
  if (hit_bits % 8 && hits->end[-1] >> hit_bits % 8)
    return "unused bits of the acquire hit column are not 0";
  for (int column = COLUMN_SIZE; column < EVENT_COLUMNS; column++)
    if (column != COLUMN_ACQUIRE_HIT && decoder->columns[column].at != decoder->columns[column].end)
      return "a column has more entries than events that use it";
  if (decoder->touched_to_parts != UINT64_MAX)
    return "parts column reaches past the touched column's end";
  return decoder->releases_to_touched != UINT64_MAX ? "touched column reaches past the block's end" : NULL;
}

static ALWAYS_INLINE const char *take_call(struct block_decoder *decoder, struct trace_event *event) {
  event->call = *decoder->columns[COLUMN_CALL].at++;
  uint8_t traits = call_traits[event->call];
  if (!(traits & CALL_IS_LEGAL))
    return "unknown call or impossible flags";
  if ((traits & CALL_HAS_SIZE) && !take(decoder, COLUMN_SIZE, &event->size_bytes))
    return "size column is too short or has a bad number";
  if (__builtin_expect(traits & CALL_HAS_PARAM, 0) && !take(decoder, COLUMN_PARAM, &event->param))
    return "param column is too short or has a bad number";
  return NULL;
}

static const char *take_row(struct block_decoder *decoder, struct trace_event *event) {
  uint64_t call;
  if (!take(decoder, COLUMN_ROWS, &call))
    return "row column is too short or has a bad number";
  if (call > UINT8_MAX || !trace_call_is_legal((uint8_t)call))
    return "unknown call or impossible flags";
  event->call = (uint8_t)call;
  uint8_t traits = call_traits[call];
  if (((traits & CALL_HAS_SIZE) && !take(decoder, COLUMN_ROWS, &event->size_bytes)) ||
      ((traits & CALL_HAS_PARAM) && !take(decoder, COLUMN_ROWS, &event->param)))
    return "row column is too short or has a bad number";
  return NULL;
}

/* The OS pages of the object that the event released, if column 11 has them. */
static const char *take_touched(struct block_decoder *decoder, struct trace_event *event) {
  if (decoder->releases_to_touched-- > 0)
    return NULL;
  event->touched_os_pages = (uint32_t)decoder->touched_os_pages + 1;
  if (decoder->touched_to_parts != UINT64_MAX && decoder->touched_to_parts-- == 0) {
    event->touched_parts = (uint32_t)decoder->touched_parts;
    if ((uint64_t)__builtin_popcount(event->touched_parts) > decoder->touched_os_pages)
      return "more touched parts than touched OS pages";
    const char *wrong = next_parts(decoder);
    if (wrong)
      return wrong;
  }
  return next_touched(decoder);
}

/* Decodes the next row. Returns NULL, or what is wrong. */
static ALWAYS_INLINE const char *decode_row(struct block_decoder *decoder, struct trace_event *event, bool archive) {
  const char *wrong;
  memset(event, 0, sizeof *event);
  if ((wrong = archive ? take_row(decoder, event) : take_call(decoder, event)) ||
      (wrong = take_step(decoder, &event->release_stamp)))
    return wrong;
  event->acquire_stamp = event->release_stamp;
  uint8_t traits = trace_event_traits(event);
  if ((traits & EVENT_TAKES) && (wrong = take_release(decoder, event, traits, archive)))
    return wrong;
  if ((traits & EVENT_RELEASES) && decoder->releases_to_touched != UINT64_MAX && (wrong = take_touched(decoder, event)))
    return wrong;
  if (traits & EVENT_ACQUIRES) {
    if ((traits & EVENT_RELEASES) && (wrong = take_step(decoder, &event->acquire_stamp)))
      return wrong;
    if ((wrong = archive ? take_place(decoder, event) : take_acquire(decoder, event)))
      return wrong;
  }
  if (__builtin_expect(decoder->has_optional, 0) && (wrong = take_optional(decoder, event)))
    return wrong;
  return ++decoder->row == decoder->rows ? check_end(decoder) : NULL;
}

/* Recordings and archives each have a loop, with the same functions. Both return how many rows are sound. */
static uint32_t decode_recorded_rows(struct block_decoder *decoder, struct trace_event *events, uint32_t count,
                                     const char **wrong) {
  for (uint32_t i = 0; i < count; i++)
    if ((*wrong = decode_row(decoder, &events[i], false)))
      return i;
  return count;
}

static uint32_t decode_archived_rows(struct block_decoder *decoder, struct trace_event *events, uint32_t count,
                                     const char **wrong) {
  for (uint32_t i = 0; i < count; i++)
    if ((*wrong = decode_row(decoder, &events[i], true)))
      return i;
  return count;
}

uint32_t block_decode_rows(struct block_decoder *decoder, struct trace_event *events, uint32_t count,
                           const char **wrong) {
  uint32_t left = decoder->rows - decoder->row, rows = count < left ? count : left;
  return decoder->archive ? decode_archived_rows(decoder, events, rows, wrong)
                          : decode_recorded_rows(decoder, events, rows, wrong);
}

void block_decoder_free(struct block_decoder *decoder) {
  buffer_free(&decoder->acquires);
  buffer_free(&decoder->freed);
  buffer_free(&decoder->links);
  free(decoder->fresh);
  decoder->fresh = NULL;
}

/* SPDX-License-Identifier: MIT */
#include "core/workload/slots.h"

#include <stdlib.h>
#include <string.h>

bool slots_init(struct slots *slots, uint32_t threads) {
  memset(slots, 0, sizeof *slots);
  slots->orphan_lines = SLOTS_NONE;
  slots->lists = malloc((threads + 1) * sizeof *slots->lists);
  slots->ended = calloc(threads + 1, sizeof *slots->ended);
  for (uint32_t i = 0; slots->lists && i < threads; i++)
    slots->lists[i] = SLOTS_NONE;
  return slots->lists && slots->ended;
}

bool slots_add_threads(struct slots *slots, uint32_t threads, uint32_t more) {
  size_t room = (size_t)threads + more + 1;
  uint32_t *lists = realloc(slots->lists, room * sizeof *lists);
  if (lists)
    slots->lists = lists;
  bool *ended = realloc(slots->ended, room * sizeof *ended);
  if (ended)
    slots->ended = ended;
  if (!lists || !ended)
    return false;
  for (uint32_t i = threads; i < threads + more; i++) {
    lists[i] = SLOTS_NONE;
    ended[i] = false;
  }
  return true;
}

void slots_free(struct slots *slots) {
  free(slots->at);
  free(slots->lines);
  free(slots->lists);
  free(slots->ended);
}

static void push(struct slots *slots, uint32_t *list, uint32_t slot) {
  slots->at[slot].size_bytes = *list;
  *list = slot;
}

static uint32_t pop(struct slots *slots, uint32_t *list) {
  uint32_t slot = *list;
  if (slot != SLOTS_NONE)
    *list = (uint32_t)slots->at[slot].size_bytes;
  return slot;
}

static bool grow(struct slots *slots) {
  if (slots->room > UINT32_MAX - 2 - SLOTS_PER_LINE)
    return false;
  uint64_t room = slots->room ? 2 * (uint64_t)slots->room : 1024;
  if (room > UINT32_MAX - 2)
    room = (UINT32_MAX - 2) / SLOTS_PER_LINE * SLOTS_PER_LINE;
  struct slot *at = realloc(slots->at, room * sizeof *at);
  if (at)
    slots->at = at;
  struct slot_line *lines = realloc(slots->lines, room / SLOTS_PER_LINE * sizeof *lines);
  if (lines)
    slots->lines = lines;
  if (!at || !lines)
    return false;
  slots->room = (uint32_t)room;
  return true;
}

/* Gives the thread, whose list is empty, a line of an ended thread, or else a new line. */
static bool refill(struct slots *slots, uint32_t thread) {
  if (slots->orphan_lines != SLOTS_NONE) {
    struct slot_line *line = &slots->lines[slots->orphan_lines];
    slots->orphan_lines = line->next_orphan_line;
    slots->lists[thread] = line->orphans;
    *line = (struct slot_line){.owner = thread, .orphans = SLOTS_NONE};
    return true;
  }
  if (slots->count == slots->room && !grow(slots))
    return false;
  slots->lines[slots->count / SLOTS_PER_LINE] = (struct slot_line){.owner = thread, .orphans = SLOTS_NONE};
  slots->count += SLOTS_PER_LINE;
  for (uint32_t i = 1; i <= SLOTS_PER_LINE; i++) {
    uint32_t slot = slots->count - i;
    slots->at[slot].last = 0;
    push(slots, &slots->lists[thread], slot);
  }
  return true;
}

uint32_t slots_take_new(struct slots *slots, uint32_t thread) {
  if (!refill(slots, thread))
    return SLOTS_NONE;
  return pop(slots, &slots->lists[thread]);
}

/* Takes back an empty slot of a line whose owner has ended. */
static void give_orphan(struct slots *slots, uint32_t slot) {
  struct slot_line *line = &slots->lines[slot / SLOTS_PER_LINE];
  if (line->orphans == SLOTS_NONE) {
    line->next_orphan_line = slots->orphan_lines;
    slots->orphan_lines = slot / SLOTS_PER_LINE;
  }
  push(slots, &line->orphans, slot);
}

static void give_back(struct slots *slots, uint32_t slot) {
  uint32_t owner = slots->lines[slot / SLOTS_PER_LINE].owner;
  if (slots->ended[owner])
    give_orphan(slots, slot);
  else
    push(slots, &slots->lists[owner], slot);
}

void slots_give_remote(struct slots *slots, uint32_t slot) {
  uint32_t *place = &slots->quarantine[slots->quarantine_next];
  slots->quarantine_next = (slots->quarantine_next + 1) % SLOTS_QUARANTINE;
  if (slots->quarantine_count == SLOTS_QUARANTINE)
    give_back(slots, *place);
  else
    slots->quarantine_count++;
  *place = slot;
}

void slots_end_thread(struct slots *slots, uint32_t thread) {
  slots->ended[thread] = true;
  for (uint32_t slot; (slot = pop(slots, &slots->lists[thread])) != SLOTS_NONE;)
    give_orphan(slots, slot);
}

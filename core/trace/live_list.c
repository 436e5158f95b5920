/* SPDX-License-Identifier: MIT */
#include "core/trace/live_list.h"

#include "core/base/assert.h"
#include "core/base/leb.h"

#include <string.h>

#define NOT_LIVE UINT32_MAX
enum { END = 0, NOT_NEAR = 2 * LIVE_STEPS };

void live_list_begin(struct live_list *list, struct live_links *nodes) {
  memset(list, 0, sizeof *list);
  list->nodes = nodes;
  nodes[END] = (struct live_links){END, END};
}

void live_list_acquire(struct live_list *list) {
  uint32_t node = ++list->acquired, newest = list->nodes[END].older;
  list->nodes[node] = (struct live_links){newest, END};
  list->nodes[newest].newer = node;
  list->nodes[END].older = node;
}

/* How to reach the node from a cursor's place: 2 x steps, plus 1 towards the older; NOT_NEAR: it is too many steps
   away. */
static uint32_t way_from(const struct live_list *list, uint32_t place, uint32_t node) {
  const struct live_links *nodes = list->nodes;
  uint32_t newer = place, older = nodes[place].older;
  for (uint32_t steps = 0; steps < LIVE_STEPS; steps++) {
    if (newer == node)
      return 2 * steps;
    if (older == node)
      return 2 * steps + 1;
    newer = newer == END ? END : nodes[newer].newer;
    older = older == END ? END : nodes[older].older;
  }
  return NOT_NEAR;
}

/* How many objects are newer; LIVE_NEWEST: that many or more. */
static uint32_t newer_than(const struct live_list *list, uint32_t node) {
  uint32_t at = list->nodes[END].older, newer = 0;
  while (newer < LIVE_NEWEST && at != node && at != END) {
    at = list->nodes[at].older;
    newer++;
  }
  return at == node ? newer : LIVE_NEWEST;
}

/* The far reference, relative to the cursor whose acquire is nearest in number. */
static uint64_t far_of(const struct live_list *list, uint32_t number) {
  int64_t least = INT64_MAX;
  uint64_t far = 0;
  for (uint32_t i = 0; i < LIVE_CURSORS; i++) {
    int64_t further = (int64_t)number - list->cursors[i].number;
    int64_t distance = further < 0 ? -further : further;
    if (distance < least) {
      least = distance;
      far = zigzag(further) * LIVE_CURSORS + i;
    }
  }
  return far;
}

struct live_reference live_list_name(const struct live_list *list, uint32_t number) {
  HT_ASSERT(number < list->acquired);
  uint32_t node = number + 1, nearest = NOT_NEAR, cursor = 0;
  struct live_reference reference = {LIVE_CODE_FAR, 0};
  if (list->nodes[node].older != NOT_LIVE) {
    for (uint32_t i = 0; i < LIVE_CURSORS && nearest; i++) {
      uint32_t way = way_from(list, list->cursors[i].newer, node);
      if (way < nearest) {
        nearest = way;
        cursor = i;
      }
    }
    uint32_t newer = newer_than(list, node);
    if (nearest != NOT_NEAR && nearest < 2 * newer)
      reference.code = LIVE_CODE_CURSOR + 2 * LIVE_STEPS * cursor + nearest;
    else if (newer < LIVE_NEWEST)
      reference.code = LIVE_CODE_NEWEST + newer;
  }
  if (reference.code == LIVE_CODE_FAR)
    reference.far = far_of(list, number);
  return reference;
}

bool live_list_find(const struct live_list *list, struct live_reference reference, uint32_t *number) {
  const struct live_links *nodes = list->nodes;
  uint64_t code = reference.code;
  uint32_t node = nodes[END].older;
  if (code >= LIVE_CODE_FAR) {
    const struct live_cursor *cursor = &list->cursors[reference.far % LIVE_CURSORS];
    uint64_t found = cursor->number + (uint64_t)unzigzag(reference.far / LIVE_CURSORS);
    *number = (uint32_t)found;
    return code == LIVE_CODE_FAR && found < list->acquired;
  }
  if (code < LIVE_CODE_CURSOR) {
    for (uint64_t newer = code - LIVE_CODE_NEWEST; newer && node != END; newer--)
      node = nodes[node].older;
  } else {
    uint64_t way = (code - LIVE_CODE_CURSOR) % NOT_NEAR, steps = way / 2;
    uint32_t place = list->cursors[(code - LIVE_CODE_CURSOR) / NOT_NEAR].newer;
    node = way % 2 ? nodes[place].older : place;
    for (; steps && node != END; steps--)
      node = way % 2 ? nodes[node].older : nodes[node].newer;
  }
  *number = node - 1;
  return node != END;
}

static void remove_node(struct live_list *list, uint32_t node) {
  struct live_links *nodes = list->nodes, links = nodes[node];
  nodes[links.older].newer = links.newer;
  nodes[links.newer].older = links.older;
  nodes[node].older = NOT_LIVE;
  for (uint32_t i = 0; i < LIVE_CURSORS; i++)
    if (list->cursors[i].newer == node)
      list->cursors[i].newer = links.newer;
}

void live_list_refer(struct live_list *list, uint64_t code, uint32_t number, bool releases) {
  uint32_t node = number + 1;
  if (list->nodes[node].older == NOT_LIVE)
    return;
  bool by_cursor = code >= LIVE_CODE_CURSOR && code < LIVE_CODE_FAR;
  uint64_t replaced = by_cursor ? (code - LIVE_CODE_CURSOR) / NOT_NEAR : LIVE_CURSORS - 1;
  memmove(&list->cursors[1], &list->cursors[0], replaced * sizeof list->cursors[0]);
  list->cursors[0] = (struct live_cursor){list->nodes[node].newer, number};
  if (releases)
    remove_node(list, node);
}

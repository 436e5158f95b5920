/* SPDX-License-Identifier: MIT */
#include "convert/whatif/moved_births.h"

#include <stdlib.h>

int moved_births_init(struct moved_births *moved, uint32_t threads) {
  *moved = (struct moved_births){.free_list = BIRTHS_NONE};
  moved->first = malloc((threads + 1ull) * sizeof *moved->first);
  moved->last = malloc((threads + 1ull) * sizeof *moved->last);
  if (!moved->first || !moved->last)
    return -1;
  for (uint32_t thread = 0; thread < threads; thread++)
    moved->first[thread] = moved->last[thread] = BIRTHS_NONE;
  return 0;
}

void moved_births_free(struct moved_births *moved) {
  free(moved->births.at);
  free(moved->first);
  free(moved->last);
}

uint32_t moved_births_add(struct moved_births *moved, const struct history_op *op) {
  uint32_t number = moved->free_list;
  if (number != BIRTHS_NONE) {
    moved->free_list = moved->births.at[number].next;
  } else {
    if (moved->births.count == BIRTHS_NONE || !vector_add(&moved->births))
      return BIRTHS_NONE;
    number = (uint32_t)moved->births.count - 1;
  }
  uint32_t last = moved->last[op->thread];
  moved->births.at[number] = (struct birth){.size_bytes = op->size_bytes,
                                            .param = op->param,
                                            .request_bytes = op->request_bytes,
                                            .thread = op->thread,
                                            .stack = op->event ? op->event->stack : 0,
                                            .slot = BIRTHS_NONE,
                                            .next = BIRTHS_NONE,
                                            .previous = last,
                                            .call = op->call};
  if (last == BIRTHS_NONE)
    moved->first[op->thread] = number;
  else
    moved->births.at[last].next = number;
  moved->last[op->thread] = number;
  return number;
}

void moved_births_remove(struct moved_births *moved, uint32_t number) {
  struct birth *birth = &moved->births.at[number];
  if (birth->previous == BIRTHS_NONE)
    moved->first[birth->thread] = birth->next;
  else
    moved->births.at[birth->previous].next = birth->next;
  if (birth->next == BIRTHS_NONE)
    moved->last[birth->thread] = birth->previous;
  else
    moved->births.at[birth->next].previous = birth->previous;
  birth->next = moved->free_list;
  moved->free_list = number;
}

struct history_op moved_birth_op(const struct birth *birth, uint64_t stamp, struct trace_event *event) {
  *event = (struct trace_event){
      .size_bytes = birth->size_bytes, .param = birth->param, .stack = birth->stack, .call = birth->call};
  return (struct history_op){.kind = HISTORY_ACQUIRE,
                             .call = birth->call,
                             .thread = birth->thread,
                             .size_bytes = birth->size_bytes,
                             .param = birth->param,
                             .request_bytes = birth->request_bytes,
                             .stamp = stamp,
                             .moved = true,
                             .event = event};
}

/* SPDX-License-Identifier: MIT */
#include "core/trace/write/stack_table.h"

#include "core/trace/layout.h"

#include <stdlib.h>
#include <string.h>

static struct stack_slot *find(const struct stack_table *table, uint32_t parent, uint64_t instruction) {
  uint64_t hash = (instruction ^ (uint64_t)parent << 32) * 0x9e3779b97f4a7c15u;
  uint32_t at = (uint32_t)(hash >> 32) & table->mask;
  while (table->slots[at].node && (table->slots[at].instruction != instruction || table->slots[at].parent != parent))
    at = (at + 1) & table->mask;
  return &table->slots[at];
}

static bool grow(struct stack_table *table) {
  uint32_t old_count = table->slots ? table->mask + 1 : 0, count = old_count ? 2 * old_count : 1024;
  struct stack_slot *slots = calloc(count, sizeof *slots), *old = table->slots;
  if (!slots)
    return false;
  table->slots = slots;
  table->mask = count - 1;
  for (uint32_t i = 0; i < old_count; i++)
    if (old[i].node)
      *find(table, old[i].parent, old[i].instruction) = old[i];
  free(old);
  return true;
}

uint32_t stack_table_node(struct stack_table *table, uint32_t parent, uint64_t instruction, bool *fresh) {
  *fresh = false;
  if (parent > table->nodes || ((!table->slots || table->used > table->mask / 2) && !grow(table)))
    return 0;
  struct stack_slot *slot = find(table, parent, instruction);
  if (slot->node || table->nodes == TRACE_MAX_STACK_NODES)
    return slot->node;
  *fresh = true;
  table->used++;
  *slot = (struct stack_slot){instruction, parent, ++table->nodes};
  return slot->node;
}

void stack_table_forget(struct stack_table *table) {
  if (table->slots)
    memset(table->slots, 0, ((size_t)table->mask + 1) * sizeof *table->slots);
  table->used = 0;
}

void stack_table_free(struct stack_table *table) {
  free(table->slots);
  *table = (struct stack_table){0};
}

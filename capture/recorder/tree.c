/* SPDX-License-Identifier: MIT */
#include "capture/recorder/tree.h"

#include "core/base/vector.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64 };

struct node {
  int pid, parent_pid;
  uint32_t number; /* in the order in which processes began */
  int32_t parent;  /* index; -1: none */
  uint64_t events, dropped;
  bool shown;
  char name[NAME_BYTES], end[12];
  char *path;
};

struct tree {
  VECTOR(struct node) nodes;
  uint32_t lost; /* not added, for lack of memory */
};

struct tree *tree_new(void) {
  return calloc(1, sizeof(struct tree));
}

void tree_free(struct tree *tree) {
  for (uint32_t i = 0; tree && i < tree->nodes.count; i++)
    free(tree->nodes.at[i].path);
  if (tree)
    free(tree->nodes.at);
  free(tree);
}

void tree_add(struct tree *tree, const struct process_summary *process) {
  if (!tree)
    return;
  if (!vector_reserve(&tree->nodes, tree->nodes.count + 1)) {
    tree->lost++;
    return;
  }
  struct node *node = &tree->nodes.at[tree->nodes.count];
  *node = (struct node){.pid = process->pid,
                        .parent_pid = process->parent_pid,
                        .number = process->number,
                        .parent = -1,
                        .events = process->totals->totals.events,
                        .dropped = process->totals->totals.dropped,
                        .path = strdup(process->path)};
  snprintf(node->name, sizeof node->name, "%s", process->name);
  snprintf(node->end, sizeof node->end, "%s", process->end);
  if (node->path)
    tree->nodes.count++;
  else
    tree->lost++;
}

static int by_number(const void *left, const void *right) {
  const struct node *a = left, *b = right;
  return COMPARE(a->number, b->number);
}

/* An image that was exec'ed is a child of the image before it. A new process is a child of its parent's image at that
   time, the last one that began before it. */
static void link_nodes(const struct tree *tree) {
  for (uint32_t i = 0; i < tree->nodes.count; i++) {
    struct node *node = &tree->nodes.at[i];
    for (uint32_t k = i; k-- > 0 && node->parent < 0;)
      if (tree->nodes.at[k].pid == node->pid && strcmp(tree->nodes.at[k].end, "exec") == 0)
        node->parent = (int32_t)k;
    for (uint32_t k = i; k-- > 0 && node->parent < 0;)
      if (tree->nodes.at[k].pid == node->parent_pid)
        node->parent = (int32_t)k;
  }
}

/* Marks what is to be shown: the nodes with most events, and their parents. */
static void choose(const struct tree *tree) {
  for (uint32_t shown = 0; shown < TREE_LINES;) {
    struct node *most = NULL;
    for (uint32_t i = 0; i < tree->nodes.count; i++)
      if (!tree->nodes.at[i].shown && (!most || tree->nodes.at[i].events > most->events))
        most = &tree->nodes.at[i];
    if (!most)
      return;
    for (; !most->shown; most = &tree->nodes.at[most->parent]) {
      most->shown = true;
      shown++;
      if (most->parent < 0)
        break;
    }
  }
}

static void print_children(const struct tree *tree, int32_t parent, unsigned depth, FILE *out) {
  enum { DEPTH_SHOWN = 12 };
  unsigned indent = 2 * (depth < DEPTH_SHOWN ? depth : DEPTH_SHOWN) + 2;
  uint32_t hidden = 0;
  uint64_t hidden_events = 0;
  for (uint32_t i = 0; i < tree->nodes.count; i++) {
    const struct node *node = &tree->nodes.at[i];
    if (node->parent != parent)
      continue;
    if (!node->shown) {
      hidden++;
      hidden_events += node->events;
      continue;
    }
    fprintf(out, "%*s%s (%d): %llu events", (int)indent, "", node->name, node->pid, (unsigned long long)node->events);
    if (node->dropped)
      fprintf(out, ", %llu dropped", (unsigned long long)node->dropped);
    fprintf(out, "%s%s, %s\n", strcmp(node->end, "exit") == 0 ? "" : ", ", strcmp(node->end, "exit") ? node->end : "",
            node->path);
    print_children(tree, (int32_t)i, depth + 1, out);
  }
  if (hidden)
    fprintf(out, "%*s... %u more, %llu events\n", (int)indent, "", hidden, (unsigned long long)hidden_events);
}

void tree_print(const struct tree *tree, FILE *out) {
  if (!tree || tree->nodes.count + tree->lost < 2)
    return;
  vector_sort(&tree->nodes, by_number);
  link_nodes(tree);
  choose(tree);
  print_children(tree, -1, 0, out);
  if (tree->lost)
    fprintf(out, "  ... %u more\n", tree->lost);
}

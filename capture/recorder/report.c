/* SPDX-License-Identifier: MIT */
#include "capture/recorder/record.h"

#include "core/base/diagnostics.h"
#include "core/base/vector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64, TREE_LINES = 24 };

struct node {
  int pid, parent_pid;
  uint32_t number; /* in the order in which processes began */
  int32_t parent;  /* index; -1: none */
  uint64_t events, dropped;
  bool shown;
  char name[NAME_BYTES], end[12];
  char *path;
};

static struct tree {
  VECTOR(struct node) nodes;
  uint32_t lost; /* not added, for lack of memory */
} tree;

static void add_node(const struct process_summary *process) {
  if (!vector_reserve(&tree.nodes, tree.nodes.count + 1)) {
    tree.lost++;
    return;
  }
  struct node *node = &tree.nodes.at[tree.nodes.count];
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
    tree.nodes.count++;
  else
    tree.lost++;
}

static int by_number(const void *left, const void *right) {
  const struct node *a = left, *b = right;
  return COMPARE(a->number, b->number);
}

/* An image that was exec'ed is a child of the image before it. A new process is a child of its parent's image at that
   time, the last one that began before it. */
static void link_nodes(void) {
  for (uint32_t i = 0; i < tree.nodes.count; i++) {
    struct node *node = &tree.nodes.at[i];
    for (uint32_t k = i; k-- > 0 && node->parent < 0;)
      if (tree.nodes.at[k].pid == node->pid && strcmp(tree.nodes.at[k].end, "exec") == 0)
        node->parent = (int32_t)k;
    for (uint32_t k = i; k-- > 0 && node->parent < 0;)
      if (tree.nodes.at[k].pid == node->parent_pid)
        node->parent = (int32_t)k;
  }
}

/* Marks what is to be shown: the nodes with most events, and their parents. */
static void choose(void) {
  for (uint32_t shown = 0; shown < TREE_LINES;) {
    struct node *most = NULL;
    for (uint32_t i = 0; i < tree.nodes.count; i++)
      if (!tree.nodes.at[i].shown && (!most || tree.nodes.at[i].events > most->events))
        most = &tree.nodes.at[i];
    if (!most)
      return;
    for (; !most->shown; most = &tree.nodes.at[most->parent]) {
      most->shown = true;
      shown++;
      if (most->parent < 0)
        break;
    }
  }
}

static void print_children(int32_t parent, unsigned depth, FILE *out) {
  enum { DEPTH_SHOWN = 12 };
  unsigned indent = 2 * (depth < DEPTH_SHOWN ? depth : DEPTH_SHOWN) + 2;
  uint32_t hidden = 0;
  uint64_t hidden_events = 0;
  for (uint32_t i = 0; i < tree.nodes.count; i++) {
    const struct node *node = &tree.nodes.at[i];
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
    print_children((int32_t)i, depth + 1, out);
  }
  if (hidden)
    fprintf(out, "%*s... %u more, %llu events\n", (int)indent, "", hidden, (unsigned long long)hidden_events);
}

static void print_tree(FILE *out) {
  if (tree.nodes.count + tree.lost < 2)
    return;
  vector_sort(&tree.nodes, by_number);
  link_nodes();
  choose();
  print_children(-1, 0, out);
  if (tree.lost)
    fprintf(out, "  ... %u more\n", tree.lost);
}

void report_tree(void) {
  if (!diagnostics_quiet())
    print_tree(stderr);
  for (uint32_t i = 0; i < tree.nodes.count; i++)
    free(tree.nodes.at[i].path);
  free(tree.nodes.at);
  tree = (struct tree){.lost = 0};
}

void report_error(const struct error *error) {
  diagnostics_error(RECORD, "%s", error->text);
}

static struct report_written written;
static void note_written(const struct process_summary *process) {
  uint64_t events = process->totals->totals.events;
  written.bursts += (process->totals->totals.accesses.switches + 1) / 2;
  if (written.traces++ == 0 || events > written.events) {
    written.events = events;
    snprintf(written.path, sizeof written.path, "%s", process->path);
  }
  if (!process->continues)
    add_node(process);
}

void report_process(const struct process_summary *process, const struct error *error) {
  enum { LINES = 8 };
  const struct process_totals *totals = process->totals;
  const struct trace_totals *t = &totals->totals;
  if (error->text[0]) {
    diagnostics_error(RECORD,
                      "%s; the trace of process %d ends early: %llu events are in it, at least %llu more are not",
                      error->text, process->pid, (unsigned long long)t->events, (unsigned long long)t->lost);
    note_written(process);
    return;
  }
  note_written(process);
  if (totals->broken)
    diagnostics_error(RECORD, "%s: %llu records are invalid: process %d has overwritten its rings", process->path,
                      (unsigned long long)totals->broken, process->pid);
  uint64_t dropped = t->dropped - totals->skipped;
  if ((written.traces > LINES || diagnostics_quiet()) && !dropped && !totals->cut_why)
    return;
  fprintf(stderr, "heaptape: %s: %llu events, %u threads, %llu dropped, %.2f bytes/event, %.2f s", process->path,
          (unsigned long long)t->events, t->threads, (unsigned long long)dropped,
          t->events ? (double)t->file_bytes / (double)t->events : 0.0, totals->seconds);
  if (totals->skipped)
    fprintf(stderr, ", %llu not recorded in pauses", (unsigned long long)totals->skipped);
  if (t->accesses.recorded)
    fprintf(stderr, ", %llu accesses", (unsigned long long)(t->accesses.objects + t->accesses.other));
  if (t->accesses.in_bursts)
    fprintf(stderr, " in %llu burst%s%s", (unsigned long long)(t->accesses.switches + 1) / 2,
            (t->accesses.switches + 1) / 2 == 1 ? "" : "s",
            t->accesses.switches % 2 ? ", the last one up to the end" : "");
  if (totals->cut_why)
    fprintf(stderr, "; %s", totals->cut_why);
  fputc('\n', stderr);
  if (totals->accesses_over)
    diagnostics_warning(RECORD, "%s: data accesses end before the events: %s", process->path, totals->accesses_over);
  if (totals->stacks_lost)
    diagnostics_warning(RECORD, "%s: %llu call stacks could not be taken; their events are in the trace without one",
                        process->path, (unsigned long long)totals->stacks_lost);
}

const struct report_written *report_written(void) {
  return &written;
}

/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/copying/trace_annotations.h"

#include "core/base/vector.h"

#include <stdlib.h>

struct modules {
  VECTOR(struct trace_module) list;
};

struct stack_copier {
  struct trace_stacks *stacks;
  struct trace_writer *writer;
  const struct modules *modules;
  size_t modules_written;
  bool nodes_written;
  uint64_t address_offset;
};

static int take_module(void *context, const struct trace_module *module) {
  struct modules *modules = context;
  struct trace_module *copy = vector_add(&modules->list);
  return copy && trace_module_copy(copy, module) ? 0 : 1;
}

static void modules_free(struct modules *modules) {
  for (size_t i = 0; i < modules->list.count; i++)
    trace_module_free_texts(&modules->list.at[i]);
  free(modules->list.at);
}

/* Writes the modules up to the first `until` of them. A new module may replace others: addresses then belong to other
   code. */
static int write_modules(struct stack_copier *copier, size_t until) {
  if (copier->nodes_written && copier->modules_written < until)
    trace_writer_forget_stacks(copier->writer);
  while (copier->modules_written < until && copier->modules_written < copier->modules->list.count) {
    struct trace_module module = copier->modules->list.at[copier->modules_written++];
    module.start += copier->address_offset;
    module.end += copier->address_offset;
    module.bias += copier->address_offset;
    if (trace_writer_module(copier->writer, &module) != 0)
      return -1;
  }
  return 0;
}

static int take_node(void *context, const struct trace_stack_node *node) {
  struct stack_copier *copier = context;
  struct trace_stacks *stacks = copier->stacks;
  if (write_modules(copier, node->modules) != 0)
    return 1;
  copier->nodes_written = true;
  if (node->node < stacks->count)
    stacks->nodes[node->node] = trace_writer_stack_node(copier->writer, trace_stacks_node(stacks, node->parent),
                                                        node->instruction + copier->address_offset);
  return 0;
}

int trace_copy_stacks(struct trace_stacks *stacks, struct trace_reader *reader, struct trace_out *out,
                      uint64_t address_offset, struct error *error) {
  struct modules modules = {0};
  struct stack_copier copier = {stacks, trace_out_writer(out), &modules, 0, false, address_offset};
  stacks->count = trace_reader_summary(reader)->stack_nodes + 1;
  stacks->nodes = calloc(stacks->count, sizeof *stacks->nodes);
  int result = stacks->nodes ? trace_reader_modules(reader, take_module, &modules, error) : 1;
  if (result == 0)
    result = trace_reader_stacks(reader, take_node, &copier, error);
  if (result == 0)
    result = write_modules(&copier, modules.list.count);
  modules_free(&modules);
  if (result > 0)
    error_set(error, trace_reader_path(reader), "its stacks can't be copied: out of memory or disk");
  return result == 0 ? 0 : -1;
}

void trace_stacks_free(struct trace_stacks *stacks) {
  free(stacks->nodes);
}

struct name_copier {
  struct trace_out *out;
  const uint32_t *threads;
};

static int take_name(void *context, uint32_t thread, const char *name) {
  const struct name_copier *copier = context;
  uint32_t number = trace_out_thread(copier->out, copier->threads ? copier->threads[thread] : thread);
  return number == UINT32_MAX ? 0 : trace_writer_thread_name(trace_out_writer(copier->out), number, name);
}

int trace_copy_thread_names(struct trace_reader *reader, struct trace_out *out, const uint32_t *threads,
                            struct error *error) {
  struct name_copier copier = {out, threads};
  return trace_reader_thread_names(reader, take_name, &copier, error);
}

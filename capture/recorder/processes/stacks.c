/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/stacks.h"

#include "capture/recorder/processes/mapped_file.h"
#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/base/vector.h"
#include "core/elf/elf_file.h"
#include "core/system/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct module *add(struct modules *modules) {
  struct module *module = vector_add(modules);
  if (module)
    *module = (struct module){0};
  return module;
}

/* Successive mappings of one file, the first of them from its start, are one module; without code they are not a
   module. */
static bool read_modules(struct modules *current, int pid) {
  FILE *maps = proc_open_maps(pid);
  if (!maps)
    return false;
  struct proc_mapping mapping;
  struct module *last = NULL;
  bool runs = false;
  while (proc_maps_next(maps, &mapping)) {
    bool vdso = strcmp(mapping.path, "[vdso]") == 0;
    bool continues = last && !vdso && mapping.inode && last->inode == mapping.inode && last->device == mapping.device &&
                     mapping.offset > 0;
    if (continues) {
      last->record.end = mapping.end;
      runs |= mapping.permissions[2] == 'x';
      continue;
    }
    if (last && !runs && last == &current->at[current->count - 1])
      trace_module_free_texts(&current->at[--current->count].record);
    if (mapping.inode == 0 && !vdso) /* anonymous memory between two parts of a module does not end the module */
      continue;
    last = add(current);
    if (!last)
      break;
    runs = mapping.permissions[2] == 'x';
    last->device = mapping.device;
    last->inode = mapping.inode;
    last->record = (struct trace_module){.path = strdup(mapping.path),
                                         .start = mapping.start,
                                         .end = mapping.end,
                                         .bias = mapping.start - mapping.offset};
    if (vdso)
      last = NULL;
  }
  if (last && !runs && last == &current->at[current->count - 1])
    trace_module_free_texts(&current->at[--current->count].record);
  fclose(maps);
  return true;
}

static bool is_same(const struct module *a, const struct module *b) {
  return a->record.start == b->record.start && a->device == b->device && a->inode == b->inode;
}

/* Base name, build id and bias of a module that is new. */
static void describe(struct module *module, int pid) {
  char id[ELF_BUILD_ID_TEXT];
  const char *slash = strrchr(module->record.path ? module->record.path : "", '/');
  module->record.name = strdup(slash ? slash + 1 : module->record.path ? module->record.path : "");
  struct proc_mapping mapping = {.device = module->device, .inode = module->inode};
  if (slash)
    snprintf(mapping.path, sizeof mapping.path, "%s", module->record.path);
  int fd = slash ? mapped_file_open(pid, &mapping) : -1;
  if (fd < 0)
    return;
  struct elf_memory memory = elf_descriptor(&fd);
  struct elf_file file;
  if (elf_file_read(&memory, &file)) {
    const Elf64_Phdr *first = elf_segment(&file.segments, PT_LOAD);
    module->record.bias -= first ? first->p_vaddr - first->p_offset : 0;
    if (elf_file_build_id(fd, &file, id))
      module->record.build_id = strdup(id);
  }
  close(fd);
}

static int by_start(const void *left, const void *right) {
  const struct module *a = left, *b = right;
  return COMPARE(a->record.start, b->record.start);
}

/* Keeps modules that are no longer mapped and whose addresses no other module has, so that a module that is mapped
   there later is known to replace them. */
static void keep_gone(struct modules *current, struct modules *before) {
  size_t count = current->count, now = 0;
  for (size_t old = 0; old < before->count; old++) {
    struct module *module = &before->at[old];
    while (now < count && current->at[now].record.end <= module->record.start)
      now++;
    if (now < count && current->at[now].record.start < module->record.end)
      continue;
    struct module *kept = add(current);
    if (!kept)
      return;
    *kept = *module;
    kept->gone = true;
    kept->is_new = false;
    module->record = (struct trace_module){0};
  }
  qsort(current->at, current->count, sizeof *current->at, by_start);
}

static void modules_free(struct modules *modules) {
  for (size_t i = 0; i < modules->count; i++)
    trace_module_free_texts(&modules->at[i].record);
  free(modules->at);
  *modules = (struct modules){0};
}

enum modules_change { MODULES_SAME, MODULES_MORE, MODULES_REPLACED };

/* Reads what is mapped now. MORE: there are new modules; REPLACED: a new one has addresses of another, which was
   unmapped since. SAME also where nothing can be read. */
static enum modules_change modules_refresh(struct modules *modules, int pid) {
  struct modules current = {0};
  enum modules_change change = MODULES_SAME;
  if (!read_modules(&current, pid) || current.count == 0) {
    modules_free(&current);
    return MODULES_SAME;
  }
  for (size_t i = 0, old = 0; i < current.count; i++) {
    struct module *now = &current.at[i];
    while (old < modules->count && modules->at[old].record.end <= now->record.start)
      old++;
    if (old < modules->count && is_same(&modules->at[old], now)) {
      uint64_t end = now->record.end;
      trace_module_free_texts(&now->record);
      *now = modules->at[old];
      now->record.end = end;
      now->is_new = now->gone = false;
      modules->at[old].record = (struct trace_module){.start = now->record.start, .end = now->record.end};
      continue;
    }
    bool replaces = old < modules->count && modules->at[old].record.start < now->record.end;
    describe(now, pid);
    now->is_new = true;
    if (replaces)
      change = MODULES_REPLACED;
    else if (change == MODULES_SAME)
      change = MODULES_MORE;
  }
  keep_gone(&current, modules);
  modules_free(modules);
  *modules = current;
  return change;
}

/* Is address in a module that was mapped at the last refresh? */
static bool modules_have(const struct modules *modules, uint64_t address) {
  size_t low = 0, high = modules->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (address < modules->at[middle].record.start)
      high = middle;
    else if (address >= modules->at[middle].record.end)
      low = middle + 1;
    else
      return !modules->at[middle].gone;
  }
  return false;
}

/* Code outside all modules makes us read the modules again, less and less often where nothing is found, as the code may
   be made at run time. */
enum { REFRESH_AGAIN_NS = 5000000, IN_VAIN_MAX = 100 };

/* Writes those found new by the last refresh, or all that were mapped then. */
static void write_modules(const struct modules *modules, struct trace_writer *writer, bool all) {
  for (size_t i = 0; i < modules->count; i++)
    if (all ? !modules->at[i].gone : modules->at[i].is_new)
      trace_writer_module(writer, &modules->at[i].record);
}

static void forget_nodes(struct stack_nodes *nodes) {
  if (nodes->node_of.at)
    memset(nodes->node_of.at, 0, nodes->node_of.room * sizeof *nodes->node_of.at);
}

static void refresh_modules(struct stack_nodes *nodes, struct trace_writer *writer) {
  nodes->generation = atomic_load(&nodes->area->generation);
  enum modules_change change = modules_refresh(&nodes->modules, nodes->pid);
  if (change == MODULES_REPLACED) {
    trace_writer_forget_stacks(writer);
    forget_nodes(nodes);
  }
  if (change != MODULES_SAME)
    write_modules(&nodes->modules, writer, false);
}

void stack_nodes_open(struct stack_nodes *nodes, int pid, struct stack_area *area, struct trace_writer *writer) {
  nodes->area = area;
  nodes->pid = pid;
  atomic_store(&nodes->area->index_log, STACK_INDEX_FIRST_LOG);
  refresh_modules(nodes, writer);
}

/* Reads the modules again where the node's code is in none of them, or one may have been replaced. */
static void refresh_modules_if_needed(struct stack_nodes *nodes, struct trace_writer *writer, uint64_t instruction) {
  bool changed = nodes->generation != atomic_load_explicit(&nodes->area->generation, memory_order_relaxed);
  bool unknown = instruction && !modules_have(&nodes->modules, instruction);
  if (changed)
    refresh_modules(nodes, writer);
  if (!unknown || os_monotonic_ns() < nodes->quiet_until_ns)
    return;
  refresh_modules(nodes, writer);
  nodes->in_vain = modules_have(&nodes->modules, instruction) ? 0 : nodes->in_vain + (nodes->in_vain < IN_VAIN_MAX);
  nodes->quiet_until_ns = nodes->in_vain ? os_monotonic_ns() + (uint64_t)nodes->in_vain * REFRESH_AGAIN_NS : 0;
}

/* Writes the nodes from an ancestor that the trace has down to this one, in that order. */
static uint32_t write_nodes(struct stack_nodes *nodes, struct trace_writer *writer, uint32_t node) {
  uint32_t path[2 * STACK_DEPTH_MAX + 2], count = 0, written = 0;
  for (uint32_t at = node; at && !(written = nodes->node_of.at[at - 1]);) {
    /* Read once: the host may change it. */
    uint32_t parent = *(const volatile uint32_t *)&nodes->area->nodes[at - 1].parent;
    if (count == sizeof path / sizeof *path || parent >= at)
      return 0;
    path[count++] = at;
    refresh_modules_if_needed(nodes, writer, nodes->area->nodes[at - 1].instruction);
    at = parent;
  }
  while (count > 0) {
    uint32_t at = path[--count];
    written = trace_writer_stack_node(writer, written, nodes->area->nodes[at - 1].instruction);
    nodes->node_of.at[at - 1] = written;
    if (!written)
      return 0;
  }
  return written;
}

uint32_t stack_nodes_take(struct stack_nodes *nodes, struct trace_writer *writer, uint32_t node) {
  if (!nodes->area || node == 0 || node > STACK_NODES_MAX ||
      node > atomic_load_explicit(&nodes->area->used, memory_order_acquire))
    return 0;
  if (nodes->generation != atomic_load_explicit(&nodes->area->generation, memory_order_relaxed))
    refresh_modules(nodes, writer);
  if (!vector_reach(&nodes->node_of, node - 1))
    return 0;
  HT_ASSERT(node <= nodes->node_of.room);
  uint32_t written = nodes->node_of.at[node - 1];
  return written ? written : write_nodes(nodes, writer, node);
}

void stack_nodes_renew(struct stack_nodes *nodes, struct trace_writer *writer) {
  forget_nodes(nodes);
  write_modules(&nodes->modules, writer, true);
}

uint32_t stack_nodes_frames(const struct stack_nodes *nodes, uint32_t node, uint64_t *frames, uint32_t most) {
  uint32_t count = 0;
  uint32_t used = nodes->area ? atomic_load_explicit(&nodes->area->used, memory_order_acquire) : 0;
  while (node && node <= used && node <= STACK_NODES_MAX && count < most) {
    /* Read once: the host may change it. */
    uint32_t parent = *(const volatile uint32_t *)&nodes->area->nodes[node - 1].parent;
    frames[count++] = nodes->area->nodes[node - 1].instruction;
    if (parent >= node)
      break;
    node = parent;
  }
  return count;
}

uint32_t stack_nodes_requested(const struct stack_nodes *nodes) {
  return nodes->area ? atomic_load(&nodes->area->requested) : 0;
}

void stack_nodes_answer(struct stack_nodes *nodes, uint32_t requested) {
  if (!nodes->area || atomic_load(&nodes->area->answered) == requested)
    return;
  atomic_store(&nodes->area->answered, requested);
  os_futex_wake((const uint32_t *)&nodes->area->answered, INT32_MAX, true);
}

uint32_t stack_nodes_lost(const struct stack_nodes *nodes) {
  return nodes->area ? atomic_load(&nodes->area->lost) : 0;
}

void stack_nodes_close(struct stack_nodes *nodes) {
  if (nodes->area)
    munmap(nodes->area, sizeof *nodes->area);
  free(nodes->node_of.at);
  modules_free(&nodes->modules);
  *nodes = (struct stack_nodes){0};
}

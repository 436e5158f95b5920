/* SPDX-License-Identifier: MIT */
#include "place/sites.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/base/split_mix.h"
#include "core/elf/elf.h"
#include "core/unwind/unwind_rules.h"

#include <link.h>
#include <string.h>

enum {
  NODE_BITS = 13, /* twice as many as frames of all sites */
  NODES = 1 << NODE_BITS,
  FIRST_MOST = 128,
  FACTORS_TRIED = 1 << 16,
  FRAME_MOST_BYTES = 1 << 20,
};
_Static_assert(NODES == 2 * PLAN_FRAMES, "nodes are found by hashing");

/* Frames as a tree from the innermost outwards, as a hash table of (parent, address). */
struct site_node {
  uintptr_t address; /* 0: a free place */
  const struct site_node *parent;
  int32_t cfa_offset, frame_pointer_offset;
  uint8_t region;              /* 0: the next frame decides */
  uint8_t kind, frame_pointer; /* enum rule_kind, rule_bp: of the way to the caller; RULE_END: by frame pointers */
  bool by_stack;               /* the way is only cfa_offset */
};

static const struct sites none;
const struct sites *sites = &none;

static ALWAYS_INLINE struct site_node *node_of(struct site_node *nodes, const struct site_node *parent,
                                               uintptr_t address) {
  size_t at = (address + (uintptr_t)parent) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - NODE_BITS);
  while (unlikely(nodes[at].address != address || nodes[at].parent != parent) && nodes[at].address)
    at = (at + 1) % NODES;
  return &nodes[at];
}

static ALWAYS_INLINE bool is_frame_above(uintptr_t stack_pointer, uintptr_t frame) {
  return frame - stack_pointer < FRAME_MOST_BYTES && frame % sizeof(uintptr_t) == 0;
}

/* A frame's return address, and the caller's stack and frame pointer after the return. */
struct position {
  uintptr_t address, stack_pointer, frame_pointer;
};

/* From a frame that is in the plan to its caller's. False: its rule leads nowhere. */
static bool to_caller(const struct site_node *node, struct position *at) {
  uintptr_t old = at->stack_pointer, frame = at->frame_pointer;
  if (node->kind != RULE_SP && !is_frame_above(old, frame))
    return false;
  if (node->kind == RULE_END) { /* the frame pointer, and then the return address */
    *at = (struct position){os_return_address(((uintptr_t *)frame)[1]), frame + 16, *(uintptr_t *)frame};
    return true;
  }
  uintptr_t next = (node->kind == RULE_SP ? old : frame) + (uintptr_t)(intptr_t)node->cfa_offset;
  if (!is_frame_above(old + 8, next))
    return false;
  if (node->frame_pointer != BP_SAME) {
    uintptr_t saved =
        (node->frame_pointer == BP_AT_CFA ? next : frame) + (uintptr_t)(intptr_t)node->frame_pointer_offset;
    if (!is_frame_above(old, saved))
      return false;
    at->frame_pointer = *(uintptr_t *)saved;
  }
  at->stack_pointer = next;
  at->address = ((uintptr_t *)next)[-1];
  return true;
}

unsigned sites_region_above(const struct sites *table, uintptr_t address, const uintptr_t *frame) {
  struct position at = {address, (uintptr_t)(frame + 2), frame[0]};
  const struct site_node *node = &table->all_nodes[table->nodes[sites_place(table, address)]];
  for (;;) {
    if (node->by_stack) {
      at.stack_pointer += (uintptr_t)(intptr_t)node->cfa_offset;
      at.address = ((uintptr_t *)at.stack_pointer)[-1];
    } else if (node->kind == RULE_NONE || !to_caller(node, &at)) {
      return node->region;
    }
    node = node_of(table->all_nodes, node, at.address);
  }
}

/* --- adding --- */

struct loaded {
  uintptr_t base[PLAN_MODULES];
  bool found[PLAN_MODULES];
  bool started; /* any was looked at */
};
static const struct plan *plan;
static struct loaded loaded;             /* of the published table */
static unsigned long long loads, closes; /* of the loader, then */
static uint32_t refreshing;

static void compare(struct loaded *now, const uint8_t *id, uint32_t bytes, uintptr_t base) {
  for (uint32_t i = 0; i < plan->module_count; i++) {
    const struct plan_module *module = &plan->modules[i];
    if (module->id_bytes != bytes || memcmp(module->build_id, id, bytes) != 0)
      continue;
    now->base[i] = base;
    now->found[i] = true;
  }
}

/* Stops at the first where nothing was loaded or closed. */
static int take_module(struct dl_phdr_info *info, size_t size, void *context) {
  if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
    struct loaded *now = context;
    if (!now->started && info->dlpi_adds == loads && info->dlpi_subs == closes)
      return 1;
    loads = info->dlpi_adds;
    closes = info->dlpi_subs;
  }
  ((struct loaded *)context)->started = true;
  const struct elf_segments segments = {info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr};
  uint32_t bytes;
  const uint8_t *id = elf_loaded_build_id(&segments, &bytes);
  if (id)
    compare(context, id, bytes, info->dlpi_addr);
  return 0;
}

/* The way from the frame to its caller. False: there is none. */
static bool add_rule(struct site_node *node) {
  struct unwind_rule rule = unwind_rule_find(node->address - 1);
  bool fits = rule.cfa_offset == (int32_t)rule.cfa_offset && rule.bp_offset == (int32_t)rule.bp_offset;
  bool by_stack = rule.kind == RULE_SP && is_frame_above(8, (uintptr_t)rule.cfa_offset);
  if (OS_FRAME_POINTERS_ALONE)
    rule = (struct unwind_rule){.kind = RULE_END};
  else if (!fits || (!by_stack && rule.kind != RULE_BP))
    return false;
  node->kind = (uint8_t)rule.kind;
  node->frame_pointer = (uint8_t)rule.bp;
  node->cfa_offset = (int32_t)rule.cfa_offset;
  node->frame_pointer_offset = (int32_t)rule.bp_offset;
  return true;
}

static bool add_site(struct sites *table, const struct loaded *now, const struct plan_site *site) {
  const struct plan_frame *frames = &plan->frames[site->first_frame];
  struct site_node *node = NULL;
  for (uint32_t i = 0; i < site->frames; i++)
    if (!now->found[frames[i].module])
      return false;
  for (uint32_t i = 0; i < site->frames; i++) {
    if (node && (node->region || (!node->kind && !add_rule(node))))
      return false;
    const struct site_node *parent = node;
    uintptr_t address = now->base[frames[i].module] + frames[i].offset;
    node = node_of(table->all_nodes, parent, address);
    node->address = address;
    node->parent = parent;
  }
  if (node->kind || node->region) /* others go on from here, or it is given twice */
    return false;
  node->region = (uint8_t)site->region;
  return true;
}

static bool try_factor(struct sites *table, uintptr_t factor, const uint16_t *first, uint32_t count) {
  memset(table->addresses, 0, sizeof table->addresses);
  table->factor = factor;
  for (uint32_t i = 0; i < count; i++) {
    const struct site_node *node = &table->all_nodes[first[i]];
    size_t place = sites_place(table, node->address);
    if (table->addresses[place])
      return false;
    table->addresses[place] = node->address;
    table->regions[place] = node->region;
    table->nodes[place] = first[i];
  }
  return true;
}

/* The innermost frames, without collisions. False: there are too many. */
static bool add_first(struct sites *table) {
  uint16_t first[FIRST_MOST];
  uint32_t count = 0;
  for (uint16_t i = 0; i < NODES; i++) {
    if (!table->all_nodes[i].address || table->all_nodes[i].parent)
      continue;
    if (count == FIRST_MOST)
      return false;
    first[count++] = i;
  }
  for (int i = 0; i < FACTORS_TRIED; i++)
    if (try_factor(table, split_mix((uint64_t)i * SPLIT_MIX_STEP) | 1, first, count))
      return true;
  return false;
}

/* Where no rule reads the frame pointer, none needs to restore it. */
static void find_ways_by_stack(struct site_node *nodes) {
  bool frame_pointers = false;
  for (int i = 0; i < NODES; i++)
    frame_pointers |= nodes[i].kind != RULE_NONE && nodes[i].kind != RULE_SP;
  for (int i = 0; i < NODES; i++)
    if (nodes[i].kind == RULE_SP && (!frame_pointers || nodes[i].frame_pointer == BP_SAME))
      nodes[i].by_stack = true;
}

/* Of the sites whose modules are loaded now. Returns their number. */
static uint32_t publish(const struct loaded *now) {
  struct sites *table = os_map(sizeof *table, false);
  struct site_node *nodes = os_map(NODES * sizeof *nodes, false);
  uint32_t count = 0;
  if (table && nodes) {
    table->all_nodes = nodes;
    for (uint32_t i = 0; i < plan->site_count; i++)
      count += add_site(table, now, &plan->sites[i]);
    find_ways_by_stack(nodes);
    count = add_first(table) ? count : 0;
  }
  __atomic_store_n(&sites, count ? table : &none, __ATOMIC_RELEASE);
  return count;
}

uint32_t sites_begin(const struct plan *read) {
  plan = read;
  unwind_rules_begin();
  dl_iterate_phdr(take_module, &loaded);
  uint32_t count = publish(&loaded);
  if (count == read->site_count)
    plan = NULL;
  return count;
}

void sites_refresh(void) {
  if (!plan || __atomic_exchange_n(&refreshing, 1, __ATOMIC_ACQUIRE))
    return;
  struct loaded now = {.started = false};
  dl_iterate_phdr(take_module, &now);
  if (now.started && memcmp(&now, &loaded, sizeof now) != 0) {
    loaded = now;
    publish(&now);
  }
  __atomic_store_n(&refreshing, 0, __ATOMIC_RELEASE);
}

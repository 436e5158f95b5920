/* SPDX-License-Identifier: MIT */
#include "place/sites.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/base/split_mix.h"
#include "core/unwind/unwind_rules.h"

#include <link.h>
#include <string.h>

enum {
  NODE_BITS = 13, /* twice as many as frames of all sites */
  FIRST_MOST = 128,
  FACTORS_TRIED = 1 << 16,
  FRAME_MOST_BYTES = 1 << 20,
};
_Static_assert(1 << NODE_BITS == 2 * PLAN_FRAMES, "nodes are found by hashing");

/* Frames as a tree from the innermost outwards, as a hash table of (parent, address). */
struct node {
  uintptr_t address;           /* 0: a free place */
  uint32_t parent;             /* its place plus 1; 0: innermost */
  uint8_t region;              /* 0: the next frame decides */
  uint8_t kind, frame_pointer; /* enum rule_kind, rule_bp: of the way to the caller; RULE_END: by frame pointers */
  int32_t cfa_offset, frame_pointer_offset;
};

struct sites_first sites_first;
static struct node nodes[1 << NODE_BITS];

static ALWAYS_INLINE struct node *place_of(uint32_t parent, uintptr_t address) {
  uint32_t at = (uint32_t)((address + parent) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - NODE_BITS));
  while (nodes[at].address && (nodes[at].address != address || nodes[at].parent != parent))
    at = (at + 1) & ((1 << NODE_BITS) - 1);
  return &nodes[at];
}

static ALWAYS_INLINE bool is_frame_above(uintptr_t stack_pointer, uintptr_t frame) {
  return frame - stack_pointer < FRAME_MOST_BYTES && frame % sizeof(uintptr_t) == 0;
}

/* From a frame that is in the plan to its caller's. False: its rule leads nowhere. */
static bool to_caller(const struct node *node, struct sites_call *call) {
  uintptr_t old = call->stack_pointer, frame = call->frame_pointer;
  if (node->kind != RULE_SP && !is_frame_above(old, frame))
    return false;
  if (node->kind == RULE_END) { /* the frame pointer, and then the return address */
    *call = (struct sites_call){os_return_address(((uintptr_t *)frame)[1]), frame + 16, *(uintptr_t *)frame};
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
    call->frame_pointer = *(uintptr_t *)saved;
  }
  call->stack_pointer = next;
  call->address = ((uintptr_t *)next)[-1];
  return true;
}

unsigned sites_region_above(struct sites_call call) {
  for (uint32_t parent = 0;;) {
    const struct node *node = place_of(parent, call.address);
    if (node->region || !node->address)
      return node->region;
    if (!to_caller(node, &call))
      return 0;
    parent = (uint32_t)(node - nodes) + 1;
  }
}

/* --- adding --- */

struct loaded {
  const struct plan *plan;
  uintptr_t base[PLAN_MODULES];
  bool found[PLAN_MODULES];
};

static void compare(struct loaded *loaded, const uint8_t *id, uint32_t bytes, uintptr_t base) {
  for (uint32_t i = 0; i < loaded->plan->module_count; i++) {
    const struct plan_module *module = &loaded->plan->modules[i];
    if (module->id_bytes != bytes || memcmp(module->build_id, id, bytes) != 0)
      continue;
    loaded->base[i] = base;
    loaded->found[i] = true;
  }
}

static int take_module(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  enum { BUILD_ID = 3, ROUND = 3 };
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type != PT_NOTE)
      continue;
    const uint8_t *at = (const uint8_t *)(info->dlpi_addr + header->p_vaddr), *end = at + header->p_memsz;
    while ((size_t)(end - at) > sizeof(ElfW(Nhdr))) {
      const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
      size_t name = (note->n_namesz + (size_t)ROUND) & ~(size_t)ROUND;
      size_t bytes = sizeof *note + name + ((note->n_descsz + (size_t)ROUND) & ~(size_t)ROUND);
      if (bytes > (size_t)(end - at))
        break;
      if (note->n_type == BUILD_ID && note->n_namesz == 4 && memcmp(note + 1, "GNU", 4) == 0)
        compare(context, at + sizeof *note + name, note->n_descsz, info->dlpi_addr);
      at += bytes;
    }
  }
  return 0;
}

/* The way from the frame to its caller. False: there is none. */
static bool add_rule(struct node *node) {
  struct unwind_rule rule = unwind_rule_find(node->address - 1);
  bool fits = rule.cfa_offset == (int32_t)rule.cfa_offset && rule.bp_offset == (int32_t)rule.bp_offset;
  if (OS_FRAME_POINTERS_ALONE)
    rule = (struct unwind_rule){.kind = RULE_END};
  else if (!fits || (rule.kind != RULE_SP && rule.kind != RULE_BP))
    return false;
  node->kind = (uint8_t)rule.kind;
  node->frame_pointer = (uint8_t)rule.bp;
  node->cfa_offset = (int32_t)rule.cfa_offset;
  node->frame_pointer_offset = (int32_t)rule.bp_offset;
  return true;
}

static bool add_site(const struct loaded *loaded, const struct plan_site *site) {
  const struct plan_frame *frames = &loaded->plan->frames[site->first_frame];
  struct node *node = NULL;
  for (uint32_t i = 0; i < site->frames; i++)
    if (!loaded->found[frames[i].module])
      return false;
  for (uint32_t i = 0; i < site->frames; i++) {
    if (node && (node->region || (!node->kind && !add_rule(node))))
      return false;
    uint32_t parent = node ? (uint32_t)(node - nodes) + 1 : 0;
    uintptr_t address = loaded->base[frames[i].module] + frames[i].offset;
    node = place_of(parent, address);
    node->address = address;
    node->parent = parent;
  }
  if (node->kind || node->region) /* others go on from here, or it is given twice */
    return false;
  node->region = (uint8_t)site->region;
  return true;
}

static bool try_factor(uintptr_t factor, const uintptr_t *addresses, uint32_t count) {
  memset(&sites_first, 0, sizeof sites_first);
  for (uint32_t i = 0; i < count; i++) {
    uintptr_t *place = &sites_first.addresses[addresses[i] * factor >> (64 - SITES_FIRST_BITS)];
    if (*place)
      return false;
    *place = addresses[i];
    sites_first.regions[place - sites_first.addresses] = place_of(0, addresses[i])->region;
  }
  sites_first.factor = factor;
  return true;
}

/* The innermost frames, without collisions. False: there are too many. */
static bool add_first(void) {
  uintptr_t addresses[FIRST_MOST];
  uint32_t count = 0;
  for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
    if (!nodes[i].address || nodes[i].parent)
      continue;
    if (count == FIRST_MOST)
      return false;
    addresses[count++] = nodes[i].address;
  }
  for (int i = 0; i < FACTORS_TRIED; i++)
    if (try_factor(split_mix((uint64_t)i * SPLIT_MIX_STEP) | 1, addresses, count))
      return true;
  memset(&sites_first, 0, sizeof sites_first);
  return false;
}

uint32_t sites_add(const struct plan *plan) {
  struct loaded loaded = {.plan = plan};
  uint32_t count = 0;
  unwind_rules_begin();
  dl_iterate_phdr(take_module, &loaded);
  for (uint32_t i = 0; i < plan->site_count; i++)
    count += add_site(&loaded, &plan->sites[i]);
  return count && add_first() ? count : 0;
}

/* SPDX-License-Identifier: MIT */
#include "allocators/bucket/oversize.h"

#include "allocators/bucket/block.h"
#include "allocators/common/entry.h"

#include <string.h>

static struct tree_node *root;

static uintptr_t node_seal(const struct tree_node *node) {
  return node->bytes * 3 + (uintptr_t)node->left * 5 + (uintptr_t)node->right * 7 + ((uintptr_t)node ^ block_secret);
}

static void seal(struct tree_node *node) {
  node->seal = node_seal(node);
}

static struct tree_node *checked(struct tree_node *node) {
  if (UNLIKELY(node && node->seal != node_seal(node)))
    fault("malloc or free", "overwritten links of a free oversize block", node);
  return node;
}

static bool is_before(const struct tree_node *left, const struct tree_node *right) {
  return left->bytes != right->bytes ? left->bytes < right->bytes : left < right;
}

/* Pseudo-random, but the same for the same node: a hash of its address. */
static uintptr_t priority(const struct tree_node *node) {
  uintptr_t hash = ((uintptr_t)node >> 4) * 0x9E3779B97F4A7C15u;
  return (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
}

/* A link to set: the root's, or one in a node, which is then sealed again. */
struct link {
  struct tree_node *node; /* NULL: the root */
  struct tree_node **place;
};

static void set(struct link link, struct tree_node *to) {
  *link.place = to;
  if (link.node)
    seal(link.node);
}

static struct link left_of(struct tree_node *node) {
  return (struct link){node, &node->left};
}

static struct link right_of(struct tree_node *node) {
  return (struct link){node, &node->right};
}

/* Sets two links: to the part of the subtree before the node, and to the rest. */
static void split(struct tree_node *subtree, const struct tree_node *node, struct link before, struct link behind) {
  while (checked(subtree)) {
    if (is_before(subtree, node)) {
      set(before, subtree);
      before = right_of(subtree);
      subtree = subtree->right;
    } else {
      set(behind, subtree);
      behind = left_of(subtree);
      subtree = subtree->left;
    }
  }
  set(before, NULL);
  set(behind, NULL);
}

/* Sets a link to the union of both subtrees; all nodes of the first must be before all of the second. */
static void merge(struct link to, struct tree_node *first, struct tree_node *second) {
  while (checked(first) && checked(second)) {
    if (priority(first) > priority(second)) {
      set(to, first);
      to = right_of(first);
      first = first->right;
    } else {
      set(to, second);
      to = left_of(second);
      second = second->left;
    }
  }
  set(to, checked(first) ? first : checked(second));
}

/* node->bytes must be set. */
static void tree_insert(struct tree_node *node) {
  struct link at = {NULL, &root};
  while (checked(*at.place) && priority(*at.place) >= priority(node))
    at = is_before(*at.place, node) ? right_of(*at.place) : left_of(*at.place);
  struct tree_node *below = *at.place;
  split(below, node, left_of(node), right_of(node));
  set(at, node);
}

/* The node must be in the tree; else it, or a node above it, was overwritten, which ends the process. */
static void tree_remove(struct tree_node *node) {
  struct link at = {NULL, &root};
  checked(node);
  while (checked(*at.place) && *at.place != node)
    at = is_before(*at.place, node) ? right_of(*at.place) : left_of(*at.place);
  if (UNLIKELY(!*at.place))
    fault("malloc or free", "free oversize block that is not in the tree", node);
  merge(at, node->left, node->right);
}

/* Returns the smallest node of at least `bytes`, of equal ones that at the lowest address. NULL: none. */
static struct tree_node *tree_best_fit(size_t bytes) {
  struct tree_node *best = NULL, *node = root;
  while (checked(node)) {
    if (node->bytes < bytes) {
      node = node->right;
    } else {
      best = node;
      node = node->left;
    }
  }
  return best;
}

enum {
  BLOCK_STEP_BYTES = 64,
  SEGMENT_STEP_BYTES = 1 << 20, /* segments are multiples of this: fewer system calls, no more resident memory */
};

/* Head of a segment; its first block follows. */
struct segment {
  _Alignas(BLOCK_STEP_BYTES) struct segment *next;
  size_t bytes;
};

static struct segment *newest;
static struct lock lock;

static struct oversize *at(const void *base, size_t offset) {
  return (struct oversize *)((uintptr_t)base + offset);
}

static struct oversize *first_of(const struct segment *segment) {
  return at(segment, sizeof *segment);
}

static struct tree_node *node_of(struct oversize *oversize) {
  return block_object(&oversize->block);
}

static struct oversize *of_node(struct tree_node *node) {
  return at(node, -sizeof(struct oversize));
}

static struct oversize *next_of(const struct oversize *oversize) {
  return oversize->tagged_bytes & OVERSIZE_LAST ? NULL : at(oversize, oversize_bytes(oversize));
}

static struct oversize *before(const struct oversize *oversize) {
  return oversize->before_bytes ? at(oversize, -oversize->before_bytes) : NULL;
}

static uintptr_t tag_seal(const struct oversize *oversize) {
  return oversize->tagged_bytes * 3 + oversize->before_bytes * 5 + ((uintptr_t)oversize ^ block_secret);
}

static void set_flags(struct oversize *oversize, size_t flags) {
  oversize->tagged_bytes = oversize_bytes(oversize) | flags;
  oversize->tag_seal = tag_seal(oversize);
}

/* Sets a block's size in its tags and in those of the block behind it, whose own size is not written: its owner may be
   reading it. */
static void set_bytes(struct oversize *oversize, size_t bytes, size_t flags) {
  oversize->tagged_bytes = bytes;
  set_flags(oversize, flags);
  struct oversize *next = next_of(oversize);
  if (next) {
    next->before_bytes = bytes;
    next->tag_seal = tag_seal(next);
  }
}

/* Checks that the tags are as written, and that those on both sides agree. */
static void check_tags(const char *where, const struct oversize *oversize) {
  bool whole = oversize->tag_seal == tag_seal(oversize);
  const struct oversize *next = whole ? next_of(oversize) : NULL, *previous = whole ? before(oversize) : NULL;
  if (UNLIKELY(!whole || (next && next->before_bytes != oversize_bytes(oversize)) ||
               (previous && oversize_bytes(previous) != oversize->before_bytes)))
    fault(where, "overwritten size, of this oversize block or beside it", &oversize->block + 1);
}

static void put_into_tree(struct oversize *oversize) {
  block_mark_used(&oversize->block, oversize, BLOCK_OVERSIZE); /* sets the owner, if the block is new */
  block_mark_free(&oversize->block);
  struct tree_node *node = node_of(oversize);
  node->bytes = oversize_bytes(oversize);
  tree_insert(node);
}

/* Takes a block out of the tree; clean blocks become all zero again. */
static void take_from_tree(struct oversize *oversize) {
  struct tree_node *node = node_of(oversize);
  if (UNLIKELY(!block_is_free(&oversize->block) || node->bytes != oversize_bytes(oversize)))
    fault("malloc or free", "overwritten header of a free oversize block", node);
  tree_remove(node);
  if (oversize->tagged_bytes & OVERSIZE_CLEAN)
    memset(node, 0, sizeof *node);
}

static bool is_free(const struct oversize *oversize) {
  return oversize && block_is_free(&oversize->block);
}

/* The second block, which is behind the first and in no tree, becomes part of it: clean, if both are. */
static void join(struct oversize *first, struct oversize *second) {
  size_t bytes = oversize_bytes(first) + oversize_bytes(second);
  size_t clean = first->tagged_bytes & second->tagged_bytes & OVERSIZE_CLEAN;
  set_bytes(first, bytes, (second->tagged_bytes & OVERSIZE_LAST) | clean);
  if (clean)
    memset(second, 0, sizeof *second);
}

static void join_free_next(struct oversize *oversize) {
  struct oversize *next = next_of(oversize);
  if (!is_free(next))
    return;
  check_tags("malloc or free", next);
  take_from_tree(next);
  join(oversize, next);
}

/* Cuts off what is behind the first bytes, as a free block, if a request of this path could use it, as published. */
static void cut_tail(struct oversize *oversize, size_t bytes) {
  size_t rest_bytes = oversize_bytes(oversize) - bytes, flags = oversize->tagged_bytes & OVERSIZE_FLAGS;
  if (rest_bytes <= tunables.max_cached)
    return;
  struct oversize *rest = at(oversize, bytes);
  set_bytes(rest, rest_bytes, flags);
  set_bytes(oversize, bytes, flags & ~(size_t)OVERSIZE_LAST);
  join_free_next(rest);
  put_into_tree(rest);
}

/* Merges a block that is in no tree with its free neighbours into one free block. */
static void release_merged(struct oversize *oversize) {
  set_flags(oversize, oversize->tagged_bytes & OVERSIZE_LAST);
  join_free_next(oversize);
  struct oversize *previous = before(oversize);
  if (is_free(previous)) {
    take_from_tree(previous);
    join(previous, oversize);
    oversize = previous;
  }
  put_into_tree(oversize);
}

/* The new segment ends where the newest begins: joins them. The head of the latter becomes part of the block. */
static void append_newest(struct segment *segment, struct oversize *block) {
  struct segment *behind = newest;
  segment->bytes += behind->bytes;
  segment->next = behind->next;
  memset(behind, 0, sizeof *behind);
  set_bytes(block, oversize_bytes(block) + sizeof *behind, OVERSIZE_CLEAN);
}

/* Returns a new block of at least `bytes`, in no tree. NULL: no memory. */
static struct oversize *grow(size_t bytes) {
  size_t segment_bytes = round_up(bytes + sizeof(struct segment), SEGMENT_STEP_BYTES);
  struct segment *segment = system_map(segment_bytes);
  if (!segment)
    return NULL;
  segment->bytes = segment_bytes;
  segment->next = newest;
  struct oversize *block = first_of(segment);
  set_bytes(block, segment_bytes - sizeof *segment, OVERSIZE_CLEAN | OVERSIZE_LAST);
  if (newest && (char *)segment + segment_bytes == (char *)newest)
    append_newest(segment, block);
  newest = segment;
  return block;
}

static size_t block_bytes_for(size_t object_bytes) {
  return round_up(object_bytes + sizeof(struct oversize), BLOCK_STEP_BYTES);
}

struct oversize *oversize_take(size_t object_bytes) {
  size_t bytes = block_bytes_for(object_bytes);
  oversize_lock();
  struct tree_node *fit = tree_best_fit(bytes);
  struct oversize *oversize = fit ? of_node(fit) : NULL;
  if (oversize) {
    check_tags("malloc", oversize);
    take_from_tree(oversize);
  } else {
    oversize = grow(bytes);
  }
  if (oversize) {
    cut_tail(oversize, bytes);
    block_mark_used(&oversize->block, oversize, BLOCK_OVERSIZE);
  }
  oversize_unlock();
  return oversize;
}

void oversize_release(const char *where, struct oversize *oversize) {
  oversize_lock();
  check_tags(where, oversize);
  release_merged(oversize);
  oversize_unlock();
}

bool oversize_resize(struct oversize *oversize, size_t object_bytes) {
  size_t bytes = block_bytes_for(object_bytes);
  oversize_lock();
  check_tags("realloc", oversize);
  set_flags(oversize, oversize->tagged_bytes & OVERSIZE_LAST);
  struct oversize *next = next_of(oversize);
  if (oversize_bytes(oversize) < bytes && is_free(next) && oversize_bytes(oversize) + oversize_bytes(next) >= bytes)
    join_free_next(oversize);
  bool done = oversize_bytes(oversize) >= bytes;
  if (done)
    cut_tail(oversize, bytes);
  oversize_unlock();
  return done;
}

bool oversize_purge(void) {
  bool any = false;
  oversize_lock();
  for (struct segment *segment = newest; segment; segment = segment->next)
    for (struct oversize *oversize = first_of(segment); oversize; oversize = next_of(oversize)) {
      if (!is_free(oversize) || oversize->tagged_bytes & OVERSIZE_CLEAN)
        continue;
      uintptr_t start = round_up((uintptr_t)(node_of(oversize) + 1), os_page_bytes);
      uintptr_t end = ((uintptr_t)oversize + oversize_bytes(oversize)) & ~(os_page_bytes - 1);
      any |= start < end && system_purge((void *)start, end - start);
    }
  oversize_unlock();
  return any;
}

void oversize_walk(cache_visit *visit, void *context) {
  oversize_lock();
  for (struct segment *segment = newest; segment; segment = segment->next)
    for (struct oversize *oversize = first_of(segment); oversize; oversize = next_of(oversize))
      visit(oversize, oversize_bytes(oversize), is_free(oversize) ? STATE_OVERSIZE : STATE_USED, context);
  oversize_unlock();
}

void oversize_lock(void) {
  LOCK_TAKE_AS(oversize, &lock);
}

void oversize_unlock(void) {
  lock_drop(&lock);
}

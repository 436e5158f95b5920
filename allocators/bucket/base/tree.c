/* SPDX-License-Identifier: MIT */
#include "allocators/bucket/base/tree.h"

#include "allocators/bucket/base/block.h"

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

void tree_insert(struct tree_node *node) {
  struct link at = {NULL, &root};
  while (checked(*at.place) && priority(*at.place) >= priority(node))
    at = is_before(*at.place, node) ? right_of(*at.place) : left_of(*at.place);
  struct tree_node *below = *at.place;
  split(below, node, left_of(node), right_of(node));
  set(at, node);
}

void tree_remove(struct tree_node *node) {
  struct link at = {NULL, &root};
  checked(node);
  while (checked(*at.place) && *at.place != node)
    at = is_before(*at.place, node) ? right_of(*at.place) : left_of(*at.place);
  if (UNLIKELY(!*at.place))
    fault("malloc or free", "free oversize block that is not in the tree", node);
  merge(at, node->left, node->right);
}

struct tree_node *tree_best_fit(size_t bytes) {
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

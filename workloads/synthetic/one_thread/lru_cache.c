/* SPDX-License-Identifier: MIT */
/* A cache with a limit in bytes that evicts the least recently used entry, while the sizes of new values change over
   time: evicted values have the old sizes, new ones the new sizes. This is the fragmentation that builds up over hours
   in caches and databases, in less time. Each entry is a node of fixed size and a value.

   Our own shape, for memcached, Varnish and the like; keys are requested with a skew as in YCSB (the square of a
   uniform number here). */
#include "workloads/synthetic/pattern.h"

static uint64_t requests = 300000, keys = 20000, capacity_bytes = 16 << 20, lowest_bytes = 64, highest_bytes = 4096,
                drift_percent = 200, node_bytes = 56;

enum { NOBODY = UINT32_MAX };

struct entry {
  object_ref node, value; /* 0: not cached */
  uint64_t size_bytes;
  uint32_t newer, older;
};

struct cache {
  struct entry *entries; /* by key */
  uint32_t newest, oldest;
  uint64_t used_bytes;
};

static void take_out(struct cache *cache, uint32_t key) {
  struct entry *entry = &cache->entries[key];
  *(entry->newer == NOBODY ? &cache->newest : &cache->entries[entry->newer].older) = entry->older;
  *(entry->older == NOBODY ? &cache->oldest : &cache->entries[entry->older].newer) = entry->newer;
}

static void put_first(struct cache *cache, uint32_t key) {
  struct entry *entry = &cache->entries[key];
  entry->newer = NOBODY;
  entry->older = cache->newest;
  *(cache->newest == NOBODY ? &cache->oldest : &cache->entries[cache->newest].newer) = key;
  cache->newest = key;
}

static void evict(struct actor *actor, struct cache *cache) {
  uint32_t key = cache->oldest;
  struct entry *entry = &cache->entries[key];
  take_out(cache, key);
  cache->used_bytes -= entry->size_bytes + node_bytes;
  do_free(actor, entry->value);
  do_free(actor, entry->node);
  entry->node = entry->value = 0;
}

static void store(struct actor *actor, struct cache *cache, uint32_t key, uint64_t size_bytes) {
  struct entry *entry = &cache->entries[key];
  while (cache->oldest != NOBODY && cache->used_bytes + size_bytes + node_bytes > capacity_bytes)
    evict(actor, cache);
  entry->node = do_malloc(actor, node_bytes);
  entry->value = do_malloc(actor, size_bytes);
  entry->size_bytes = size_bytes;
  cache->used_bytes += size_bytes + node_bytes;
  put_first(cache, key);
}

/* Sizes grow evenly by drift_percent from the first request to the last. */
static uint64_t value_bytes(struct rng *rng, uint64_t request) {
  uint64_t size_bytes = rng_log_between(rng, lowest_bytes, highest_bytes);
  return size_bytes + (uint64_t)((unsigned __int128)size_bytes * drift_percent * request / requests / 100);
}

static void run(struct actor *actor) {
  struct rng rng = rng_seed(pattern_seed, 0);
  struct cache cache = {pattern_array(keys, sizeof *cache.entries), NOBODY, NOBODY, 0};
  for (uint64_t request = 0; request < requests; request++) {
    uint64_t random = rng_below(&rng, 1ull << 32);
    uint32_t key = (uint32_t)((random * random >> 32) * keys >> 32);
    if (cache.entries[key].node) {
      take_out(&cache, key);
      put_first(&cache, key);
    } else {
      store(actor, &cache, key, value_bytes(&rng, request));
    }
  }
  while (cache.oldest != NOBODY)
    evict(actor, &cache);
}

static const struct option_number options[] = {
    {"requests", &requests, 0, UINT64_MAX, "for a key each"},
    {"keys", &keys, 1, 1u << 31, "that are requested"},
    {"capacity", &capacity_bytes, 1, 1ull << 44, "of the cache in bytes"},
    {"lowest", &lowest_bytes, 1, 1ull << 32, "smallest value in bytes"},
    {"highest", &highest_bytes, 1, 1ull << 32, "largest value in bytes at the beginning"},
    {"drift", &drift_percent, 0, 10000, "percent by which values are larger at the end"},
    {"node", &node_bytes, 1, 1 << 20, "bytes of the object beside each value"},
    {NULL, NULL, 0, 0, NULL},
};

const struct pattern pattern = {
    .summary = "a cache of limited bytes whose values change in size", .options = options, .run = run};

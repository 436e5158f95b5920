/* SPDX-License-Identifier: MIT */
/* Servers: tables, lists and caches of objects that are replaced one by one. */
#include "workloads/synthetic/pattern.h"

/* Options; each pattern sets those that it has. */
static uint64_t threads, slots, rounds, generations, lowest_bytes, highest_bytes, lines, heirs, objects, replacements,
    size_bytes, requests, concurrent, kept_objects, session_requests, keys, capacity_bytes, drift_percent, node_bytes;

/* A server's threads each own a table of objects, free a random victim and allocate another of random size in its
   place. Now and then a thread ends and a new one takes over its table, so that objects outlive their thread and are
   freed by another. Sizes and victims are random, so nothing is predictable.

   Shape after Larson and Krishnan, "Memory allocation for long-running server applications" (ISMM 1998): tables of
   objects of random size that pass from thread to thread. */

struct server {
  struct actor actor;
  struct rng rng;
  object_ref *table;
};

static void larson_serve(struct actor *actor, void *argument) {
  struct server *server = argument;
  for (uint64_t i = 0; i < rounds; i++) {
    object_ref *victim = &server->table[rng_below(&server->rng, slots)];
    do_free(actor, *victim);
    *victim = do_malloc(actor, rng_between(&server->rng, lowest_bytes, highest_bytes));
  }
}

static void larson_run(struct actor *actor) {
  struct server *server = pattern_array(threads, sizeof *server);
  for (uint64_t t = 0; t < threads; t++) {
    server[t].rng = rng_seed(pattern_seed, t);
    server[t].table = pattern_array(slots, sizeof(object_ref));
  }
  for (uint64_t generation = 0; generation < generations; generation++) {
    actors_run(actor, threads, larson_serve, server, sizeof *server);
  }
  for (uint64_t t = 0; t < threads; t++)
    free_all(actor, server[t].table, slots);
}

static const struct option_number larson_options[] = {
    {"threads", &threads, 2, 1, 100000, "at a time"},
    {"slots", &slots, 1000, 1, 1ull << 32, "objects of each thread"},
    {"rounds", &rounds, 100000, 0, UINT64_MAX, "replacements before a thread ends"},
    {"generations", &generations, 10, 1, UINT32_MAX, "of threads"},
    {"lowest", &lowest_bytes, 8, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 1000, 1, 1ull << 40, "largest request in bytes"},
    {0},
};

const struct pattern pattern_larson = {"larson", "server threads that replace random objects", larson_options,
                                       larson_run};

/* Threads that inherit: a thread replaces random objects of a list, ends, and a new thread takes over the list, for
   many rounds. Most objects are freed by another thread than the one that allocated them, which has ended. Shows
   whether memory grows without bound when objects are passed on forever.

   The second test of Lever and Boreham, "malloc() performance in a multithreaded Linux environment" (USENIX 2000,
   Freenix track): 10,000 objects of 40 bytes; they counted page faults. */

/* One list, and the thread that has it. */
struct line {
  struct actor actor;
  struct rng rng;
  object_ref *list;
};

static void replace_some(struct actor *actor, void *argument) {
  struct line *line = argument;
  for (uint64_t i = 0; i < replacements; i++) {
    object_ref *victim = &line->list[rng_below(&line->rng, objects)];
    do_free(actor, *victim);
    *victim = do_malloc(actor, size_bytes);
  }
}

static void heirs_run(struct actor *actor) {
  struct line *line = pattern_array(lines, sizeof *line);
  for (uint64_t l = 0; l < lines; l++) {
    line[l].rng = rng_seed(pattern_seed, l);
    line[l].list = pattern_array(objects, sizeof(object_ref));
    for (uint64_t i = 0; i < objects; i++)
      line[l].list[i] = do_malloc(actor, size_bytes);
  }
  for (uint64_t heir = 0; heir < heirs; heir++) {
    actors_run(actor, lines, replace_some, line, sizeof *line);
  }
  for (uint64_t l = 0; l < lines; l++)
    free_all(actor, line[l].list, objects);
}

static const struct option_number heirs_options[] = {
    {"lines", &lines, 2, 1, 30000, "of inheritance, each with a thread at a time"},
    {"heirs", &heirs, 20, 1, UINT32_MAX, "threads of a line, one after the other"},
    {"objects", &objects, 10000, 1, 1ull << 32, "in a list"},
    {"replacements", &replacements, 10000, 0, UINT64_MAX, "by each thread"},
    {"size", &size_bytes, 40, 1, 1ull << 40, "of each request in bytes"},
    {0},
};

const struct pattern pattern_heirs = {"heirs", "lists of objects that threads inherit from ended threads",
                                      heirs_options, heirs_run};

/* A server that starts a thread for each request: it starts, allocates objects, frees most of them, leaves some to its
   session, and ends. Sessions last for several requests; the main thread frees the objects of an ended session. Shows
   the cost to an allocator of a thread's start and end, and how it uses the memory of ended threads.

   Our own shape, for the classic inetd and CGI-like threaded servers, and for runtimes without thread pools. */

/* A place in the server: its threads run one after the other and share a session. */
struct place {
  struct actor actor;
  uint64_t request; /* the present one's number */
  uint64_t kept;
  object_ref *session, *temporary;
};

static void thread_per_request_serve(struct actor *actor, void *argument) {
  struct place *place = argument;
  struct rng rng = rng_seed(pattern_seed, place->request);
  for (uint64_t i = 0; i < objects; i++)
    place->temporary[i] = do_malloc(actor, rng_log_between(&rng, lowest_bytes, highest_bytes));
  for (uint64_t i = 0; i < kept_objects; i++)
    place->session[place->kept++] = do_malloc(actor, rng_log_between(&rng, lowest_bytes, highest_bytes));
  for (uint64_t i = objects; i > 0; i--)
    do_free(actor, place->temporary[i - 1]);
}

static void end_session(struct actor *actor, struct place *place) {
  for (uint64_t i = 0; i < place->kept; i++)
    do_free(actor, place->session[i]);
  place->kept = 0;
}

static void thread_per_request_run(struct actor *actor) {
  struct place *place = pattern_array(concurrent, sizeof *place);
  for (uint64_t p = 0; p < concurrent; p++) {
    place[p].session = pattern_array(session_requests * kept_objects + 1, sizeof(object_ref));
    place[p].temporary = pattern_array(objects, sizeof(object_ref));
  }
  for (uint64_t request = 0; request < requests + concurrent; request++) {
    struct place *at = &place[request % concurrent];
    if (request >= concurrent && request - concurrent < requests) {
      actor_join(actor, &at->actor);
      if ((request - concurrent) / concurrent % session_requests == session_requests - 1)
        end_session(actor, at);
    }
    at->request = request;
    if (request < requests)
      actor_start(actor, &at->actor, thread_per_request_serve, at);
  }
  for (uint64_t p = 0; p < concurrent; p++)
    end_session(actor, &place[p]);
}

static const struct option_number thread_per_request_options[] = {
    {"requests", &requests, 2000, 1, 1 << 20, "a thread each"},
    {"concurrent", &concurrent, 8, 1, 10000, "threads at a time"},
    {"objects", &objects, 200, 1, 1 << 28, "that a request allocates and frees"},
    {"kept", &kept_objects, 10, 0, 1 << 20, "objects of a request that its session keeps"},
    {"session", &session_requests, 16, 1, 1 << 20, "requests of a session"},
    {"lowest", &lowest_bytes, 16, 1, 1ull << 40, "smallest request in bytes"},
    {"highest", &highest_bytes, 2048, 1, 1ull << 40, "largest request in bytes"},
    {0},
};

const struct pattern pattern_thread_per_request = {"thread_per_request", "a server with a thread for each request",
                                                   thread_per_request_options, thread_per_request_run};

/* A cache with a limit in bytes that evicts the least recently used entry, while the sizes of new values change over
   time: evicted values have the old sizes, new ones the new sizes. This is the fragmentation that builds up over hours
   in caches and databases, in less time. Each entry is a node of fixed size and a value.

   Our own shape, for memcached, Varnish and the like; keys are requested with a skew as in YCSB (the square of a
   uniform number here). */

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

static void lru_cache_run(struct actor *actor) {
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

static const struct option_number lru_cache_options[] = {
    {"requests", &requests, 300000, 0, UINT64_MAX, "for a key each"},
    {"keys", &keys, 20000, 1, 1u << 31, "that are requested"},
    {"capacity", &capacity_bytes, 16 << 20, 1, 1ull << 44, "of the cache in bytes"},
    {"lowest", &lowest_bytes, 64, 1, 1ull << 32, "smallest value in bytes"},
    {"highest", &highest_bytes, 4096, 1, 1ull << 32, "largest value in bytes at the beginning"},
    {"drift", &drift_percent, 200, 0, 10000, "percent by which values are larger at the end"},
    {"node", &node_bytes, 56, 1, 1 << 20, "bytes of the object beside each value"},
    {0},
};

const struct pattern pattern_lru_cache = {"lru_cache", "a cache of limited bytes whose values change in size",
                                          lru_cache_options, lru_cache_run};

/* SPDX-License-Identifier: MIT */
/* Six small programs, each with one group of objects that a switch really handles in another way. `python -m
   tests.bench.fidelity --whatif` compares them with the predictions of `heaptape whatif` from a recording of the plain
   program.

   whatif_programs NAME MODE [SCALE]. Modes: plain (the group by malloc), remove (there is no group), arena (its objects
   are in an arena of the program's), pool (carved from chunks of 64 KiB by malloc). Everything else is the same in
   every mode. At the end it prints the peak and mean of its own RssAnon above that at its start, as JSON. The program's
   data on its objects is in memory that is resident from the start. */
#include "capture/wire/heaptape.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNK_BYTES = 64 << 10, ARENA_STEP_BYTES = 1 << 20, ARENA_CLASSES = 512, MOST_THREADS = 2 };

static enum { PLAIN, REMOVE, ARENA, POOL } mode;

struct chunk {
  uint8_t *memory;
  size_t carved;
  unsigned live;
};

/* An object of the group, as the program refers to it. */
struct handle {
  uint8_t *object;
  struct chunk *chunk;
  size_t bytes;
};

/* Memory that counts as the program's own from the start. */
static void *resident(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED)
    abort();
  return memory;
}

/* The arena: free lists by size in steps of 16 bytes, and a bump pointer through mappings of 1 MiB. Gives nothing
   back. */
static struct {
  pthread_mutex_t lock;
  uint8_t *at, *end;
  void *freed[ARENA_CLASSES];
} arena = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *arena_acquire(size_t bytes) {
  size_t class = (bytes + 15) / 16;
  pthread_mutex_lock(&arena.lock);
  void *object = arena.freed[class];
  if (object) {
    memcpy(&arena.freed[class], object, sizeof object);
  } else {
    if (arena.at + 16 * class > arena.end) {
      arena.at = mmap(NULL, ARENA_STEP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if ((void *)arena.at == MAP_FAILED)
        abort();
      arena.end = arena.at + ARENA_STEP_BYTES;
    }
    object = arena.at;
    arena.at += 16 * class;
  }
  pthread_mutex_unlock(&arena.lock);
  return object;
}

static void arena_release(void *object, size_t bytes) {
  size_t class = (bytes + 15) / 16;
  pthread_mutex_lock(&arena.lock);
  memcpy(object, &arena.freed[class], sizeof object);
  arena.freed[class] = object;
  pthread_mutex_unlock(&arena.lock);
}

/* The pool: one for each thread; chunks are freed with their last object. */
enum { MOST_CHUNKS = 1 << 16 };
static struct chunk *chunks;
static unsigned chunks_used[MOST_THREADS];
static struct chunk *newest[MOST_THREADS];

static struct chunk *pool_chunk(unsigned thread, size_t bytes) {
  struct chunk *chunk = newest[thread];
  if (chunk && chunk->carved + bytes <= CHUNK_BYTES)
    return chunk;
  chunk = &chunks[thread * (MOST_CHUNKS / MOST_THREADS) + chunks_used[thread]++];
  *chunk = (struct chunk){.memory = malloc(CHUNK_BYTES)};
  return newest[thread] = chunk;
}

static void pool_acquire(unsigned thread, struct handle *handle) {
  size_t bytes = (handle->bytes + 15) & ~(size_t)15;
  struct chunk *chunk = handle->chunk = pool_chunk(thread, bytes);
  handle->object = chunk->memory + chunk->carved;
  chunk->carved += bytes;
  chunk->live++;
}

static void pool_release(unsigned thread, struct handle *handle) {
  if (--handle->chunk->live > 0)
    return;
  if (newest[thread] == handle->chunk)
    newest[thread] = NULL;
  free(handle->chunk->memory);
}

/* The one function that acquires objects of the group: the group is frame=group_new. */
static __attribute__((noinline)) void group_new(unsigned thread, struct handle *handle, size_t bytes) {
  *handle = (struct handle){.bytes = bytes};
  switch (mode) {
  case PLAIN:
    handle->object = malloc(bytes);
    break;
  case REMOVE:
    return;
  case ARENA:
    handle->object = arena_acquire(bytes);
    break;
  case POOL:
    pool_acquire(thread, handle);
    break;
  }
  memset(handle->object, 1, bytes);
}

static void group_free(unsigned thread, struct handle *handle) {
  if (!handle->object)
    return;
  if (mode == PLAIN)
    free(handle->object);
  else if (mode == ARENA)
    arena_release(handle->object, handle->bytes);
  else
    pool_release(thread, handle);
  *handle = (struct handle){0};
}

static void *other_new(size_t bytes) {
  return memset(malloc(bytes), 2, bytes);
}

/* A random number below limit, or from..to. */
static uint64_t random_state[MOST_THREADS] = {88172645463325252u, 2463534242u};
static uint64_t random_below(unsigned thread, uint64_t limit) {
  uint64_t x = random_state[thread];
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  random_state[thread] = x;
  return (x >> 11) % limit;
}
static size_t between(unsigned thread, size_t from, size_t to) {
  return from + random_below(thread, to - from + 1);
}

static uint64_t rss_anon_bytes(void) {
  char text[4096];
  int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  close(fd);
  if (got < 0)
    abort();
  text[got] = '\0';
  const char *at = strstr(text, "RssAnon:");
  return at ? strtoull(at + 8, NULL, 10) << 10 : 0;
}

static uint64_t rss_at_start, rss_peak, rss_sum, samples;
static pthread_mutex_t sampling = PTHREAD_MUTEX_INITIALIZER;

static void sample(void) {
  pthread_mutex_lock(&sampling);
  uint64_t rss = rss_anon_bytes() - rss_at_start;
  rss_peak = rss > rss_peak ? rss : rss_peak;
  rss_sum += rss;
  samples++;
  pthread_mutex_unlock(&sampling);
}

enum { MOST_HANDLES = 1 << 18, MOST_OTHERS = 1 << 20 };
static struct handle *handles;
static void **others;
static unsigned scale = 100;

static unsigned scaled(unsigned count) {
  return (unsigned)((uint64_t)count * scale / 100);
}

/* Requests come in waves, each with objects of another size; of each 32 objects one group entry is cached until the
   end. */
static void waves(void) {
  static const size_t sizes[] = {96, 160, 288, 416, 672, 928, 1440, 2080};
  unsigned cached = 0;
  for (unsigned wave = 0; wave < 8; wave++) {
    heaptape_mark(wave % 2 ? "odd wave" : "even wave");
    unsigned count = scaled(6u << 20) * 4 / (unsigned)sizes[wave];
    for (unsigned i = 0; i < count; i++) {
      others[i] = other_new(sizes[wave]);
      if (i % 32 == 0 && cached < MOST_HANDLES)
        group_new(0, &handles[cached++], between(0, 40, 72));
      if (i % 4096 == 0)
        sample();
    }
    sample();
    for (unsigned i = 0; i < count; i++)
      free(others[i]);
    sample();
  }
}

/* Documents are read into buffers, some of which are always in use; terms found in them stay in an index. */
static void documents(void) {
  enum { WINDOW = 400 };
  unsigned terms = 0;
  for (unsigned document = 0; document < scaled(6000); document++) {
    void **place = &others[random_below(0, WINDOW)];
    free(*place);
    *place = other_new(between(0, 2 << 10, 32 << 10));
    for (unsigned i = 0; i < 12 && terms < MOST_HANDLES; i++)
      group_new(0, &handles[terms++], between(0, 24, 200));
    if (document % 32 == 0)
      sample();
  }
  sample();
}

/* A log in memory of the newest lines, next to a tree that only grows. */
static void lines(void) {
  enum { RING = 40000 };
  unsigned nodes = 0;
  for (unsigned line = 0; line < scaled(300000); line++) {
    struct handle *place = &handles[line % RING];
    group_free(0, place);
    group_new(0, place, between(0, 40, 400));
    if (line % 2 == 0 && nodes < MOST_OTHERS)
      others[nodes++] = other_new(64);
    if (line % 2048 == 0)
      sample();
  }
  sample();
}

/* Short strings among larger records; all records of a kind are freed at once. */
static void strings(void) {
  unsigned used = 0;
  for (unsigned round = 0; round < 4; round++) {
    unsigned count = scaled(20000);
    for (unsigned i = 0; i < count; i++) {
      others[i] = other_new(between(0, 100, 2000));
      for (unsigned j = 0; j < 3 && used < MOST_HANDLES; j++)
        group_new(0, &handles[used++], between(0, 8, 32));
      if (i % 1024 == 0)
        sample();
    }
    sample();
    for (unsigned i = 0; i < count; i++)
      free(others[i]);
    sample();
  }
}

/* A cache of pages of a file, replaced at random, in a program that also allocates and frees small objects. */
static void pages(void) {
  enum { PAGES = 4000, SMALL = 1 << 16 };
  for (unsigned step = 0; step < scaled(400000); step++) {
    void **place = &others[random_below(0, SMALL)];
    free(*place);
    *place = other_new(between(0, 16, 512));
    if (step % 16 == 0) {
      struct handle *page = &handles[random_below(0, PAGES)];
      group_free(0, page);
      group_new(0, page, 4200);
    }
    if (step % 4096 == 0)
      sample();
  }
  sample();
}

/* Two threads, each with connections that come and go, and messages. */
static void *serve(void *argument) {
  enum { CONNECTIONS = 8000, MESSAGES = 20000 };
  unsigned thread = (unsigned)(uintptr_t)argument;
  struct handle *mine = &handles[thread * (MOST_HANDLES / 2)];
  void **messages = &others[thread * (MOST_OTHERS / 2)];
  for (unsigned step = 0; step < scaled(200000); step++) {
    void **place = &messages[random_below(thread, MESSAGES)];
    free(*place);
    *place = other_new(between(thread, 32, 1500));
    if (step % 8 == 0) {
      struct handle *connection = &mine[random_below(thread, CONNECTIONS)];
      group_free(thread, connection);
      group_new(thread, connection, between(thread, 300, 700));
    }
    if (step % 4096 == 0)
      sample();
  }
  return NULL;
}

static void connections(void) {
  pthread_t other;
  if (pthread_create(&other, NULL, serve, (void *)1) != 0)
    abort();
  serve((void *)0);
  pthread_join(other, NULL);
  sample();
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } programs[] = {{"waves", waves},     {"documents", documents}, {"lines", lines},
                  {"strings", strings}, {"pages", pages},         {"connections", connections}};
  static const char *const modes[] = {"plain", "remove", "arena", "pool"};
  void (*run)(void) = NULL;
  int found = -1;
  for (size_t i = 0; argc >= 3 && i < sizeof programs / sizeof *programs; i++)
    if (strcmp(argv[1], programs[i].name) == 0)
      run = programs[i].run;
  for (int i = 0; argc >= 3 && i < 4; i++)
    if (strcmp(argv[2], modes[i]) == 0)
      found = i;
  if (!run || found < 0) {
    fprintf(stderr, "usage: whatif_programs waves|documents|lines|strings|pages|connections plain|remove|arena|pool "
                    "[SCALE, percent]\n");
    return 2;
  }
  mode = (unsigned)found;
  if (argc > 3)
    scale = (unsigned)strtoul(argv[3], NULL, 10);
  handles = resident(MOST_HANDLES * sizeof *handles);
  others = resident(MOST_OTHERS * sizeof *others);
  chunks = resident(MOST_CHUNKS * sizeof *chunks);
  rss_at_start = rss_anon_bytes();
  run();
  printf("{\"rss_anon_peak_bytes\": %llu, \"rss_anon_mean_bytes\": %llu}\n", (unsigned long long)rss_peak,
         (unsigned long long)(samples ? rss_sum / samples : 0));
  return 0;
}

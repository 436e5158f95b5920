/* SPDX-License-Identifier: MIT */
/* Makes control calls. asks: each of libc's, between two objects of 4242 and 4243 bytes. found: malloc_trim by a
   look-up in libc. named: mallctl by name and by mib, among calls that change nothing. own: those of the allocator that
   the program runs on, and which of them it sees. serves: after it has set something, for each request. forks: sets
   something, and forks. steps: this for each line of the input. trim, plain: rounds over 20,000 blocks, of which each
   thousandth is kept, with or without malloc_trim(0) after each, or what other allocators have in its place. */
#include "core/test/usual.h"

extern void mi_collect(bool force) __attribute__((weak));
extern void mi_option_set(int option, long value) __attribute__((weak));
extern void mi_option_enable(int option) __attribute__((weak));
extern void mi_option_disable(int option) __attribute__((weak));
extern void MallocExtension_ReleaseFreeMemory(void) __attribute__((weak));
extern void MallocExtension_ReleaseToSystem(size_t bytes) __attribute__((weak));
extern int MallocExtension_SetNumericProperty(const char *name, size_t value) __attribute__((weak));
extern void MallocExtension_MarkThreadIdle(void) __attribute__((weak));
extern int tc_mallopt(int option, int value) __attribute__((weak));
extern struct mallinfo tc_mallinfo(void) __attribute__((weak));
extern int mallctl(const char *name, void *old, size_t *old_bytes, void *value, size_t bytes) __attribute__((weak));
extern int mallctlnametomib(const char *name, size_t *mib, size_t *parts) __attribute__((weak));
extern int mallctlbymib(const size_t *mib, size_t parts, void *old, size_t *old_bytes, void *value, size_t bytes)
    __attribute__((weak));

static void ask(void) {
  void *first = malloc(4242);
  mallopt(M_ARENA_MAX, 2);
  malloc_trim(4096);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  mallinfo();
  mallinfo2();
  malloc_stats();
  malloc_info(0, stdout);
  void *second = malloc(4243);
  free(first);
  free(second);
}

static void ask_found(void) {
  union {
    void *data;
    int (*code)(size_t);
  } found = {.data = dlsym(dlopen("libc.so.6", RTLD_NOW), "malloc_trim")};
  found.code(7);
}

static void ask_own(void) {
  printf("%d %d %d\n", mi_collect != NULL, mi_option_set != NULL, MallocExtension_ReleaseFreeMemory != NULL);
  if (mi_collect)
    mi_collect(true);
  if (mi_option_set)
    mi_option_set(15, -1);
  if (mi_option_enable) {
    mi_option_enable(15);
    mi_option_disable(15);
  }
  if (MallocExtension_ReleaseFreeMemory) {
    MallocExtension_ReleaseFreeMemory();
    MallocExtension_ReleaseToSystem(4096);
    MallocExtension_SetNumericProperty("tcmalloc.max_total_thread_cache_bytes", 1 << 20);
    MallocExtension_SetNumericProperty("no.such.property", 1);
    MallocExtension_MarkThreadIdle();
    tc_mallopt(M_MMAP_THRESHOLD, -1);
    tc_mallinfo();
  }
}

static void set_by_mib(const char *name, size_t index, void *value, size_t bytes) {
  size_t mib[8], parts = 8;
  mallctlnametomib(name, mib, &parts);
  if (index)
    mib[1] = index;
  mallctlbymib(mib, parts, NULL, NULL, value, bytes);
}

static void ask_named(void) {
  bool yes = true;
  ssize_t never = -1;
  unsigned count, arena = 0;
  size_t bytes = sizeof count;
  mallctl("arenas.narenas", &count, &bytes, NULL, 0);
  mallctl("arenas.dirty_decay_ms", NULL, NULL, &never, sizeof never);
  mallctl("no.such.name", NULL, NULL, &never, sizeof never);
  mallctl("thread.tcache.enabled", NULL, NULL, &yes, sizeof yes);
  mallctl("thread.arena", NULL, NULL, &arena, sizeof arena);
  mallctl("arena.0.purge", NULL, NULL, NULL, 0);
  const char *dss = "disabled";
  mallctl("arena.0.dss", NULL, NULL, &dss, sizeof dss);
  mallctl("arenas.create", &arena, &bytes, NULL, 0);
  printf("%u\n", arena);
  set_by_mib("arena.0.muzzy_decay_ms", arena, &never, sizeof never);
  set_by_mib("thread.tcache.flush", 0, NULL, 0);
}

/* Sets the allocator up; then, for each byte of the input: calls between two objects, and an answer. Meanwhile it makes
   objects, as a recorder is only let in at a call. */
static bool await(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  while (poll(&input, 1, 1) == 0)
    free(malloc(100));
  return true;
}

static void serve(void) {
  char command;
  mallopt(M_ARENA_MAX, 2);
  free(malloc(10));
  while (write(1, "\n", 1) == 1 && await() && read(0, &command, 1) == 1) {
    void *first = malloc(4242);
    mallopt(M_TOP_PAD, 64 << 10);
    malloc_trim(7);
    if (mallctl)
      mallctl("arena.0.purge", NULL, NULL, NULL, 0);
    if (mi_collect)
      mi_collect(true);
    free(first);
  }
}

/* Sets M_ARENA_MAX and M_TOP_PAD, this twice; then makes objects, a part of them in a fork child. */
static void set_and_fork(void) {
  free(malloc(10));
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_TOP_PAD, 1 << 20);
  malloc_trim(0);
  mallopt(M_TOP_PAD, 4 << 20);
  for (int i = 0; i < 100000; i++)
    free(malloc((size_t)i % 5000));
  if (fork() == 0) {
    mallopt(M_MMAP_MAX, 5);
    free(malloc(4242));
    exit(0);
  }
  wait(NULL);
  for (int i = 0; i < 100000; i++)
    free(malloc((size_t)i % 5000));
}

/* For each byte of the input: M_TOP_PAD, objects, a part of them in a fork child, and an answer. */
static void step(void) {
  char command;
  while (read(0, &command, 1) == 1) {
    mallopt(M_TOP_PAD, 1 << 20);
    for (int i = 0; i < 50000; i++)
      free(malloc((size_t)i % 5000));
    if (fork() == 0) {
      free(malloc(4242));
      exit(0);
    }
    wait(NULL);
    if (write(1, "\n", 1) != 1)
      return;
  }
}

static void keep(bool trim) {
  enum { BLOCKS = 20000, ROUNDS = 5 };
  static char *block[BLOCKS];
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      if (i % 1000 == 0)
        free(block[i]);
      block[i] = malloc(500);
      memset(block[i], 1, 500);
    }
    for (int i = 0; i < BLOCKS; i++)
      if (i % 1000)
        free(block[i]);
    if (trim && mallctl) {
      mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
      mallctl("arena.4096.purge", NULL, NULL, NULL, 0); /* of all */
    } else if (trim && MallocExtension_ReleaseFreeMemory) {
      MallocExtension_ReleaseFreeMemory();
    } else if (trim) {
      malloc_trim(0);
    }
  }
}

int main(int count, char **arguments) {
  const char *what = count > 1 ? arguments[1] : "";
  if (strcmp(what, "asks") == 0)
    ask();
  else if (strcmp(what, "found") == 0)
    ask_found();
  else if (strcmp(what, "own") == 0)
    ask_own();
  else if (strcmp(what, "serves") == 0)
    serve();
  else if (strcmp(what, "forks") == 0)
    set_and_fork();
  else if (strcmp(what, "named") == 0)
    ask_named();
  else if (strcmp(what, "steps") == 0)
    step();
  else
    keep(strcmp(what, "trim") == 0);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* C23's sized frees are recorded with their sizes and reach the allocator's own; where it has none, its free. A
   reallocarray that another library implements by realloc is one event. */
#include "capture/test/hosts/recording.h"

#include <dlfcn.h>

enum { ROUNDS = 100, BYTES = 123, ALIGN_BYTES = 16 };

/* Not in this libc: libheaptape.so has them, where the program is recorded. */
__attribute__((weak)) void free_sized(void *object, size_t size);
__attribute__((weak)) void free_aligned_sized(void *object, size_t align, size_t size);

int host(void) {
  union {
    void *data;
    size_t (*code)(void);
  } sized_frees = {dlsym(RTLD_DEFAULT, "sized_frees")};
  for (int i = 0; i < ROUNDS; i++) {
    free_sized(keep(malloc(BYTES)), BYTES);
    free_aligned_sized(keep(malloc(BYTES)), ALIGN_BYTES, BYTES);
    free(keep(reallocarray(keep(malloc(BYTES)), 2, BYTES)));
  }
  return sized_frees.data && sized_frees.code() != 2 * ROUNDS;
}

struct seen {
  int sized, aligned, resized, plain_resized;
};

static void count(void *context, uint32_t thread, const struct trace_event *event) {
  struct seen *seen = context;
  (void)thread;
  if (event->size_bytes != BYTES)
    return;
  int id = event->call & CALL_ID_MASK;
  seen->sized += id == CALL_free_sized;
  seen->aligned += id == CALL_free_aligned_sized && event->param == ALIGN_BYTES;
  seen->resized += id == CALL_reallocarray && event->param == 2;
  seen->plain_resized += id == CALL_realloc;
}

static void try_on(const char *first, const char *second) {
  char preload[2][512];
  const char *options[8] = {NULL}, *libraries[2] = {first, second};
  int used = 0;
  for (int i = 0; i < 2 && libraries[i]; i++) {
    snprintf(preload[i], sizeof preload[i], "%s", built_file(libraries[i]));
    options[used++] = "--preload";
    options[used++] = preload[i];
  }
  CHECK(record_self(options) == 0, "the host failed on %s", first ? first : "the C library");
  struct seen seen = {0};
  struct recorded recorded = read_trace("t.tape", count, &seen);
  CHECK(seen.sized == ROUNDS && seen.aligned == ROUNDS, "%d sized, %d aligned", seen.sized, seen.aligned);
  CHECK(seen.resized == ROUNDS && seen.plain_resized == 0, "%d reallocarray, %d realloc of the same size", seen.resized,
        seen.plain_resized);
  CHECK(recorded.calls[CALL_realloc] == 0, "%ld calls of realloc", (long)recorded.calls[CALL_realloc]);
}

int test(void) {
  try_on(NULL, NULL);
  try_on("lib/test/libbump.so", NULL);
  try_on("lib/test/libforwards.so", "lib/test/libbump.so");
  return 0;
}

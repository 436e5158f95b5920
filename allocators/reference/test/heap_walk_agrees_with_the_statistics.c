/* The walk's bytes of each state are those that malloc_info and mallinfo2 tell, at any moment of a busy heap; its
   blocks do not overlap, and no byte of a live object lies in a block that is free. */
#include "allocators/reference/entry.h"
#include "allocators/reference/reference.h"

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mallinfo2 reference_mallinfo2(void);
int reference_malloc_info(int options, FILE *stream);

enum { OBJECTS = 3000, ROUNDS = 40, CALLS = 2000, TEXT_BYTES = 1 << 16 };

static struct {
  char *address;
  size_t bytes;
} objects[OBJECTS];

static struct {
  uint64_t bytes[REFERENCE_STATES], blocks, live_bytes_in_free_blocks;
  uintptr_t end;
  unsigned overlaps;
} walked;

static void visit(const void *address, size_t bytes, unsigned state, void *context) {
  const char *first = address;
  (void)context;
  if (state >= REFERENCE_STATES)
    abort();
  walked.bytes[state] += bytes;
  walked.blocks++;
  walked.overlaps += (uintptr_t)address < walked.end; /* there is one arena, with one heap */
  walked.end = (uintptr_t)address + bytes;
  for (int index = 0; state != REFERENCE_USED && index < OBJECTS; index++) {
    const char *object = objects[index].address;
    if (object && object < first + bytes && object + objects[index].bytes > first)
      walked.live_bytes_in_free_blocks++;
  }
}

static uint64_t total(const char *text, const char *state) {
  char wanted[64];
  snprintf(wanted, sizeof wanted, "<total type=\"%s\"", state);
  const char *at = strstr(text, wanted);
  at = at ? strstr(at, "size=\"") : NULL;
  return at ? strtoull(at + 6, NULL, 10) : UINT64_MAX;
}

static int check(char *text, FILE *stream) {
  rewind(stream);
  reference_malloc_info(0, stream);
  fflush(stream);
  struct mallinfo2 info = reference_mallinfo2();
  memset(&walked, 0, sizeof walked);
  heaptape_heap_walk(visit, NULL);
  walked.bytes[REFERENCE_TOP] += 8; /* its last word is nobody's block */
  uint64_t free_bytes = 0;
  for (unsigned state = 0; state < REFERENCE_STATES; state++) {
    const char *name = heaptape_heap_walk_state(state);
    if (walked.bytes[state] != total(text, name)) {
      fprintf(stderr, "%s: %llu walked, %llu by malloc_info\n", name, (unsigned long long)walked.bytes[state],
              (unsigned long long)total(text, name));
      return 1;
    }
    free_bytes += state == REFERENCE_USED || state == REFERENCE_TCACHE ? 0 : walked.bytes[state];
  }
  if (walked.overlaps || walked.live_bytes_in_free_blocks || walked.blocks == 0 || free_bytes != info.fordblks ||
      walked.bytes[REFERENCE_USED] + walked.bytes[REFERENCE_TCACHE] != info.uordblks) {
    fprintf(stderr, "%u overlaps, %llu objects in free blocks, or mallinfo2 disagrees\n", walked.overlaps,
            (unsigned long long)walked.live_bytes_in_free_blocks);
    return 1;
  }
  return 0;
}

int main(void) {
  static char text[TEXT_BYTES];
  FILE *stream = fmemopen(text, sizeof text, "w");
  unsigned seed = 7, seen = 0;
  if (!stream || heaptape_heap_walk_state(REFERENCE_STATES))
    return 1;
  for (int round = 0; round < ROUNDS; round++) {
    for (int call = 0; call < CALLS; call++) {
      int index = rand_r(&seed) % OBJECTS;
      reference_free(objects[index].address);
      objects[index].bytes = (size_t)(rand_r(&seed) % (call % 50 == 0 ? 100000 : 900));
      objects[index].address = rand_r(&seed) % 3 == 0 ? NULL : reference_malloc(objects[index].bytes);
    }
    if (check(text, stream) != 0)
      return 1;
    for (unsigned state = 0; state < REFERENCE_STATES; state++)
      seen |= (walked.bytes[state] > 0) << state;
  }
  /* A test of states that never come up shows nothing. */
  unsigned wanted = 1u << REFERENCE_USED | 1u << REFERENCE_TCACHE | 1u << REFERENCE_SMALL | 1u << REFERENCE_LARGE |
                    1u << REFERENCE_TOP;
  return (seen & wanted) == wanted ? 0 : 1;
}

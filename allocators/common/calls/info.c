/* SPDX-License-Identifier: MIT */
/* The malloc API's figures of the heap: all from the heap walk and the allocator's additions to it. */
#include "allocators/common/allocator.h"
#include "allocators/common/entry.h"
#include "allocators/common/hooks.h"
#include "allocators/common/startup.h"

#include <errno.h>

static void add_block(const void *address, size_t bytes, unsigned state, void *context) {
  struct heap_sums *sums = context;
  (void)address;
  sums->count[state]++;
  sums->bytes[state] += bytes;
}

static struct mallinfo2 summarize(struct heap_sums *sums) {
  struct mallinfo2 info = {0};
  startup();
  heaptape_heap_walk(add_block, sums);
  allocator_summarize(sums, &info);
  return info;
}

struct mallinfo2 allocator_mallinfo2(void) {
  struct heap_sums sums = {.count = {0}};
  return summarize(&sums);
}

/* The old form: sums modulo 2^32, as everywhere. */
struct mallinfo allocator_mallinfo(void);
struct mallinfo allocator_mallinfo(void) {
  struct mallinfo2 info = allocator_mallinfo2();
  return (struct mallinfo){
      .arena = (int)info.arena,
      .ordblks = (int)info.ordblks,
      .smblks = (int)info.smblks,
      .hblks = (int)info.hblks,
      .hblkhd = (int)info.hblkhd,
      .usmblks = (int)info.usmblks,
      .fsmblks = (int)info.fsmblks,
      .uordblks = (int)info.uordblks,
      .fordblks = (int)info.fordblks,
      .keepcost = (int)info.keepcost,
  };
}

/* Computes all sums before printing, as stdio allocates. */
int allocator_malloc_info(int options, FILE *stream) {
  if (options != 0) {
    errno = EINVAL;
    return -1;
  }
  struct heap_sums sums = {.count = {0}};
  struct mallinfo2 info = summarize(&sums);
  const char *name;
  fprintf(stream, "<malloc version=\"" ALLOCATOR_NAME "-1\">\n");
  for (unsigned state = 0; (name = heaptape_heap_walk_state(state)); state++)
    fprintf(stream, "<total type=\"%s\" count=\"%zu\" size=\"%zu\"/>\n", name, sums.count[state], sums.bytes[state]);
  fprintf(stream, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", info.hblks, info.hblkhd);
  allocator_print_parts(stream);
  fprintf(stream, "</malloc>\n");
  return 0;
}

void allocator_malloc_stats(void);
void allocator_malloc_stats(void) {
  struct mallinfo2 info = allocator_mallinfo2();
  fprintf(stderr, "system bytes = %zu\nin use bytes = %zu\nmapped objects = %zu\nmapped bytes = %zu\n", info.arena,
          info.uordblks, info.hblks, info.hblkhd);
}

PUBLIC_NAME(struct mallinfo2, mallinfo2, (void), allocator_mallinfo2);
PUBLIC_NAME(struct mallinfo, mallinfo, (void), allocator_mallinfo);
PUBLIC_NAME(int, malloc_info, (int options, FILE *stream), allocator_malloc_info);
PUBLIC_NAME(void, malloc_stats, (void), allocator_malloc_stats);

/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/page_faults.h"

#include <pub_tool_libcbase.h>
#include <pub_tool_mallocfree.h>

enum { CHUNK_SHIFT = 12, CHUNK_PAGES = 1 << CHUNK_SHIFT, WORD_SHIFT = 6, WORD_BITS = 1 << WORD_SHIFT, BUCKETS = 4096 };

/* The pages whose number is number << CHUNK_SHIFT and up: a bit each. Chunks stay when their pages are given back. */
struct chunk {
  UWord number;
  struct chunk *next;
  ULong touched[CHUNK_PAGES / WORD_BITS];
};

/* A chunk is 16 MiB of addresses, so most lookups find theirs first in its bucket. */
static struct chunk *buckets[BUCKETS];
static UWord chunk_count;

static struct chunk *find_chunk(UWord number) {
  struct chunk *chunk = buckets[number % BUCKETS];
  while (chunk && chunk->number != number)
    chunk = chunk->next;
  return chunk;
}

static struct chunk *make_chunk(UWord number) {
  struct chunk *chunk = VG_(calloc)("page_faults.chunk", 1, sizeof *chunk);
  chunk->number = number;
  chunk->next = buckets[number % BUCKETS];
  buckets[number % BUCKETS] = chunk;
  chunk_count++;
  return chunk;
}

Bool page_faults_touch(UWord page) {
  struct chunk *chunk = find_chunk(page >> CHUNK_SHIFT);
  if (!chunk)
    chunk = make_chunk(page >> CHUNK_SHIFT);
  ULong *word = &chunk->touched[page % CHUNK_PAGES >> WORD_SHIFT], bit = 1ull << page % WORD_BITS;
  if (*word & bit)
    return False;
  *word |= bit;
  return True;
}

/* first, end: pages of the chunk's own numbers, from 0 to CHUNK_PAGES. */
static void clear(struct chunk *chunk, UWord first, UWord end) {
  for (UWord page = first; page < end;) {
    if (page % WORD_BITS == 0 && end - page >= WORD_BITS) {
      chunk->touched[page >> WORD_SHIFT] = 0;
      page += WORD_BITS;
    } else {
      chunk->touched[page >> WORD_SHIFT] &= ~(1ull << page % WORD_BITS);
      page++;
    }
  }
}

/* Clears the pages from first up to end that are in the chunk. */
static void clear_part(struct chunk *chunk, UWord first, UWord end) {
  UWord start = chunk->number << CHUNK_SHIFT, limit = start + CHUNK_PAGES;
  UWord from = first > start ? first : start, to = end < limit ? end : limit;
  if (from < to)
    clear(chunk, from - start, to - start);
}

static void clear_everywhere(UWord first, UWord end) {
  for (UInt bucket = 0; bucket < BUCKETS; bucket++)
    for (struct chunk *chunk = buckets[bucket]; chunk; chunk = chunk->next)
      clear_part(chunk, first, end);
}

static UWord round_up(Addr address) {
  return (address >> PAGE_FAULTS_SHIFT) + (address % (1u << PAGE_FAULTS_SHIFT) != 0);
}

void page_faults_give_back(Addr address, SizeT bytes) {
  UWord first = round_up(address), end = round_up(address + bytes);
  if (first >= end || chunk_count == 0)
    return;
  UWord last_chunk = (end - 1) >> CHUNK_SHIFT;
  if (last_chunk - (first >> CHUNK_SHIFT) > chunk_count) {
    clear_everywhere(first, end);
    return;
  }
  for (UWord number = first >> CHUNK_SHIFT; number <= last_chunk; number++) {
    struct chunk *chunk = find_chunk(number);
    if (chunk)
      clear_part(chunk, first, end);
  }
}

static Bool is_touched(UWord page) {
  const struct chunk *chunk = find_chunk(page >> CHUNK_SHIFT);
  return chunk && (chunk->touched[page % CHUNK_PAGES >> WORD_SHIFT] >> page % WORD_BITS & 1);
}

void page_faults_move(Addr from, Addr to, SizeT bytes) {
  UWord first = from >> PAGE_FAULTS_SHIFT, target = to >> PAGE_FAULTS_SHIFT, count = round_up(bytes);
  page_faults_give_back(to, bytes);
  for (UWord page = 0; page < count; page++)
    if (is_touched(first + page))
      page_faults_touch(target + page);
  page_faults_give_back(from, bytes);
}

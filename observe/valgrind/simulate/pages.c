/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/simulate/pages.h"

#include <pub_tool_libcbase.h>
#include <pub_tool_mallocfree.h>

enum {
  PAGE_SHIFT = PAGE_FAULTS_SHIFT,
  WORD_BITS = 64,
  CHUNK_SHIFT = 15,
  CHUNK_BITS = 1 << CHUNK_SHIFT,
  BUCKETS = 4096
};
static const SizeT NOTED_BYTES = (SizeT)64 << 30;

/* The numbers from number << CHUNK_SHIFT on: a bit each. Chunks stay when they are empty. */
struct chunk {
  UWord number;
  struct chunk *next;
  ULong generation;
  ULong words[CHUNK_BITS / WORD_BITS];
};

/* A set of numbers. What was put into a chunk in another generation is no longer in the set. */
struct set {
  const ULong *generation;
  UWord chunk_count;
  struct chunk *buckets[BUCKETS];
};

static const ULong always;
static ULong burst = 1;
static struct set touched = {.generation = &always}, burst_lines = {.generation = &burst},
                  burst_pages = {.generation = &burst}, given = {.generation = &burst};

/* The chunk that has the number. NULL: it does not exist, and make is False. */
static struct chunk *find_chunk(struct set *set, UWord number, Bool make) {
  UWord wanted = number >> CHUNK_SHIFT;
  struct chunk **bucket = &set->buckets[wanted % BUCKETS], *chunk = *bucket;
  while (chunk && chunk->number != wanted)
    chunk = chunk->next;
  if (!chunk && !make)
    return NULL;
  if (!chunk) {
    chunk = VG_(malloc)("pages.chunk", sizeof *chunk);
    chunk->number = wanted;
    chunk->generation = *set->generation + 1;
    chunk->next = *bucket;
    *bucket = chunk;
    set->chunk_count++;
  }
  if (chunk->generation != *set->generation) {
    VG_(memset)(chunk->words, 0, sizeof chunk->words);
    chunk->generation = *set->generation;
  }
  return chunk;
}

static ULong bit_of(UWord number) {
  return 1ull << number % WORD_BITS;
}

static Bool put(struct set *set, UWord number) {
  ULong *word = &find_chunk(set, number, True)->words[number % CHUNK_BITS / WORD_BITS];
  Bool is_new = !(*word & bit_of(number));
  *word |= bit_of(number);
  return is_new;
}

static Bool has(struct set *set, UWord number) {
  const struct chunk *chunk = find_chunk(set, number, False);
  return chunk && (chunk->words[number % CHUNK_BITS / WORD_BITS] & bit_of(number));
}

/* Puts in, or takes out, the numbers from first up to end that are in the chunk. */
static void change_part(struct chunk *chunk, UWord first, UWord end, Bool in) {
  UWord start = chunk->number << CHUNK_SHIFT, limit = start + CHUNK_BITS;
  end = end < limit ? end : limit;
  for (UWord number = first > start ? first : start; number < end;) {
    Bool whole = number % WORD_BITS == 0 && end - number >= WORD_BITS;
    ULong *word = &chunk->words[(number - start) / WORD_BITS], bits = whole ? ~0ull : bit_of(number);
    *word = in ? *word | bits : *word & ~bits;
    number += whole ? WORD_BITS : 1;
  }
}

Bool page_faults_touch(UWord page) {
  return put(&touched, page);
}

static UWord round_up(Addr address) {
  return (address >> PAGE_SHIFT) + (address % (1u << PAGE_SHIFT) != 0);
}

void page_faults_give_back(Addr address, SizeT bytes) {
  UWord first = round_up(address), end = round_up(address + bytes);
  if (first >= end || touched.chunk_count == 0)
    return;
  UWord first_chunk = first >> CHUNK_SHIFT, last_chunk = (end - 1) >> CHUNK_SHIFT;
  Bool all_chunks = last_chunk - first_chunk > touched.chunk_count;
  for (UInt bucket = 0; all_chunks && bucket < BUCKETS; bucket++)
    for (struct chunk *chunk = touched.buckets[bucket]; chunk; chunk = chunk->next)
      change_part(chunk, first, end, False);
  for (UWord number = first_chunk; !all_chunks && number <= last_chunk; number++) {
    struct chunk *chunk = find_chunk(&touched, number << CHUNK_SHIFT, False);
    if (chunk)
      change_part(chunk, first, end, False);
  }
}

void page_faults_move(Addr from, Addr to, SizeT bytes) {
  UWord first = from >> PAGE_SHIFT, target = to >> PAGE_SHIFT, count = round_up(bytes);
  page_faults_give_back(to, bytes);
  for (UWord page = 0; page < count; page++)
    if (has(&touched, first + page))
      put(&touched, target + page);
  page_faults_give_back(from, bytes);
}

void burst_begin(void) {
  burst++;
}

Bool burst_first_line(UWord line) {
  return put(&burst_lines, line);
}

Bool burst_first_page(UWord page) {
  return put(&burst_pages, page);
}

void burst_note_given(Addr address, SizeT bytes) {
  if (bytes == 0)
    return;
  UWord first = address >> PAGE_SHIFT;
  UWord end = ((address + (bytes < NOTED_BYTES ? bytes : NOTED_BYTES) - 1) >> PAGE_SHIFT) + 1;
  for (UWord number = first >> CHUNK_SHIFT; number <= (end - 1) >> CHUNK_SHIFT; number++)
    change_part(find_chunk(&given, number << CHUNK_SHIFT, True), first, end, True);
}

Bool burst_was_given(UWord page) {
  return has(&given, page);
}

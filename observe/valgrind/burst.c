/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/burst.h"

#include <pub_tool_libcbase.h>
#include <pub_tool_mallocfree.h>

enum { PAGE_SHIFT = 12, WORD_BITS = 64, WORDS = 512, BUCKETS = 4096 };
static const SizeT NOTED_BYTES = (SizeT)64 << 30;

/* A set of numbers: a bit each, in chunks of WORDS words. Numbers from before the present burst are not in it. */
struct chunk {
  UWord number;
  struct chunk *next;
  ULong burst;
  ULong words[WORDS];
};
struct set {
  struct chunk *buckets[BUCKETS];
};

static struct set lines, pages, given;
static ULong burst = 1;

void burst_begin(void) {
  burst++;
}

/* The word that has the number's bit; NULL: it does not exist, and make is False. */
static ULong *find_word(struct set *set, UWord number, Bool make) {
  UWord wanted = number / (WORDS * WORD_BITS);
  struct chunk **bucket = &set->buckets[wanted % BUCKETS], *chunk = *bucket;
  while (chunk && chunk->number != wanted)
    chunk = chunk->next;
  if (!chunk && !make)
    return NULL;
  if (!chunk) {
    chunk = VG_(malloc)("burst.chunk", sizeof *chunk);
    chunk->number = wanted;
    chunk->next = *bucket;
    chunk->burst = 0;
    *bucket = chunk;
  }
  if (chunk->burst != burst) {
    VG_(memset)(chunk->words, 0, sizeof chunk->words);
    chunk->burst = burst;
  }
  return &chunk->words[number / WORD_BITS % WORDS];
}

static inline ULong bit_of(UWord number) {
  return 1ull << number % WORD_BITS;
}

static Bool put(struct set *set, UWord number) {
  ULong *word = find_word(set, number, True);
  Bool is_new = !(*word & bit_of(number));
  *word |= bit_of(number);
  return is_new;
}

Bool burst_first_line(UWord line) {
  return put(&lines, line);
}

Bool burst_first_page(UWord page) {
  return put(&pages, page);
}

void burst_note_given(Addr address, SizeT bytes) {
  if (bytes == 0)
    return;
  UWord last = (address + (bytes < NOTED_BYTES ? bytes : NOTED_BYTES) - 1) >> PAGE_SHIFT;
  for (UWord page = address >> PAGE_SHIFT; page <= last;) {
    ULong *word = find_word(&given, page, True);
    if (page % WORD_BITS == 0 && last - page >= WORD_BITS - 1) {
      *word = ~0ull;
      page += WORD_BITS;
    } else {
      *word |= bit_of(page++);
    }
  }
}

Bool burst_was_given(UWord page) {
  const ULong *word = find_word(&given, page, False);
  return word && (*word & bit_of(page));
}

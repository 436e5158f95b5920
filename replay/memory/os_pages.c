/* SPDX-License-Identifier: MIT */
#include "replay/memory/os_pages.h"

#include "core/base/assert.h"
#include "core/base/os.h"

#include <string.h>

enum {
  SPAN_PAGES = OS_PAGES_OF_SPAN, /* 2 MiB, as huge pages have and as allocators align: a span usually has one owner */
  WORDS = SPAN_PAGES / 64,
  TABLE_BITS = 16,
  SPANS = 1 << (TABLE_BITS - 1), /* half of the table: 64 GiB of addresses */
  SPANS_AT_FIRST = 1024,
  RECENT = 1024,
};
_Static_assert(SPANS *SPAN_PAGES == OS_PAGES_PLACES, "each OS page has a number");

/* 512 OS pages of the address space. Stays in the table once it was added. */
struct span {
  uint64_t number;
  uint32_t moment;         /* for which `content` is valid */
  uint32_t content;        /* its place among the contents */
  uint32_t covered_moment; /* when one live object covered it all, with nothing resident */
  uint64_t held[WORDS];    /* an object has been there */
  uint64_t left_out[WORDS];
};

/* The content of a span at the present moment, if anything is resident or lives there. For each OS page the bytes of
   live requests, and in the upper half of the word their rounding: one addition per object. 32 bits each, as OS pages
   have up to 64 KiB. */
struct content {
  uint64_t resident[WORDS];
  uint64_t fill[SPAN_PAGES];
};

/* Spans are in an array, not in the table: each scan of the process's memory (residency.c) walks all resident memory,
   and a table of spans was most of it, with 10 MB, in a small replay. */
static struct span *spans;
static uint32_t *table; /* by number: its place among the spans, plus 1; 0: empty */
static struct content *contents;
static uint32_t *used; /* places of spans, by rising number */
static uint32_t used_count, content_count, moment;
static unsigned page_shift, span_shift;
static uint64_t page_bytes, lost_live_bytes, lost_resident_bytes;
static struct span
    *recent[RECENT]; /* by the low bits of the number: so that spans of one arena do not evict one another */

int os_pages_setup(uint64_t peak_live_bytes) {
  page_bytes = os_page_bytes();
  page_shift = (unsigned)__builtin_ctzll(page_bytes);
  span_shift = page_shift + 9;
  size_t table_bytes = sizeof *table << TABLE_BITS;
  uint64_t expected = SPANS_AT_FIRST + 2 * (peak_live_bytes >> span_shift);
  table = os_map(table_bytes, true);
  used = os_map(sizeof *used * SPANS, true);
  spans = os_map(sizeof *spans * SPANS, true);
  contents = os_map(sizeof *contents * SPANS, true); /* touched as far as needed: 4 KiB per span that is resident */
  if (!table || !used || !spans || !contents)
    return -1;
  expected = expected < SPANS ? expected : SPANS;
  memset(table, 0, table_bytes); /* now, as page faults while the replay runs are the allocator's */
  memset(used, 0, sizeof *used * expected);
  memset(spans, 0, sizeof *spans * expected);
  memset(recent, 0, sizeof recent);
  return 0;
}

void os_pages_lost(uint64_t *live_bytes, uint64_t *resident_bytes) {
  *live_bytes = lost_live_bytes;
  *resident_bytes = lost_resident_bytes;
}

/* Spans are few and new ones rare, so their order is kept by insertion. */
static void add_used(uint64_t number) {
  uint32_t place = used_count;
  for (; place > 0 && spans[used[place - 1]].number > number; place--)
    used[place] = used[place - 1];
  used[place] = used_count;
  spans[used_count++].number = number;
}

static __attribute__((noinline)) struct span *find_in_table(uint64_t number, bool make) {
  uint32_t entry = (uint32_t)((number * 0x9e3779b97f4a7c15u) >> (64 - TABLE_BITS));
  while (table[entry] && spans[table[entry] - 1].number != number)
    entry = (entry + 1) & ((1u << TABLE_BITS) - 1);
  if (!table[entry]) {
    if (!make || used_count == SPANS)
      return NULL;
    add_used(number);
    table[entry] = used_count;
  }
  return recent[number % RECENT] = &spans[table[entry] - 1];
}

/* Returns the entry of a span; a new one if make. NULL: none. */
static inline struct span *find(uint64_t number, bool make) {
  struct span *span = recent[number % RECENT];
  return span && span->number == number ? span : find_in_table(number, make);
}

static inline struct content *content_of(const struct span *span) {
  return span && span->moment == moment ? &contents[span->content] : NULL;
}

static struct content *make_content(struct span *span) {
  struct content *content = &contents[span->content = content_count++];
  span->moment = moment;
  memset(content, 0, sizeof *content);
  return content;
}

static bool has(const uint64_t *bits, unsigned page) {
  return bits[page / 64] >> page % 64 & 1;
}

static void set(uint64_t *bits, unsigned first, unsigned end) {
  for (unsigned page = first; page < end;) {
    unsigned bit = page % 64, count = end - page < 64 - bit ? end - page : 64 - bit;
    bits[page / 64] |= (count == 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1) << bit;
    page += count;
  }
}

/* The part of [address, end) in address's span, in which it touches the OS pages [first, end). */
struct part {
  uint64_t number, bytes, next;
  unsigned first, end;
};

static inline struct part part_of(uint64_t address, uint64_t end) {
  struct part part = {.number = address >> span_shift};
  uint64_t span_end = (part.number + 1) << span_shift;
  part.next = end < span_end ? end : span_end;
  part.bytes = part.next - address;
  part.first = (unsigned)(address >> page_shift) % SPAN_PAGES;
  part.end = (unsigned)((part.next - 1) >> page_shift) % SPAN_PAGES + 1;
  return part;
}

/* Is a range beyond the table? Then the rest of it is left out, else a request of 2^55 bytes, which an allocator that
   touches nothing may fulfil, would take hours. */
static inline bool is_beyond(const struct span *span, uint64_t next, uint64_t end) {
  return !span && (end - next) >> span_shift > SPANS;
}

static inline bool in_one_page(uint64_t first, uint64_t last) {
  return (first ^ last) >> page_shift == 0;
}

void os_pages_note_object(uint64_t address, uint64_t bytes) {
  uint64_t end = address + (bytes ? bytes : 1);
  while (address < end) {
    struct part part = part_of(address, end);
    struct span *span = find(part.number, true);
    if (span && part.end == part.first + 1)
      span->held[part.first / 64] |= (uint64_t)1 << part.first % 64;
    else if (span)
      set(span->held, part.first, part.end);
    address = is_beyond(span, part.next, end) ? end : part.next;
  }
}

void os_pages_begin(void) {
  moment++;
  content_count = 0;
}

void os_pages_leave_out(uint64_t address, uint64_t bytes) {
  for (uint64_t end = address + bytes; address < end;) {
    struct part part = part_of(address, end);
    struct span *span = find(part.number, true);
    if (span)
      set(span->left_out, part.first, part.end);
    address = part.next;
  }
}

void os_pages_add_resident(uint64_t address, uint64_t bytes) {
  for (uint64_t end = address + bytes; address < end;) {
    struct part part = part_of(address, end);
    struct span *span = find(part.number, true);
    struct content *content = content_of(span);
    if (!content && span)
      content = make_content(span);
    if (content)
      set(content->resident, part.first, part.end);
    else
      lost_resident_bytes += part.bytes;
    address = part.next;
  }
}

static void add_to_pages(uint64_t *fill, uint64_t address, uint64_t bytes, unsigned shift) {
  unsigned page = (unsigned)(address >> page_shift) % SPAN_PAGES;
  uint64_t room = page_bytes - (address & (page_bytes - 1));
  for (; bytes > room; page++) {
    fill[page] += room << shift;
    bytes -= room;
    room = page_bytes;
  }
  fill[page] += bytes << shift;
}

/* shift: 0 for live requests, 32 for rounding. */
static __attribute__((noinline)) void add_range(uint64_t address, uint64_t bytes, unsigned shift) {
  for (uint64_t end = address + bytes; address < end;) {
    struct part part = part_of(address, end);
    struct span *span = find(part.number, true);
    if (is_beyond(span, part.next, end)) {
      part.bytes = end - address;
      part.next = end;
    }
    struct content *content = content_of(span);
    if (!content && span && part.end - part.first == SPAN_PAGES && part.bytes == (uint64_t)1 << span_shift && !shift)
      span->covered_moment = moment; /* nothing of it is resident: no need for a content */
    else if (!content && span)
      content = make_content(span);
    if (content)
      add_to_pages(content->fill, address, part.bytes, shift);
    lost_live_bytes += span || shift ? 0 : part.bytes;
    address = part.next;
  }
}

void os_pages_add_object(uint64_t address, uint64_t bytes, uint64_t rounding_bytes) {
  uint64_t all = bytes + rounding_bytes;
  if (all > 0 && in_one_page(address, address + all - 1)) {
    struct content *content = content_of(find(address >> span_shift, false));
    if (content) {
      content->fill[(address >> page_shift) % SPAN_PAGES] += bytes | rounding_bytes << 32;
      return;
    }
  }
  add_range(address, bytes, 0);
  add_range(address + bytes, rounding_bytes, 32);
}

static inline uint64_t live_in(const struct content *content, unsigned page) {
  uint64_t live = (uint32_t)content->fill[page];
  return live < page_bytes ? live : page_bytes;
}

void os_pages_visit(void (*visit)(uint64_t address, uint64_t live_bytes, uint64_t resident_bytes)) {
  for (uint32_t index = 0; index < used_count; index++) {
    const struct span *span = &spans[used[index]];
    const struct content *content = content_of(span);
    uint64_t address = span->number << span_shift;
    if (!content && span->covered_moment == moment)
      visit(address, (uint64_t)1 << span_shift, 0);
    for (unsigned page = 0; content && page < SPAN_PAGES; page++) {
      uint64_t live = live_in(content, page), resident = has(content->resident, page) ? page_bytes : 0;
      if (live + resident > 0)
        visit(address + page * page_bytes, live, resident);
    }
  }
}

static unsigned fill_class(uint64_t live_bytes) {
  if (live_bytes == page_bytes)
    return FILL_CLASSES - 1;
  return (unsigned)((live_bytes * 10 + page_bytes - 1) >> page_shift);
}

/* Parts stay within the whole, whatever the allocator returns. */
static inline uint64_t rounding_in(const struct content *content, unsigned page, uint64_t live_bytes) {
  uint64_t rounding = content->fill[page] >> 32, room = page_bytes - live_bytes;
  return rounding < room ? rounding : room;
}

static void add_page(struct os_pages_sum *sum, const struct span *span, const struct content *content, unsigned page) {
  uint64_t live = live_in(content, page), rounding = rounding_in(content, page, live);
  uint64_t all = (uint32_t)content->fill[page] + (content->fill[page] >> 32);
  if (unlikely(all > page_bytes))
    sum->overlap_bytes += all - page_bytes;
  HT_ASSERT(live + rounding <= page_bytes);
  sum->os_pages[fill_class(live)]++;
  sum->live_bytes += live;
  sum->rounding_bytes += rounding;
  if (live + rounding > 0)
    sum->beside_bytes += page_bytes - live - rounding;
  else if (has(span->held, page))
    sum->empty_bytes += page_bytes;
  else
    sum->untouched_bytes += page_bytes;
}

void os_pages_sum_up(struct os_pages_sum *sum) {
  *sum = (struct os_pages_sum){0};
  for (uint32_t index = 0; index < used_count; index++) {
    struct span *span = &spans[used[index]];
    struct content *content = content_of(span);
    if (!content) {
      if (span->covered_moment != moment)
        memset(span->held, 0, sizeof span->held);
      continue;
    }
    for (unsigned word = 0; word < WORDS; word++)
      content->resident[word] &= ~span->left_out[word];
    for (unsigned page = 0; page < SPAN_PAGES; page++) {
      if (has(content->resident, page))
        add_page(sum, span, content, page);
      else if (content->fill[page] == 0)
        span->held[page / 64] &= ~((uint64_t)1 << page % 64);
    }
  }
}

uint64_t os_pages_places(void) {
  return (uint64_t)content_count * SPAN_PAGES;
}

uint32_t os_pages_place(uint64_t address) {
  const struct span *span = find(address >> span_shift, false);
  return content_of(span) ? span->content * SPAN_PAGES + (uint32_t)(address >> page_shift) % SPAN_PAGES
                          : OS_PAGES_NO_PLACE;
}

void os_pages_visit_held(void (*visit)(const struct os_page_held *os_page)) {
  for (uint32_t index = 0; index < used_count; index++) {
    const struct span *span = &spans[used[index]];
    const struct content *content = content_of(span);
    uint64_t address = span->number << span_shift;
    for (unsigned page = 0; content && page < SPAN_PAGES; page++) {
      if (!has(content->resident, page) || content->fill[page] == 0)
        continue;
      uint64_t live = live_in(content, page);
      visit(&(struct os_page_held){address + page * page_bytes, live, rounding_in(content, page, live),
                                   span->content * SPAN_PAGES + page});
    }
  }
}

static inline void split_page(const struct content *content, unsigned page, uint64_t bytes,
                              struct os_pages_split *split) {
  if (has(content->resident, page))
    *(content->fill[page] ? &split->beside_bytes : &split->empty_bytes) += bytes;
}

void os_pages_split(uint64_t address, uint64_t bytes, struct os_pages_split *split) {
  if (bytes > 0 && in_one_page(address, address + bytes - 1)) {
    const struct content *content = content_of(find(address >> span_shift, false));
    if (content)
      split_page(content, (unsigned)(address >> page_shift) % SPAN_PAGES, bytes, split);
    return;
  }
  for (uint64_t end = address + bytes; address < end;) {
    struct part part = part_of(address, end);
    const struct content *content = content_of(find(part.number, false));
    for (unsigned page = part.first; content && page < part.end; page++) {
      uint64_t page_end = (address & ~(page_bytes - 1)) + page_bytes;
      uint64_t here = (page_end < part.next ? page_end : part.next) - address;
      address += here;
      split_page(content, page, here, split);
    }
    address = part.next;
  }
}

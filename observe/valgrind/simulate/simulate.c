/* SPDX-License-Identifier: GPL-2.0-only */
/* Simulates accesses and writes the result; instrument_simulate.c finds the accesses. */
#include "observe/valgrind/simulate/simulate.h"

#include "observe/valgrind/common/allocator.h"
#include "observe/valgrind/common/syscalls.h"
#include "observe/valgrind/simulate/cache.h"
#include "observe/valgrind/simulate/pages.h"

#include <pub_tool_aspacemgr.h>
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_vki.h>

enum { OUTER_LIMIT = 8, LEVEL_LIMIT = OUTER_LIMIT + 1, LINE_SHIFT = 6, OS_PAGE_SHIFT = PAGE_FAULTS_SHIFT };

/* Program and allocator; and both once more, from OUTSIDE on, for separate counts. */
enum { OUTSIDE = 2, SIDES = 4 };

/* The sizes of a cache or TLB, as given, and its misses by the side that was running (allocator.h). */
struct level {
  ULong capacity; /* bytes of a cache, entries of a TLB */
  UInt ways;
  struct cache cache;
  ULong misses[SIDES], instruction_misses[SIDES];
  ULong first_misses[SIDES];      /* of `misses`, those at a burst's first access to a line or OS page */
  ULong sequential_misses[SIDES]; /* of caches: of `misses`, those that a stream prefetcher foresees (cache.h) */
};

/* [0]: the first level; the others are behind it. */
static struct level caches[LEVEL_LIMIT] = {{.capacity = 32768, .ways = 8},
                                           {.capacity = 262144, .ways = 8},
                                           {.capacity = 1048576, .ways = 16},
                                           {.capacity = 33554432, .ways = 16}};
static struct level tlbs[LEVEL_LIMIT] = {{.capacity = 64, .ways = 64}, {.capacity = 1536, .ways = 12}};
static struct level instruction_cache = {.capacity = 32768, .ways = 8};
static struct tlb first_tlb; /* of tlbs[0], in place of its cache */
static UInt cache_count = 4, tlb_count = 2;
static struct streams streams;

Bool simulate_data_only;
Int simulate_shift_os_pages;

/* Valgrind's core has it, its headers for tools do not. */
extern SysRes VG_(am_mmap_anon_float_client)(SizeT bytes, Int protection);

static ULong accesses[SIDES], page_faults[SIDES];

/* For recordings in bursts. outside_from: 0 or OUTSIDE. first_*: accessed for the first time in a burst; unsure: page
   faults of OS pages that were not newly mapped in the burst. */
static Bool has_bursts, in_burst, first_line;
static UInt outside_from;
static ULong first_lines[SIDES], first_pages[SIDES], unsure_page_faults[SIDES];
static struct counted counted[SIDES], counted_noted[OUTSIDE];
static UWord last_page = CACHE_EMPTY, last_instruction_line = CACHE_EMPTY;

static Bool is_power_of_two(ULong number) {
  return number > 0 && (number & (number - 1)) == 0;
}

/* Reads "NUMBER:WAYS,..." of blocks of 1 << block_shift. Returns the number of levels; 0: invalid text. */
static UInt parse_levels(const HChar *text, struct level *levels, UInt limit, UInt block_shift) {
  for (UInt count = 0; count < limit; count++) {
    HChar *end;
    Long capacity = VG_(strtoll10)(text, &end), ways = 0;
    if (*end == ':')
      ways = VG_(strtoll10)(end + 1, &end);
    ULong blocks = (ULong)capacity >> block_shift;
    if (capacity <= 0 || capacity > 1ll << 40 || ways <= 0 || ways > 65536 || blocks % (ULong)ways != 0 ||
        !is_power_of_two(blocks / (ULong)ways) || (ULong)capacity != blocks << block_shift)
      return 0;
    levels[count] = (struct level){.capacity = (ULong)capacity, .ways = (UInt)ways};
    if (*end == '\0')
      return count + 1;
    if (*end != ',')
      return 0;
    text = end + 1;
  }
  return 0;
}

Bool simulate_set_caches(const HChar *text) {
  cache_count = parse_levels(text, caches, LEVEL_LIMIT, LINE_SHIFT);
  return cache_count > 0;
}

Bool simulate_set_instruction_cache(const HChar *text) {
  return parse_levels(text, &instruction_cache, 1, LINE_SHIFT) == 1;
}

Bool simulate_set_tlbs(const HChar *text) {
  tlb_count = parse_levels(text, tlbs, LEVEL_LIMIT, 0);
  return tlb_count > 0;
}

static UWord *make_words(ULong words) {
  return map_zeroed(words * sizeof(UWord), "a cache");
}

/* blocks: of 1 << block_shift bytes. */
static void make_cache(struct level *level, ULong blocks, UInt block_shift) {
  level->cache = (struct cache){blocks / level->ways - 1, level->ways, block_shift, make_words(blocks)};
  for (ULong block = 0; block < blocks; block++)
    level->cache.blocks[block] = CACHE_EMPTY;
}

static void make_first_tlb(const struct level *level) {
  first_tlb = (struct tlb){.set_mask = level->capacity / level->ways - 1, .ways = level->ways};
  first_tlb.pages = make_words(level->capacity);
  first_tlb.used = (ULong *)make_words(level->capacity);
  for (ULong entry = 0; entry < level->capacity; entry++)
    first_tlb.pages[entry] = CACHE_EMPTY;
}

static void shift_mappings(void) {
  if (simulate_shift_os_pages == 0)
    return;
  SysRes mapped = VG_(am_mmap_anon_float_client)((SizeT)simulate_shift_os_pages << OS_PAGE_SHIFT, VKI_PROT_NONE);
  if (sr_isError(mapped)) {
    VG_(umsg)("heaptape: no room for the OS pages of --shift\n");
    VG_(exit)(1);
  }
}

void simulate_begin(void) {
  shift_mappings();
  for (UInt index = 0; index < cache_count; index++)
    make_cache(&caches[index], caches[index].capacity >> LINE_SHIFT, LINE_SHIFT);
  make_first_tlb(&tlbs[0]);
  for (UInt index = 1; index < tlb_count; index++)
    make_cache(&tlbs[index], tlbs[index].capacity, OS_PAGE_SHIFT);
  make_cache(&instruction_cache, instruction_cache.capacity >> LINE_SHIFT, LINE_SHIFT);
}

static void forget_misses(struct level *level) {
  VG_(memset)(level->misses, 0, sizeof level->misses);
  VG_(memset)(level->instruction_misses, 0, sizeof level->instruction_misses);
  VG_(memset)(level->sequential_misses, 0, sizeof level->sequential_misses);
  VG_(memset)(level->first_misses, 0, sizeof level->first_misses);
}

void simulate_reset(void) {
  for (UInt index = 0; index < LEVEL_LIMIT; index++) {
    forget_misses(&caches[index]);
    forget_misses(&tlbs[index]);
  }
  forget_misses(&instruction_cache);
  VG_(memset)(accesses, 0, sizeof accesses);
  VG_(memset)(page_faults, 0, sizeof page_faults);
  VG_(memset)(counted, 0, sizeof counted);
  VG_(memset)(counted_noted, 0, sizeof counted_noted);
  syscalls_reset();
  allocator_reset();
}

/* Adds the instructions since the last time to the present side. */
static void note_instructions(void) {
  struct counted allocators = allocator_counted();
  const struct counted now[OUTSIDE] = {counted_since(counted_now(), allocators), allocators};
  for (UInt side = 0; side < OUTSIDE; side++) {
    counted[outside_from + side] =
        counted_sum(counted[outside_from + side], counted_since(now[side], counted_noted[side]));
    counted_noted[side] = now[side];
  }
}

void simulate_set_outside(Bool outside) {
  note_instructions();
  has_bursts = True;
  in_burst = !outside;
  outside_from = outside ? OUTSIDE : 0;
  if (!in_burst)
    return;
  burst_begin();
  last_page = CACHE_EMPTY;
}

static UInt side_now(void) {
  return (UInt)allocator_runs + outside_from;
}

/* Not inline: most accesses are to the OS page of the previous access. */
static __attribute__((noinline)) void translate_page(UWord page, UInt side) {
  Bool first = in_burst && burst_first_page(page), faults = page_faults_touch(page);
  last_page = page;
  page_faults[side] += faults;
  unsure_page_faults[side] += in_burst && faults && !burst_was_given(page);
  first_pages[side] += first;
  if (!tlb_misses_page(&first_tlb, page))
    return;
  tlbs[0].misses[side]++;
  tlbs[0].first_misses[side] += first;
  for (UInt index = 1; index < tlb_count; index++) {
    Bool missing = cache_misses_block(&tlbs[index].cache, page);
    tlbs[index].misses[side] += missing;
    tlbs[index].first_misses[side] += missing & first;
  }
}

/* from, to: the lines, one or two, that the first level misses. A miss is sequential if all of these were foreseen. */
static __attribute__((noinline)) void miss_data(Addr address, UWord bytes, UWord from, UWord to, UInt side) {
  Bool sequential = streams_foresee(&streams, from);
  if (to != from)
    sequential &= streams_foresee(&streams, to);
  caches[0].misses[side]++;
  caches[0].sequential_misses[side] += sequential;
  caches[0].first_misses[side] += first_line;
  for (UInt index = 1; index < cache_count; index++) {
    Bool missing = cache_misses(&caches[index].cache, address, bytes);
    caches[index].misses[side] += missing;
    caches[index].sequential_misses[side] += missing & sequential;
    caches[index].first_misses[side] += missing & first_line;
  }
}

static inline void access_line(UWord line, UInt side) {
  first_line = in_burst && burst_first_line(line);
  first_lines[side] += first_line;
  if (cache_misses_block(&caches[0].cache, line))
    miss_data(line << LINE_SHIFT, 1, line, line, side);
}

/* Accesses each line separately. */
static inline void access_lines(Addr address, UWord bytes, UInt side) {
  UWord first = address >> LINE_SHIFT, last = (address + bytes - 1) >> LINE_SHIFT;
  access_line(first, side);
  if (last != first)
    access_line(last, side);
}

/* As cachegrind does: one miss where both lines are missing. */
static inline void access_whole(Addr address, UWord bytes, UInt side) {
  UWord first = address >> LINE_SHIFT, last = (address + bytes - 1) >> LINE_SHIFT;
  Bool first_missing = cache_misses_block(&caches[0].cache, first);
  Bool last_missing = last != first && cache_misses_block(&caches[0].cache, last);
  if (first_missing || last_missing)
    miss_data(address, bytes, first_missing ? first : last, last_missing ? last : first, side);
}

VG_REGPARM(2) void simulate_access(Addr address, UWord bytes) {
  UInt side = side_now();
  accesses[side]++;
  UWord page = address >> OS_PAGE_SHIFT, end_page = (address + bytes - 1) >> OS_PAGE_SHIFT;
  if (page != last_page)
    translate_page(page, side);
  if (end_page != page)
    translate_page(end_page, side);
  if (simulate_data_only)
    access_lines(address, bytes, side);
  else
    access_whole(address, bytes, side);
}

static void miss_instruction(Addr address, UWord bytes) {
  UInt side = side_now();
  instruction_cache.misses[side]++;
  for (UInt index = 1; index < cache_count; index++)
    caches[index].instruction_misses[side] += cache_misses(&caches[index].cache, address, bytes);
}

/* The line that was fetched last is its set's newest: fetching it again changes nothing. */
VG_REGPARM(1) void simulate_fetch_line(UWord line) {
  if (line == last_instruction_line)
    return;
  last_instruction_line = line;
  if (cache_misses_block(&instruction_cache.cache, line))
    miss_instruction(line << LINE_SHIFT, 1);
}

VG_REGPARM(2) void simulate_fetch_across(Addr address, UWord bytes) {
  last_instruction_line = (address + bytes - 1) >> LINE_SHIFT;
  if (cache_misses(&instruction_cache.cache, address, bytes))
    miss_instruction(address, bytes);
}

void simulate_note_syscall(UInt number) {
  syscalls_count(number, side_now());
}

/* The next access looks up its OS page again, even if it is that of the last access. */
void simulate_give_back(Addr address, SizeT bytes) {
  page_faults_give_back(address, bytes);
  simulate_note_growth(address, bytes);
  last_page = CACHE_EMPTY;
}

void simulate_note_growth(Addr address, SizeT bytes) {
  if (in_burst)
    burst_note_given(address, bytes);
}

void simulate_move(Addr from, Addr to, SizeT bytes) {
  page_faults_move(from, to, bytes);
  last_page = CACHE_EMPTY;
}

static ULong of(const ULong counts[SIDES], Int side) {
  return side < 0 ? counts[0] + counts[1] : counts[side];
}

/* The keys that a cache and a TLB have. */
static void begin_level(VgFile *file, const struct level *level, const HChar *size, Int side) {
  VG_(fprintf)
  (file, "{\"%s\": %llu, \"ways\": %u, \"misses\": %llu", size, level->capacity, level->ways, of(level->misses, side));
}

static void end_level(VgFile *file, const struct level *level, Int side, UInt column) {
  if (has_bursts)
    VG_(fprintf)(file, ", \"first_misses\": %llu", of(level->first_misses, side));
  if (column > 0 && column < cache_count && !simulate_data_only)
    VG_(fprintf)(file, ", \"instruction_misses\": %llu", of(level->instruction_misses, side));
  VG_(fprintf)(file, "}");
}

static void write_levels(VgFile *file, Int side) {
  if (!simulate_data_only) {
    VG_(fprintf)(file, ", \"instruction_cache\": ");
    begin_level(file, &instruction_cache, "bytes", side);
    VG_(fprintf)(file, "}");
  }
  VG_(fprintf)(file, ", \"caches\": [");
  for (UInt index = 0; index < cache_count; index++) {
    VG_(fprintf)(file, "%s", index ? ", " : "");
    begin_level(file, &caches[index], "bytes", side);
    VG_(fprintf)(file, ", \"sequential_misses\": %llu", of(caches[index].sequential_misses, side));
    end_level(file, &caches[index], side, index);
  }
  VG_(fprintf)(file, "], \"tlbs\": [");
  for (UInt index = 0; index < tlb_count; index++) {
    VG_(fprintf)(file, "%s", index ? ", " : "");
    begin_level(file, &tlbs[index], "entries", side);
    end_level(file, &tlbs[index], side, cache_count + index);
  }
  VG_(fprintf)(file, "]");
}

/* side: negative: both together. */
static void write_side(VgFile *file, Int side) {
  note_instructions();
  output_counted(file, side < 0 ? counted_sum(counted[0], counted[1]) : counted[side]);
  VG_(fprintf)
  (file, ", \"data_accesses\": %llu, \"page_faults\": %llu, ", of(accesses, side), of(page_faults, side));
  if (has_bursts)
    VG_(fprintf)
  (file, "\"first_lines\": %llu, \"first_pages\": %llu, \"unsure_page_faults\": %llu, ", of(first_lines, side),
   of(first_pages, side), of(unsure_page_faults, side));
  syscalls_write(file, side);
  write_levels(file, side);
}

void simulate_write(VgFile *file) {
  VG_(fprintf)(file, ", ");
  write_side(file, -1);
  VG_(fprintf)(file, ", \"allocator\": {");
  write_side(file, 1);
  VG_(fprintf)(file, "}, \"program\": {");
  write_side(file, 0);
  VG_(fprintf)(file, "}");
  if (has_bursts)
    VG_(fprintf)(file, ", \"outside\": {\"allocator_instructions\": %llu}", counted[OUTSIDE + 1].instructions);
}

/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/accesses/live.h"

#include "core/trace/access_stream.h"
#include "observe/valgrind/common/tool.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_mallocfree.h>

/* Addresses are 47 bits long: areas of 4 GiB have OS pages, which have units. Allocators align to 8 bytes at least.
   Memory of areas is mapped from the kernel, so only touched pages take memory. */
enum {
  AREA_SHIFT = 32,
  PAGE_SHIFT = 12,
  UNIT_SHIFT = 3,
  AREAS = 1 << (47 - AREA_SHIFT),
  PAGES = 1 << (AREA_SHIFT - PAGE_SHIFT),
  UNITS = 1 << (PAGE_SHIFT - UNIT_SHIFT),
  WORDS = UNITS / 64,
  CHUNK_LEAVES = 1024,
  CHUNKS = 1 << 20,
};

/* Objects of HUGE_BYTES or more would cost an entry for each of their OS pages: they are in a separate list. */
enum { GRANULES_BITS = 20 };
static const SizeT HUGE_BYTES = (SizeT)1 << (GRANULES_BITS + ACCESS_GRANULE_SHIFT);

/* An object: its number above GRANULES_BITS, its granules below; 0 granules: it is huge. It is one word, as a search
   mostly waits for cache misses. */
typedef ULong record;

/* The objects that begin in an OS page, in order of their addresses. An index into one table of all objects needed one
   more dependent load; a record for each unit, most of them unused, took as much of the processor's caches and TLBs as
   the program's heap itself. */
struct leaf {
  ULong starts[WORDS];  /* a bit for each unit */
  UShort before[WORDS]; /* objects that begin in earlier words */
  UShort count, room;
  record *records;
} __attribute__((aligned(64)));

struct page {
  struct leaf *leaf;
  Addr covering;  /* the address of an object that begins in an earlier page and reaches into this one; 0: none */
  record covered; /* of that object: looking it up in its own page would need three more dependent loads */
};

static struct page *areas[AREAS];

/* Memory of leaves, taken one after the other; and each leaf's page address. */
static struct leaf *chunks[CHUNKS];
static Addr *leaf_pages;
static UInt leaf_count, leaf_room;

struct huge {
  Addr start;
  SizeT bytes;
};

/* Sorted by address. */
static struct huge *huge;
static UInt huge_count, huge_room;

/* Objects whose address was handed out again before their release was reported. */
static Addr *displaced;
static UInt displaced_count, displaced_room;

/* The array with room for one more element. */
static void *with_room(void *array, UInt count, UInt *room, SizeT element_bytes) {
  if (count < *room)
    return array;
  *room = *room ? 2 * *room : 64;
  return VG_(realloc)("live.array", array, *room * element_bytes);
}

static struct page *page_of(Addr address, Bool make) {
  UWord area = address >> AREA_SHIFT;
  if (area >= AREAS)
    return NULL;
  if (!areas[area] && make)
    areas[area] = map_zeroed(sizeof **areas * PAGES, "the table of objects");
  return areas[area] ? &areas[area][(address >> PAGE_SHIFT) % PAGES] : NULL;
}

static UInt unit_of(Addr address) {
  return (UInt)(address >> UNIT_SHIFT) % UNITS;
}

static struct leaf *new_leaf(Addr address) {
  struct leaf **chunk = &chunks[leaf_count / CHUNK_LEAVES];
  if (!*chunk)
    *chunk = map_zeroed(sizeof **chunk * CHUNK_LEAVES, "the table of objects");
  leaf_pages = with_room(leaf_pages, leaf_count, &leaf_room, sizeof *leaf_pages);
  leaf_pages[leaf_count] = address >> PAGE_SHIFT << PAGE_SHIFT;
  return *chunk + leaf_count++ % CHUNK_LEAVES;
}

static UInt count_bits(ULong bits) {
  bits -= bits >> 1 & 0x5555555555555555;
  bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
  return (UInt)(((bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101 >> 56);
}

/* The place of the record of an object that begins in the unit; if none does, that of the next object. */
static UInt place_of(const struct leaf *leaf, UInt unit) {
  return leaf->before[unit / 64] + count_bits(leaf->starts[unit / 64] & ((1ull << unit % 64) - 1));
}

/* more: 1 or -1. */
static void mark(struct leaf *leaf, UInt unit, Int more) {
  leaf->starts[unit / 64] ^= 1ull << unit % 64;
  leaf->count = (UShort)(leaf->count + more);
  for (UInt word = unit / 64 + 1; word < WORDS; word++)
    leaf->before[word] = (UShort)(leaf->before[word] + more);
}

static void insert_record(struct leaf *leaf, UInt unit, record object) {
  UInt place = place_of(leaf, unit);
  if (leaf->count == leaf->room) {
    leaf->room = leaf->room ? 2 * leaf->room : 8;
    leaf->records = VG_(realloc)("live.records", leaf->records, leaf->room * sizeof *leaf->records);
  }
  VG_(memmove)(leaf->records + place + 1, leaf->records + place, (leaf->count - place) * sizeof *leaf->records);
  leaf->records[place] = object;
  mark(leaf, unit, 1);
}

static void remove_record(struct leaf *leaf, UInt unit) {
  UInt place = place_of(leaf, unit);
  mark(leaf, unit, -1);
  VG_(memmove)(leaf->records + place, leaf->records + place + 1, (leaf->count - place) * sizeof *leaf->records);
}

/* The object that begins there, or NULL. Valid until an object is acquired or released. */
static const record *record_at(Addr address) {
  const struct page *page = page_of(address, False);
  if (!page || !page->leaf || address % (1 << UNIT_SHIFT))
    return NULL;
  UInt unit = unit_of(address);
  const struct leaf *leaf = page->leaf;
  return leaf->starts[unit / 64] >> unit % 64 & 1 ? &leaf->records[place_of(leaf, unit)] : NULL;
}

/* The place in huge of the first object that begins above the address. */
static UInt huge_above(Addr address) {
  UInt low = 0, high = huge_count;
  while (low < high) {
    UInt middle = (low + high) / 2;
    if (huge[middle].start > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void huge_insert(Addr address, SizeT bytes) {
  huge = with_room(huge, huge_count, &huge_room, sizeof *huge);
  UInt place = huge_above(address);
  VG_(memmove)(huge + place + 1, huge + place, (huge_count - place) * sizeof *huge);
  huge[place] = (struct huge){address, bytes};
  huge_count++;
}

static void huge_remove(Addr address) {
  UInt place = huge_above(address) - 1;
  VG_(memmove)(huge + place, huge + place + 1, (huge_count - place - 1) * sizeof *huge);
  huge_count--;
}

static SizeT bytes_of(Addr address, record object) {
  UWord granules = object % (1 << GRANULES_BITS);
  return granules ? granules << ACCESS_GRANULE_SHIFT : huge[huge_above(address) - 1].bytes;
}

static Addr last_page(Addr start, SizeT bytes) {
  return (start + bytes - 1) >> PAGE_SHIFT;
}

/* Notes the object in all its pages after the first. */
static void cover(Addr start, SizeT bytes, record object) {
  for (Addr at = (start >> PAGE_SHIFT) + 1; at <= last_page(start, bytes); at++) {
    struct page *page = page_of(at << PAGE_SHIFT, True);
    if (page) {
      page->covering = start;
      page->covered = object;
    }
  }
}

/* The reverse, except in pages that another object covers now. */
static void uncover(Addr start, SizeT bytes) {
  for (Addr at = (start >> PAGE_SHIFT) + 1; at <= last_page(start, bytes); at++) {
    struct page *page = page_of(at << PAGE_SHIFT, False);
    if (page && page->covering == start)
      page->covering = page->covered = 0;
  }
}

static void displace(Addr address) {
  displaced = with_room(displaced, displaced_count, &displaced_room, sizeof *displaced);
  displaced[displaced_count++] = address;
}

static Bool was_displaced(Addr address) {
  for (UInt place = 0; place < displaced_count; place++)
    if (displaced[place] == address) {
      displaced[place] = displaced[--displaced_count];
      return True;
    }
  return False;
}

static void remove_object(Addr address, SizeT bytes) {
  remove_record(page_of(address, False)->leaf, unit_of(address));
  if (bytes >= HUGE_BYTES)
    huge_remove(address);
  else
    uncover(address, bytes);
}

/* Returns its bytes; 0 if none begins there. */
static SizeT remove_at(Addr address) {
  const record *object = record_at(address);
  if (!object)
    return 0;
  SizeT bytes = bytes_of(address, *object);
  remove_object(address, bytes);
  return bytes;
}

void live_acquire(Addr address, SizeT bytes, ULong number) {
  struct page *page = page_of(address, True);
  if (!page || address % (1 << UNIT_SHIFT))
    return;
  if (remove_at(address))
    displace(address);
  SizeT granules = (bytes + (bytes == 0) + ACCESS_GRANULE_BYTES - 1) >> ACCESS_GRANULE_SHIFT;
  bytes = granules << ACCESS_GRANULE_SHIFT;
  if (!page->leaf)
    page->leaf = new_leaf(address);
  record object = number << GRANULES_BITS | (bytes < HUGE_BYTES ? granules : 0);
  insert_record(page->leaf, unit_of(address), object);
  if (bytes >= HUGE_BYTES)
    huge_insert(address, bytes);
  else
    cover(address, bytes, object);
}

SizeT live_release(Addr address) {
  if (displaced_count && was_displaced(address))
    return 0;
  return remove_at(address);
}

/* The last object that begins at or below an address in its page, and its record; if there is none, an empty record. */
struct candidate {
  const struct page *page;
  const record *record;
  Addr start;
};

static const record no_record;

static const struct page no_page;

static void find_page(struct candidate *candidate, Addr address) {
  const struct page *page = page_of(address, False);
  candidate->page = page ? page : &no_page;
  const struct leaf *leaf = candidate->page->leaf;
  if (leaf) {
    __builtin_prefetch(leaf->starts);
    __builtin_prefetch(leaf->before);
  }
}

typedef UInt count_bits_function(ULong bits);

static inline __attribute__((always_inline)) void find_record(struct candidate *candidate, Addr address,
                                                              count_bits_function *count) {
  const struct leaf *leaf = candidate->page->leaf;
  candidate->record = &no_record;
  if (!leaf)
    return;
  UInt unit = unit_of(address), word = unit / 64;
  ULong starts = leaf->starts[word] & (~0ull >> (63 - unit % 64));
  while (!starts && word > 0)
    starts = leaf->starts[--word];
  if (!starts)
    return;
  unit = word * 64 + 63 - (UInt)__builtin_clzll(starts);
  candidate->record = &leaf->records[leaf->before[word] + count(starts) - 1];
  __builtin_prefetch(candidate->record);
  candidate->start = (address >> PAGE_SHIFT << PAGE_SHIFT) + ((Addr)unit << UNIT_SHIFT);
}

/* The object from start, if it holds the address. */
static inline struct live_object held(Addr start, record object, Addr address) {
  SizeT bytes = bytes_of(start, object);
  return address - start < bytes ? (struct live_object){start, bytes, object >> GRANULES_BITS}
                                 : (struct live_object){0};
}

static struct live_object in_huge(Addr address) {
  UInt above = huge_above(address);
  if (above == 0)
    return (struct live_object){0};
  Addr start = huge[above - 1].start;
  return held(start, *record_at(start), address);
}

/* Finds the owner of an address that is not in an object that begins in its page and is not huge. */
static __attribute__((noinline)) struct live_object rest_of_search(const struct page *page, Addr address) {
  struct live_object found = {0};
  if (page->covering)
    found = held(page->covering, page->covered, address);
  return found.bytes || !huge_count ? found : in_huge(address);
}

/* Does each step for all addresses, so that the data of the next step is fetched meanwhile: a loop over whole searches
   would wait at its branches for each load. */
static inline __attribute__((always_inline)) void
find_owners(const Addr *addresses, UInt count, struct live_object *owners, count_bits_function *count_of_bits) {
  struct candidate candidates[LIVE_BATCH];
  for (UInt index = 0; index < count; index++)
    find_page(&candidates[index], addresses[index]);
  for (UInt index = 0; index < count; index++)
    find_record(&candidates[index], addresses[index], count_of_bits);
  for (UInt index = 0; index < count; index++) {
    const struct candidate *candidate = &candidates[index];
    record object = *candidate->record;
    SizeT bytes = (SizeT)(object % (1 << GRANULES_BITS)) << ACCESS_GRANULE_SHIFT;
    if (bytes && addresses[index] - candidate->start < bytes)
      owners[index] = (struct live_object){candidate->start, bytes, object >> GRANULES_BITS};
    else
      owners[index] = rest_of_search(candidate->page, addresses[index]);
  }
}

static void find_owners_anywhere(const Addr *addresses, UInt count, struct live_object *owners) {
  find_owners(addresses, count, owners, count_bits);
}

#define COUNTS_BITS __attribute__((target("popcnt")))

static inline COUNTS_BITS UInt count_bits_at_once(ULong bits) {
  return (UInt)__builtin_popcountll(bits);
}

static __attribute__((flatten)) COUNTS_BITS void find_owners_by_popcnt(const Addr *addresses, UInt count,
                                                                       struct live_object *owners) {
  find_owners(addresses, count, owners, count_bits_at_once);
}

static void choose_search(const Addr *addresses, UInt count, struct live_object *owners);
static void (*search)(const Addr *addresses, UInt count, struct live_object *owners) = choose_search;

static void choose_search(const Addr *addresses, UInt count, struct live_object *owners) {
  __builtin_cpu_init();
  search = __builtin_cpu_supports("popcnt") ? find_owners_by_popcnt : find_owners_anywhere;
  search(addresses, count, owners);
}

void live_owners(const Addr *addresses, UInt count, struct live_object *owners) {
  search(addresses, count, owners);
}

/* Clears only the used parts: a fork's child rarely needs the table. */
void live_forget(void) {
  for (UInt index = 0; index < leaf_count; index++) {
    const struct leaf *leaf = chunks[index / CHUNK_LEAVES] + index % CHUNK_LEAVES;
    for (UInt unit = 0; unit < UNITS; unit++)
      if (leaf->starts[unit / 64] >> unit % 64 & 1)
        remove_at(leaf_pages[index] + ((Addr)unit << UNIT_SHIFT));
  }
  displaced_count = 0;
}

#include "observe/valgrind/live.h"

#include "core/accesses/stream.h"

#include <pub_tool_aspacemgr.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_mallocfree.h>

/* Addresses are 47 bits long: areas of 4 GiB, in each its OS pages, in each its units. Allocators align to 8 bytes at
   least. Memory of areas is taken from the kernel, which gives what is touched. */
enum {
  AREA_SHIFT = 32,
  PAGE_SHIFT = 12,
  UNIT_SHIFT = 3,
  AREAS = 1 << (47 - AREA_SHIFT),
  PAGES = 1 << (AREA_SHIFT - PAGE_SHIFT),
  UNITS = 1 << (PAGE_SHIFT - UNIT_SHIFT),
  WORDS = UNITS / 64,
  CHUNK_SHIFT = 16,
  CHUNKS = 1 << 16,
};

/* Objects that are larger would cost an entry for each of their OS pages: they are in a list of their own. */
static const SizeT HUGE_BYTES = 16 << 20;

/* Where objects begin in an OS page. */
struct leaf {
  ULong starts[WORDS]; /* a bit for each unit */
  UInt object[UNITS];
};

/* Objects are named by index, from 1; 0: none. */
struct page {
  struct leaf *leaf;
  UInt covering; /* begins in a page before, and reaches into this one */
};

static struct page *areas[AREAS];
static struct live_object *chunks[CHUNKS];
static UInt used = 1, first_free;      /* a free object's number is the next free one's index */
static const struct live_object *last; /* found */

/* By address. */
static UInt *huge;
static UInt huge_count, huge_room;

/* Objects whose address was handed out again before their release was told. */
static Addr *displaced;
static UInt displaced_count, displaced_room;

static struct live_object *object_at(UInt index) {
  return &chunks[index >> CHUNK_SHIFT][index & ((1 << CHUNK_SHIFT) - 1)];
}

static void *take_memory(SizeT bytes) {
  void *memory = VG_(am_shadow_alloc)(bytes);
  if (!memory) {
    VG_(umsg)("heaptape: no memory for the table of objects\n");
    VG_(exit)(1);
  }
  return memory;
}

void live_begin(void) {
  chunks[0] = take_memory(sizeof **chunks << CHUNK_SHIFT);
}

static UInt new_object(void) {
  UInt index = first_free;
  if (index) {
    first_free = (UInt)object_at(index)->number;
    return index;
  }
  index = used++;
  if (!chunks[index >> CHUNK_SHIFT])
    chunks[index >> CHUNK_SHIFT] = take_memory(sizeof **chunks << CHUNK_SHIFT);
  return index;
}

static void free_object(UInt index) {
  *object_at(index) = (struct live_object){.number = first_free};
  first_free = index;
}

static struct page *page_of(Addr address, Bool make) {
  UWord area = address >> AREA_SHIFT;
  if (area >= AREAS)
    return NULL;
  if (!areas[area] && make)
    areas[area] = take_memory(sizeof **areas * PAGES);
  return areas[area] ? &areas[area][(address >> PAGE_SHIFT) % PAGES] : NULL;
}

static UInt unit_of(Addr address) {
  return (UInt)(address >> UNIT_SHIFT) % UNITS;
}

/* The place in huge of the first object that begins above the address. */
static UInt huge_above(Addr address) {
  UInt low = 0, high = huge_count;
  while (low < high) {
    UInt middle = (low + high) / 2;
    if (object_at(huge[middle])->start > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void huge_insert(UInt index) {
  if (huge_count == huge_room) {
    huge_room = huge_room ? 2 * huge_room : 64;
    huge = VG_(realloc)("live.huge", huge, huge_room * sizeof *huge);
  }
  UInt place = huge_above(object_at(index)->start);
  VG_(memmove)(huge + place + 1, huge + place, (huge_count - place) * sizeof *huge);
  huge[place] = index;
  huge_count++;
}

static void huge_remove(UInt index) {
  for (UInt place = huge_above(object_at(index)->start); place-- > 0;)
    if (huge[place] == index) {
      VG_(memmove)(huge + place, huge + place + 1, (huge_count - place - 1) * sizeof *huge);
      huge_count--;
      return;
    }
}

/* Makes index the covering object of the pages into which object reaches, where expected is it now (by 0: of all). */
static void cover(const struct live_object *object, UInt index, UInt expected) {
  Addr end = object->start + object->bytes;
  for (Addr at = (object->start >> PAGE_SHIFT) + 1; at <= (end - 1) >> PAGE_SHIFT; at++) {
    struct page *page = page_of(at << PAGE_SHIFT, index != 0);
    if (page && (expected == 0 || page->covering == expected))
      page->covering = index;
  }
}

static UInt object_from(Addr address) {
  const struct page *page = page_of(address, False);
  if (!page || !page->leaf)
    return 0;
  UInt unit = unit_of(address);
  UInt index = page->leaf->starts[unit / 64] >> unit % 64 & 1 ? page->leaf->object[unit] : 0;
  return index && object_at(index)->start == address ? index : 0;
}

static void displace(Addr address) {
  if (displaced_count == displaced_room) {
    displaced_room = displaced_room ? 2 * displaced_room : 64;
    displaced = VG_(realloc)("live.displaced", displaced, displaced_room * sizeof *displaced);
  }
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

static void remove_object(UInt index) {
  const struct live_object *object = object_at(index);
  UInt unit = unit_of(object->start);
  page_of(object->start, False)->leaf->starts[unit / 64] &= ~(1ull << unit % 64);
  if (object->bytes >= HUGE_BYTES)
    huge_remove(index);
  else
    cover(object, 0, index);
  free_object(index);
  last = NULL;
}

void live_acquire(Addr address, SizeT bytes, ULong number) {
  struct page *page = page_of(address, True);
  if (!page)
    return;
  UInt before = object_from(address);
  if (before) {
    remove_object(before);
    displace(address);
  }
  UInt index = new_object();
  struct live_object *object = object_at(index);
  SizeT granules = (bytes + (bytes == 0) + ACCESS_GRANULE_BYTES - 1) >> ACCESS_GRANULE_SHIFT;
  *object = (struct live_object){address, granules << ACCESS_GRANULE_SHIFT, number};
  if (!page->leaf)
    page->leaf = VG_(calloc)("live.leaf", 1, sizeof *page->leaf);
  UInt unit = unit_of(address);
  page->leaf->starts[unit / 64] |= 1ull << unit % 64;
  page->leaf->object[unit] = index;
  if (object->bytes >= HUGE_BYTES)
    huge_insert(index);
  else
    cover(object, index, 0);
  last = NULL;
}

void live_release(Addr address) {
  if (displaced_count && was_displaced(address))
    return;
  UInt index = object_from(address);
  if (index)
    remove_object(index);
}

/* The object that begins last at or below the unit in its page. */
static UInt begins_before(const struct leaf *leaf, UInt unit) {
  UInt word = unit / 64;
  ULong starts = leaf->starts[word] & (~0ull >> (63 - unit % 64));
  while (!starts) {
    if (word == 0)
      return 0;
    starts = leaf->starts[--word];
  }
  return leaf->object[word * 64 + 63 - (UInt)__builtin_clzll(starts)];
}

static const struct live_object *holds(UInt index, Addr address) {
  const struct live_object *object = object_at(index);
  return index && address - object->start < object->bytes ? object : NULL;
}

const struct live_object *live_owner(Addr address) {
  if (last && address - last->start < last->bytes)
    return last;
  const struct page *page = page_of(address, False);
  const struct live_object *found = NULL;
  if (page && page->leaf)
    found = holds(begins_before(page->leaf, unit_of(address)), address);
  if (!found && page)
    found = holds(page->covering, address);
  if (!found && huge_count) {
    UInt above = huge_above(address);
    found = above ? holds(huge[above - 1], address) : NULL;
  }
  return found ? last = found : NULL;
}

/* Kept to what was used: a fork's child rarely has use for the table. */
void live_forget(void) {
  for (UInt index = 1; index < used; index++)
    if (object_at(index)->bytes)
      remove_object(index);
  displaced_count = 0;
}

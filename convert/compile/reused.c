/* SPDX-License-Identifier: MIT */
#include "convert/compile/reused.h"

#include "core/base/touched.h"

enum { ENOUGH = 2, CHUNK_PAGES = 512, PAGE_SHIFT = 12, CHUNKS_MOST = 1 << 20 };
static const double OLDER = 7. / 8, NEARLY_WHOLE = 0.9;

bool reused_init(struct reused *reused, bool maps_large) {
  *reused = (struct reused){.maps_large = maps_large};
  return address_map_init(&reused->chunks);
}

void reused_free(struct reused *reused) {
  address_map_free(&reused->chunks);
  free(reused->bits.at);
}

static struct reused_chunk *chunk_of(struct reused *reused, uint64_t page) {
  uint64_t key = page / CHUNK_PAGES + 1;
  struct address_entry *entry = address_map_find(&reused->chunks, key);
  if (entry->address == key)
    return &reused->bits.at[entry->slot];
  struct reused_chunk *chunk = reused->bits.count < CHUNKS_MOST ? vector_add(&reused->bits) : NULL;
  if (!chunk)
    return NULL;
  *chunk = (struct reused_chunk){0};
  bool added = address_map_add(&reused->chunks, entry, key, (uint32_t)(reused->bits.count - 1), false);
  return added ? chunk : NULL;
}

/* glibc gives these a header of 16 bytes in OS pages of their own, which are new, so all that is resident was touched.
   Another chunk has such an address once in 256 times, so it tells nothing of others. */
static bool is_mapping(const struct reused *reused, uint64_t address, uint64_t bytes) {
  return reused->maps_large && bytes >= 128 << 10 && address % (1 << PAGE_SHIFT) == 16;
}

/* Those of OS pages from..end among the 64 that begin with `page`. */
static uint64_t bits_of(uint64_t page, uint64_t from, uint64_t end) {
  uint64_t low = from > page ? from - page : 0, high = end > page ? end - page : 0;
  high = high < 64 ? high : 64;
  return low < high ? (~0ull >> (64 - (high - low))) << low : 0;
}

uint32_t reused_acquire(struct reused *reused, uint64_t address, uint64_t bytes) {
  if (bytes < TOUCHED_MIN_BYTES || bytes > REUSED_MOST_BYTES || address + bytes < address)
    return 0;
  uint32_t had = 0;
  uint64_t end = ((address + bytes - 1) >> PAGE_SHIFT) + 1;
  uint64_t first_whole = (address + (1 << PAGE_SHIFT) - 1) >> PAGE_SHIFT;
  uint64_t end_whole = (address + bytes) >> PAGE_SHIFT; /* it shares the others with its neighbours */
  for (uint64_t page = (address >> PAGE_SHIFT) & ~63ull; page < end; page += 64) {
    struct reused_chunk *chunk = chunk_of(reused, page);
    if (!chunk)
      return REUSED_UNKNOWN;
    uint64_t *word = &chunk->had[page % CHUNK_PAGES / 64];
    had += (uint32_t)__builtin_popcountll(*word & bits_of(page, first_whole, end_whole));
    *word |= bits_of(page, address >> PAGE_SHIFT, end);
  }
  return had && is_mapping(reused, address, bytes) ? REUSED_UNKNOWN : had;
}

static uint32_t estimate(const struct reused_size *size, double os_pages, uint32_t had, uint32_t resident) {
  const struct reused_size *like = size->count >= ENOUGH ? size : size[1].count >= ENOUGH ? size + 1 : size - 1;
  double share = like->touched / like->os_pages;
  if (like->count < ENOUGH || share >= NEARLY_WHOLE)
    return resident;
  uint32_t touched = (uint32_t)(share * os_pages + 0.5), least = resident > had ? resident - had : 0;
  touched = touched > least ? touched : least;
  return touched < resident ? touched : resident;
}

uint32_t reused_touched(struct reused *reused, uint64_t bytes, uint32_t had, uint32_t resident) {
  if (bytes < REUSED_MIN_BYTES || bytes > REUSED_MOST_BYTES || had == REUSED_UNKNOWN)
    return resident;
  struct reused_size *size = &reused->sizes[63 - __builtin_clzll(bytes)];
  double os_pages = (double)bytes / (1 << PAGE_SHIFT);
  if (had) {
    uint32_t touched = estimate(size, os_pages, had, resident);
    reused->estimated_bytes += touched < resident ? bytes : 0;
    return touched;
  }
  size->touched = size->touched * OLDER + resident;
  size->os_pages = size->os_pages * OLDER + os_pages;
  size->count++;
  return resident;
}

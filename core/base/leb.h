/* SPDX-License-Identifier: MIT */
/* LEB128 and zigzag, the number codings of FORMAT.md. Pure functions, inline because they run for every event. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LEB_MAX_BYTES = 10 };

/* Writes value at to (room for LEB_MAX_BYTES), returns the place after it. */
static inline uint8_t *leb_put(uint8_t *to, uint64_t value) {
  while (value >= 0x80) {
    *to++ = (uint8_t)value | 0x80;
    value >>= 7;
  }
  *to++ = (uint8_t)value;
  return to;
}

/* leb_get byte by byte. */
static inline bool leb_get_slowly(const uint8_t **from, const uint8_t *end, uint64_t *value) {
  const uint8_t *at = *from;
  uint64_t result = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at == end)
      return false;
    uint8_t byte = *at++;
    if (shift == 63 && byte > 1)
      return false;
    result |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      *from = at;
      return true;
    }
  }
  return false;
}

/* The 7-bit groups of the first `bytes` (1 to 8) bytes of the word, in their order: pairs of 7 bits become 14 bits,
   pairs of these 28, pairs of these 56. */
static inline uint64_t leb_join(uint64_t word, unsigned bytes) {
  word &= UINT64_MAX >> (64 - 8 * bytes);
  word = (word & 0x007f007f007f007full) | (word & 0x7f007f007f007f00ull) >> 1;
  word = (word & 0x00003fff00003fffull) | (word & 0x3fff00003fff0000ull) >> 2;
  return (word & 0x000000000fffffffull) | (word & 0x0fffffff00000000ull) >> 4;
}

/* leb_get of a value of any length. A separate function, so that the callers' own code stays small. */
static __attribute__((noinline, unused)) bool leb_get_long(const uint8_t **from, const uint8_t *end, uint64_t *value) {
  const uint8_t *at = *from;
  if (end - at < 8)
    return leb_get_slowly(from, end, value);
  uint64_t word;
  memcpy(&word, at, sizeof word); /* little-endian, as the file */
  uint64_t ends = ~word & 0x8080808080808080ull;
  if (!ends)
    return leb_get_slowly(from, end, value);
  unsigned bytes = ((unsigned)__builtin_ctzll(ends) + 1) / 8;
  *value = leb_join(word, bytes);
  *from = at + bytes;
  return true;
}

/* Reads a value at *from and advances *from. False if it does not end before end or needs more than 64 bits. One and
   two bytes are distinguished without a branch, as sizes and distances vary between them. */
static inline __attribute__((always_inline)) bool leb_get(const uint8_t **from, const uint8_t *end, uint64_t *value) {
  const uint8_t *at = *from;
  uint16_t pair;
  if (__builtin_expect(end - at < 2, 0))
    return leb_get_long(from, end, value);
  memcpy(&pair, at, sizeof pair); /* little-endian, as the file */
  if (__builtin_expect((pair & 0x8080) == 0x8080, 0))
    return leb_get_long(from, end, value);
  uint64_t second = pair >> 7 & 1; /* is there one? */
  *value = (pair & 0x7f) | (pair >> 1 & 0x3f80 & -second);
  *from = at + 1 + second;
  return true;
}

static inline uint64_t zigzag(int64_t value) {
  return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}
static inline int64_t unzigzag(uint64_t value) {
  return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* LEB128 and zigzag, the number codings of FORMAT.md. Pure functions, inline because every event passes through them.
 */
#ifndef CORE_BASE_LEB_H
#define CORE_BASE_LEB_H

#include <stdbool.h>
#include <stdint.h>

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

/* Reads a value at *from and moves *from on. False if it does not end before end or needs more than 64 bits. */
static inline bool leb_get(const uint8_t **from, const uint8_t *end, uint64_t *value) {
  const uint8_t *at = *from;
  if (__builtin_expect(at < end && *at < 0x80, 1)) {
    *value = *at;
    *from = at + 1;
    return true;
  }
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

static inline uint64_t zigzag(int64_t value) {
  return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}
static inline int64_t unzigzag(uint64_t value) {
  return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

#endif

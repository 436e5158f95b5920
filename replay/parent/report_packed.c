/* SPDX-License-Identifier: MIT */
#include "replay/parent/report_packed.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

static char *base64(const uint8_t *bytes, size_t count) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = malloc((count + 2) / 3 * 4 + 1), *at = text;
  if (!text)
    return NULL;
  for (size_t index = 0; index < count; index += 3) {
    size_t left = count - index;
    uint32_t group = (uint32_t)bytes[index] << 16;
    group |= left > 1 ? (uint32_t)bytes[index + 1] << 8 : 0;
    group |= left > 2 ? bytes[index + 2] : 0;
    *at++ = digits[group >> 18];
    *at++ = digits[group >> 12 & 63];
    *at++ = left > 1 ? digits[group >> 6 & 63] : '=';
    *at++ = left > 2 ? digits[group & 63] : '=';
  }
  *at = '\0';
  return text;
}

char *report_packed(const void *bytes, size_t count) {
  uLongf packed_bytes = compressBound(count);
  uint8_t *packed = malloc(packed_bytes);
  char *text = NULL;
  if (packed && compress2(packed, &packed_bytes, bytes, count, 6) == Z_OK)
    text = base64(packed, packed_bytes);
  free(packed);
  return text;
}

/* SPDX-License-Identifier: MIT */
#include "core/trace/read/reader.h"

size_t reader_first_place(const struct trace_reader *reader, uint32_t thread) {
  size_t low = 0, high = place_count(&reader->places);
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (place_at(&reader->places, middle)->thread < thread)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* SPDX-License-Identifier: MIT */
/* Every policy, over sizes around its steps, on new and on grown objects: which bytes are written, and none beyond the
   end. */
#include "replay/calls/touch.h"

#include "core/base/touched.h"
#include "core/test/usual.h"
#include "core/workload/workload.h"

enum { ROOM = 80000, UNKNOWN = 0 };

static uint8_t memory[ROOM];

static bool expected(enum touch_policy policy, uint64_t at, uint64_t old_bytes, uint64_t bytes) {
  uint64_t from = at - old_bytes, whole;
  if (at < old_bytes || at >= bytes)
    return false;
  switch (policy) {
  case TOUCH_NONE:
    return false;
  case TOUCH_FIRST:
    return from == 0;
  case TOUCH_PAGES:
    return from % 4096 == 0;
  case TOUCH_ALL:
    return true;
  case TOUCH_LINES:
    return from % 64 == 0 && from < touching.bound_bytes;
  default:
    if (policy == TOUCH_LEAST && bytes > 4096 && bytes < TOUCHED_MIN_BYTES)
      return from % 64 == 0 && from < touching.bound_bytes;
    whole = bytes - old_bytes < 65536 ? bytes - old_bytes : 65536;
    return (from % 64 == 0 && from < touching.bound_bytes) || (whole > 4096 && from % 4096 == 0 && from < whole) ||
           from == whole - 1;
  }
}

static void check(enum touch_policy policy, uint64_t old_bytes, uint64_t bytes) {
  memset(memory, 0, bytes + 5000);
  touch_object(memory, old_bytes, bytes, UNKNOWN);
  for (uint64_t at = 0; at < bytes + 5000; at++) {
    if ((memory[at] != 0) != expected(policy, at, old_bytes, bytes)) {
      printf("policy %d, %" PRIu64 " to %" PRIu64 " bytes, bound %" PRIu64 ": byte %" PRIu64 "\n", (int)policy,
             old_bytes, bytes, touching.bound_bytes, at);
      exit(1);
    }
  }
}

static void check_before_realloc(enum touch_policy policy, uint64_t old_bytes, uint64_t new_bytes, uint64_t touched) {
  memset(memory, 0, old_bytes + 5000);
  touch_before_realloc(memory, old_bytes, new_bytes, touched);
  bool writes = policy <= TOUCH_LINES && touched == UNKNOWN && new_bytes > old_bytes;
  for (uint64_t at = 0; at < old_bytes + 5000; at++) {
    if ((memory[at] != 0) != (writes && at > 0 && at % 4096 == 0 && at < old_bytes)) {
      printf("before a realloc, policy %d, %" PRIu64 " to %" PRIu64 " bytes: byte %" PRIu64 "\n", (int)policy,
             old_bytes, new_bytes, at);
      exit(1);
    }
  }
}

/* An object of which os_pages OS pages were recorded as touched, wherever it begins: writes all of these, if there
   are none the first byte, and if the object has no more, also the OS page in which it ends. */
static void check_known(uint64_t bytes, uint64_t os_pages) {
  memset(memory, 0, bytes + 5000);
  touch_object(memory, 0, bytes, os_pages + 1);
  bool whole = os_pages * 4096 >= bytes;
  for (uint64_t at = 0; at < bytes + 5000; at++) {
    bool expect =
        at < bytes && ((at % 4096 == 0 && at / 4096 < (os_pages ? os_pages : 1) && (bytes > 4096 || !whole)) ||
                       (whole && at == bytes - 1));
    if ((memory[at] != 0) != expect) {
      printf("%" PRIu64 " OS pages of %" PRIu64 " bytes known: byte %" PRIu64 "\n", os_pages, bytes, at);
      exit(1);
    }
  }
}

/* An object with a map: as many OS pages as were recorded are written, each part of the map has some, and no other part
   has any; nothing beyond the end. */
static void check_parts(uint64_t bytes, struct touched touched) {
  uint8_t *object = calloc(1, bytes + 5000);
  uint64_t written = 0, shift = touched_part_shift(bytes);
  uint32_t parts = 0;
  touch_object(object, 0, bytes, touched_payload(touched.os_pages + 1ull, touched.parts));
  for (uint64_t at = 0; at < bytes + 5000; at++) {
    written += object[at] && at < bytes;
    parts |= object[at] ? 1u << (at >> shift & 31) : 0;
    if (object[at] && at >= bytes)
      exit(1);
  }
  if (written != touched.os_pages || parts != touched.parts) {
    printf("%" PRIu64 " bytes: parts %x, not %x; %" PRIu64 " OS pages\n", bytes, parts, touched.parts, written);
    exit(1);
  }
  free(object);
}

/* Where the parts are not named, spread touches as many OS pages as recorded does, but over the whole object. */
static void check_spread(uint64_t bytes, uint64_t os_pages) {
  uint8_t *object = calloc(1, bytes + 5000);
  uint64_t written = 0, last = 0;
  touch_setup(TOUCH_SPREAD, TOUCH_BOUND_BYTES);
  touch_object(object, 0, bytes, os_pages + 1);
  for (uint64_t at = 0; at < bytes + 5000; at++) {
    written += object[at];
    last = object[at] ? at : last;
  }
  if (written != os_pages || last >= bytes || last + bytes / os_pages + 4096 < bytes) {
    printf("%" PRIu64 " OS pages spread over %" PRIu64 " bytes: %" PRIu64 ", the last at %" PRIu64 "\n", os_pages,
           bytes, written, last);
    exit(1);
  }
  free(object);
}

/* Of an object whose number of touched OS pages is estimated, spread touches all, other policies that number. */
static void check_estimated(enum touch_policy policy, uint64_t bytes, uint64_t os_pages) {
  uint8_t *object = calloc(1, bytes + 5000);
  uint64_t written = 0, wanted = policy == TOUCH_SPREAD ? (bytes + 4095) / 4096 : os_pages;
  touch_setup(policy, TOUCH_BOUND_BYTES);
  touch_object(object, 0, bytes, touched_payload(os_pages + 1, 0) | TOUCHED_ESTIMATED);
  for (uint64_t at = 0; at < bytes; at += 4096)
    written += memchr(object + at, 1, bytes - at < 4096 ? bytes - at : 4096) != NULL;
  if (written != wanted) {
    printf("policy %d: %" PRIu64 " OS pages, not %" PRIu64 "\n", (int)policy, written, wanted);
    exit(1);
  }
  free(object);
}

int main(void) {
  for (enum touch_policy policy = TOUCH_RECORDED; policy <= TOUCH_LEAST; policy++)
    check_estimated(policy, 100000, 3);
  static const uint64_t sizes[] = {0,   1,   15,  16,  63,   64,   65,   127,  128,   129,   191,   192,
                                   193, 255, 256, 257, 4095, 4096, 4097, 8192, 12289, 65536, 65537, 70000};
  static const uint64_t bounds[] = {TOUCH_BOUND_BYTES, 0, 1, 64, 65, 300, 4096, 1 << 20};
  unsigned count = sizeof sizes / sizeof *sizes;
  for (unsigned bound = 0; bound < sizeof bounds / sizeof *bounds; bound++) {
    /* The bound applies to the first two policies only. */
    for (enum touch_policy policy = TOUCH_RECORDED; policy <= (bound ? TOUCH_LINES : TOUCH_NONE); policy++) {
      touch_setup(policy, bounds[bound]);
      for (unsigned old = 0; old < count; old++) {
        for (unsigned new = 0; new < count; new ++) {
          check(policy, sizes[old], sizes[new]);
          if (bound > 0)
            continue;
          check_before_realloc(policy, sizes[old], sizes[new], UNKNOWN);
          check_before_realloc(policy, sizes[old], sizes[new], 2);
        }
      }
    }
  }
  touch_setup(TOUCH_RECORDED, TOUCH_BOUND_BYTES);
  for (unsigned size = 0; size < count; size++)
    for (uint64_t os_pages = 0; os_pages < 20; os_pages++)
      check_known(sizes[size], os_pages);
  check_spread(4 << 20, 128);
  check_spread(5000000, 7);
  touch_setup(TOUCH_RECORDED, TOUCH_BOUND_BYTES);
  check_parts(4 << 20, (struct touched){128, UINT32_MAX});
  check_parts(4 << 20, (struct touched){33, 0x80000001});
  check_parts((4 << 20) - 5000, (struct touched){70, 0xf0f0f0f0});
  check_parts(600000, (struct touched){3, 0x200});
  check_parts(70 << 20, (struct touched){5, 1u << 17 | 1});
  return 0;
}
